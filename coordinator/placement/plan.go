package placement

import (
	"cmp"
	"slices"
)

// Question is what a gang of interchangeable members asks of a tree.
type Question struct {
	// Copies are how many members each domain takes: by the number of its key, and its place. The last is that of Tree.Anywhere.
	Copies [][]int64
	// Members is how many wait, and Need how many of them have to get a node at least.
	Members, Need int64
	// Scheduled is how many have a node already.
	Scheduled int64

	// Required is the key of the scopes; Tree.Anywhere: the whole cluster. Pinned is the only scope that counts; nil: all of them.
	Required int
	Pinned   *Domain
	// Preferred are the keys of the levels, the narrowest first. Near has for each of them the domain that all scheduled members are in:
	// no other counts. A nil Near: nobody is scheduled. A nil entry: they are in several, so that the level is given up.
	Preferred []int
	Near      []*Domain
	// Slice is the key of the slices, each of SliceSize members; SliceSize 0: there are no slices. Held is how many scheduled members
	// each domain of the key has; nil: none.
	Slice     int
	SliceSize int64
	Held      []int64

	// Fit is a scope's MostAllocated with so many members proposed.
	Fit     func(scope Domain, members int64) int64
	Weights Weights
}

// Share is so many members, in order, that go into one domain.
type Share struct {
	Domain
	Members int64
}

// Plan is where a gang goes.
type Plan struct {
	// Domain is the best one. Fits is how many of the members that wait it takes: fewer than are needed if no domain takes enough.
	Domain
	Fits int64
	// Shares say which members go where; their sum is Fits. None if no domain takes enough.
	Shares []Share
}

// planner answers one question.
type planner struct {
	*Question
	tree *Tree
	// waiting and need leave out the members of slices that were begun before, and begun says where those go.
	waiting, need int64
	begun         []Share
	filled        int64
	// room is how many members each domain of the slice key takes, less those of begun slices, which are taken.
	room, taken []int64
	caps        map[int][]capacity
	// lists are the domains of the second key in each domain of the first.
	lists map[[2]int][][]int32
}

// capacity is how many members a domain takes.
type capacity struct {
	// copies are all without slices, and else those in whole slices. odd is the most beside whole slices in one domain of the slice key.
	copies, odd int64
}

// takes is how many of so many members fit in: in whole slices, but for the last, which may be smaller.
func (c capacity) takes(members, size int64) int64 {
	if size == 0 || c.copies >= members {
		return min(c.copies, members)
	}
	if rest := members % size; rest <= c.odd {
		return c.copies + rest
	}
	return c.copies
}

// Plan finds the domain for a gang, and where in it each member goes. An error is the status of the group.
func (t *Tree) Plan(q *Question) (Plan, error) {
	p := &planner{Question: q, tree: t, waiting: q.Members, need: q.Need, caps: map[int][]capacity{}, lists: map[[2]int][][]int32{}}
	p.fillSlices()
	scopes := p.scopes()
	plan, enough := p.bestOf(scopes)
	if !enough {
		plan.Fits += p.filled
		return plan, nil
	}
	var target int64
	for _, s := range scopes {
		target = max(target, p.takes(s))
	}
	d, found := p.level(target)
	if !found {
		var err error
		if d, err = p.scope(scopes); err != nil {
			return Plan{}, err
		}
	}
	plan = Plan{Domain: d, Fits: p.takes(d), Shares: p.begun}
	plan.Shares = append(plan.Shares, p.shares(d, plan.Fits)...)
	plan.Fits += p.filled
	return plan, nil
}

// scopes are the domains that the gang may be in.
func (p *planner) scopes() []Domain {
	if p.Pinned != nil {
		return []Domain{*p.Pinned}
	}
	scopes := make([]Domain, len(p.tree.values[p.Required]))
	for at := range scopes {
		scopes[at] = Domain{Key: p.Required, At: at}
	}
	return scopes
}

// takes is how many waiting members a domain takes.
func (p *planner) takes(d Domain) int64 { return p.capacity(d).takes(p.waiting, p.SliceSize) }

// bestOf is the scope that takes the most, and whether it takes enough.
func (p *planner) bestOf(scopes []Domain) (best Plan, enough bool) {
	best.Domain = Domain{Key: p.Required, At: -1}
	var left int64
	for i, d := range scopes {
		takes := p.takes(d)
		more := p.capacity(d).copies - takes
		if i == 0 || takes > best.Fits || takes == best.Fits && before(more, p.tree.Value(d), left, p.tree.Value(best.Domain)) {
			best, left = Plan{Domain: d, Fits: takes}, more
		}
	}
	return best, len(scopes) > 0 && best.Fits >= p.need
}

// scope is the scope that upstream's plugins choose.
func (p *planner) scope(scopes []Domain) (Domain, error) {
	var enough []Domain
	var candidates []Candidate
	for _, d := range scopes {
		takes := p.takes(d)
		if takes < p.need {
			continue
		}
		enough = append(enough, d)
		candidates = append(candidates, Candidate{
			Value: p.tree.Value(d), Members: p.Scheduled + p.filled + takes, Fit: p.Fit(d, p.filled+takes), Left: p.capacity(d).copies - takes,
		})
	}
	best, err := Best(candidates, p.Weights)
	return enough[best], err
}

// level is the smallest domain of the narrowest level that takes the target and lies in a scope that does.
func (p *planner) level(target int64) (best Domain, found bool) {
	for i, key := range p.Preferred {
		var least int64
		for at := range p.tree.values[key] {
			d := Domain{Key: key, At: at}
			if p.Near != nil && (p.Near[i] == nil || *p.Near[i] != d) || !p.inScope(d) || p.takes(d) < target {
				continue
			}
			if has := p.capacity(d).copies; !found || before(has, p.tree.Value(d), least, p.tree.Value(best)) {
				best, least, found = d, has, true
			}
		}
		if found {
			return best, true
		}
	}
	return Domain{}, false
}

// inScope tells whether a domain lies in one of the scopes.
func (p *planner) inScope(d Domain) bool {
	scope := p.tree.in(d, p.Required)
	return scope != nowhere && (p.Pinned == nil || int(scope) == p.Pinned.At)
}

// capacity is what a domain takes.
func (p *planner) capacity(d Domain) capacity {
	of := p.caps[d.Key]
	if of == nil {
		of = p.capacities(d.Key)
		p.caps[d.Key] = of
	}
	return of[d.At]
}

// capacities are what the domains of a key take. With slices, a domain that lies in one of the slice key takes what it has room for;
// others take what those that lie in them do.
func (p *planner) capacities(key int) []capacity {
	sums := p.Copies[key]
	of := make([]capacity, len(sums))
	if p.SliceSize == 0 {
		for at, sum := range sums {
			of[at].copies = sum
		}
		return of
	}
	inSlice, slicesIn := p.tree.inside[key][p.Slice], p.tree.inside[p.Slice][key]
	for at, sum := range sums {
		if in := inSlice[at]; in != nowhere {
			filled := p.taken[in] // these may have taken room in this domain, but for the slice key's own, whose room knows
			if key == p.Slice {
				filled = 0
			}
			of[at].add(max(min(sum, p.room[in])-filled, 0), p.SliceSize)
		}
	}
	for sub, room := range p.room {
		if in := slicesIn[sub]; in != nowhere && inSlice[in] == nowhere {
			of[in].add(room, p.SliceSize)
		}
	}
	return of
}

// add adds the room of a domain of the slice key.
func (c *capacity) add(room, size int64) {
	c.copies = Sum(c.copies, room-room%size)
	c.odd = max(c.odd, room%size)
}

// fillSlices puts members where slices were begun before and lack some. What lacks there and has no room waits: it belongs nowhere else.
func (p *planner) fillSlices() {
	if p.SliceSize == 0 {
		return
	}
	p.room, p.taken = slices.Clone(p.Copies[p.Slice]), make([]int64, len(p.Copies[p.Slice]))
	for sub, held := range p.Held {
		lacks := min((p.SliceSize-held%p.SliceSize)%p.SliceSize, p.waiting)
		if lacks == 0 {
			continue
		}
		p.waiting -= lacks
		if fits := min(lacks, p.room[sub]); fits > 0 {
			p.room[sub], p.taken[sub] = p.room[sub]-fits, fits
			p.filled += fits
			p.begun = append(p.begun, Share{Domain: Domain{Key: p.Slice, At: sub}, Members: fits})
		}
	}
	p.need = max(p.need-p.filled, 0)
}

// shares spread members of a domain over as few domains of each narrower level as possible, the widest level first.
func (p *planner) shares(d Domain, members int64) []Share {
	narrower := p.Preferred
	if i := slices.Index(p.Preferred, d.Key); i >= 0 {
		narrower = p.Preferred[:i]
	}
	var levels []int
	for _, key := range slices.Backward(narrower) {
		if p.SliceSize == 0 || !p.tree.nests(key, p.Slice) {
			levels = append(levels, key)
		}
	}
	if p.SliceSize == 0 {
		return p.spread(d, members, levels, 1)
	}
	if p.tree.in(d, p.Slice) == nowhere {
		levels = append(levels, p.Slice)
	}
	odd := members % p.SliceSize
	return p.oddSlice(p.spread(d, members-odd, levels, p.SliceSize), d, odd)
}

// spread gives a domain so many members, in multiples of unit, and spreads them over its domains of the next level: the largest are
// filled, and what is left goes into the smallest that takes it. What is beside the domains of the level is spread by the next level,
// and stays with the domain itself behind the last.
func (p *planner) spread(d Domain, members int64, levels []int, unit int64, above ...int) []Share {
	if members == 0 {
		return nil
	}
	if len(levels) == 0 {
		return []Share{{d, members}}
	}
	key := levels[0]
	children := p.children(d, key, unit, above)
	var shares []Share
	for i := 0; i < len(children) && members > 0; i++ {
		child, gets := children[i], min(children[i].has, members)
		if gets == members { // the last one: the smallest that takes the rest
			for _, c := range children[i:] {
				if c.has >= members && c.has < child.has {
					child = c
				}
			}
		}
		shares = append(shares, p.spread(Domain{Key: key, At: child.at}, gets, levels[1:], unit)...)
		members -= gets
	}
	return append(shares, p.spread(d, members, levels[1:], unit, append(above, key)...)...)
}

// child is a domain that lies in another, and how many members it takes, in multiples of the unit.
type child struct {
	at  int
	has int64
}

// children are the domains of a key that lie in a domain, but in none of the levels above that lies in it, too. The one with the most
// comes first.
func (p *planner) children(d Domain, key int, unit int64, above []int) []child {
	lists := p.lists[[2]int{d.Key, key}]
	if lists == nil {
		lists = make([][]int32, len(p.tree.values[d.Key]))
		for at, in := range p.tree.inside[key][d.Key] {
			if in != nowhere {
				lists[in] = append(lists[in], int32(at))
			}
		}
		p.lists[[2]int{d.Key, key}] = lists
	}
	var of []child
	for _, at := range lists[d.At] {
		c := Domain{Key: key, At: int(at)}
		copies := p.capacity(c).copies
		covered := p.cutsSlice(c) || slices.ContainsFunc(above, func(level int) bool {
			in := p.tree.in(c, level)
			return in != nowhere && p.tree.inside[level][d.Key][in] == int32(d.At)
		})
		if copies -= copies % unit; copies > 0 && !covered {
			of = append(of, child{c.At, copies})
		}
	}
	values := p.tree.values[key]
	slices.SortFunc(of, func(a, b child) int {
		return cmp.Or(-cmp.Compare(a.has, b.has), CompareValues(values[a.at], values[b.at]))
	})
	return of
}

// cutsSlice tells whether a domain is a part of one of the slice key: slices are not spread over such parts.
func (p *planner) cutsSlice(d Domain) bool {
	if p.SliceSize == 0 {
		return false
	}
	in := p.tree.in(d, p.Slice)
	return in != nowhere && p.tree.inside[p.Slice][d.Key][in] == nowhere
}

// oddSlice adds the last slice, which has fewer members than the others, in the domain that has the least room for it.
func (p *planner) oddSlice(shares []Share, d Domain, members int64) []Share {
	if members == 0 {
		return shares
	}
	if p.tree.in(d, p.Slice) != nowhere {
		return append(shares, Share{d, members})
	}
	left := slices.Clone(p.room)
	for _, s := range shares {
		left[s.At] -= s.Members
	}
	best := -1
	for sub, room := range left {
		if p.tree.inside[p.Slice][d.Key][sub] != int32(d.At) || room < members {
			continue
		}
		values := p.tree.values[p.Slice]
		if best < 0 || cmp.Or(cmp.Compare(room, left[best]), CompareValues(values[sub], values[best])) < 0 {
			best = sub
		}
	}
	return append(shares, Share{Domain{Key: p.Slice, At: best}, members})
}
