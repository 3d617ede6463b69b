package fanout

import (
	"cmp"
	"slices"
)

// shares gives shards out by rank and by what is each member's share, for a round takes as long
// as the member with the most. Indices are those of members.
//
// Who has a shard keeps it unless that is more than a share, so that nothing moves but what a
// member that leaves has had, and as much as one that joins is to have. A share is no promise: where
// all that do not refuse a shard have theirs, one of them has more.
type shares struct {
	members []Member
	refused func(shard uint32, member int) bool
	ranking [][]int // of each shard: some of the members that do not refuse it, the best one first
	kept    [][]int // of each shard: the members that have it, first to last; -1: one that is gone
	given   [][]int
	first   holding // as a shard's first owner
	all     holding // as any of a shard's owners
}

// holding is how many shards each member has, and how many are its share.
type holding struct{ has, share []int }

// full says that a member has its share.
func (h *holding) full(m int) bool { return h.has[m] >= h.share[m] }

// load is how much of its share a member has.
func (h *holding) load(m int) float64 { return float64(h.has[m]) / float64(h.share[m]) }

// newHolding shares that many places out by cores.
func newHolding(places int, members []Member) holding {
	h := holding{has: make([]int, len(members)), share: make([]int, len(members))}
	cores := 0
	for _, m := range members {
		cores += int(max(m.Cores, 1))
	}
	for i, m := range members {
		h.share[i] = (places*int(max(m.Cores, 1)) + cores - 1) / cores
	}
	return h
}

// preferred is how many members a ranking names.
const preferred = 8

// share gives each shard to replicas members, or to as many as do not refuse it. kept
// are those that have it, first to last, -1 for one that is gone; nil: nothing was given out yet.
func share(shards, replicas int, members []Member, refused func(shard uint32, member int) bool, kept [][]int) [][]int {
	x := &shares{
		members: members, refused: refused, ranking: owners(shards, max(preferred, replicas), members, refused), kept: kept,
		given: make([][]int, shards), first: newHolding(shards, members), all: newHolding(shards*min(replicas, len(members)), members),
	}
	if kept == nil {
		x.kept = make([][]int, shards)
	}
	x.keepFirst()
	x.fill(1, &x.first)
	x.keepOthers(replicas)
	x.fill(replicas, &x.all)
	return x.given
}

// fill gives each shard to as many members, if there are so many that take it.
func (x *shares) fill(replicas int, h *holding) {
	for s := range x.given {
		for len(x.given[s]) < replicas {
			m := x.choose(s, h)
			if m < 0 {
				break
			}
			x.give(s, m)
		}
	}
}

// give makes a member the next owner of a shard.
func (x *shares) give(s, m int) {
	if len(x.given[s]) == 0 {
		x.first.has[m]++
	}
	x.all.has[m]++
	x.given[s] = append(x.given[s], m)
}

// choose is who is to have a shard: one that has a copy, or one of the best, that is not full, or
// who has the least of its share; -1: nobody takes it.
func (x *shares) choose(s int, h *holding) int {
	for _, list := range [][]int{x.kept[s], x.ranking[s]} {
		if i := slices.IndexFunc(list, func(m int) bool { return x.takes(s, m) && !h.full(m) }); i >= 0 {
			return list[i]
		}
	}
	best := -1
	for m := range x.members {
		if !x.takes(s, m) {
			continue
		}
		if best < 0 || h.load(m) < h.load(best) || h.load(m) == h.load(best) && x.members[m].ID < x.members[best].ID {
			best = m
		}
	}
	return best
}

// takes says whether a member may become one more owner of a shard.
func (x *shares) takes(s, m int) bool {
	return m >= 0 && !slices.Contains(x.given[s], m) && !x.refused(uint32(s), m)
}

// tenure is a shard that a member has, and the member's place in its ranking.
type tenure struct{ shard, member, place int }

// tenures are those of some owners of each shard. Those come first that the ranking prefers: where
// somebody has too much, it is the others that go, to a member that came back for instance.
func (x *shares) tenures(owners func(shard int) []int) []tenure {
	var out []tenure
	for s := range x.kept {
		for _, m := range owners(s) {
			if m < 0 || x.refused(uint32(s), m) {
				continue
			}
			place := slices.Index(x.ranking[s], m)
			if place < 0 {
				place = len(x.ranking[s])
			}
			out = append(out, tenure{s, m, place})
		}
	}
	slices.SortFunc(out, func(a, b tenure) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.shard, b.shard),
			cmp.Compare(x.members[a.member].ID, x.members[b.member].ID))
	})
	return out
}

// keepFirst leaves shards to their first owners.
func (x *shares) keepFirst() {
	for _, t := range x.tenures(func(s int) []int { return x.kept[s][:min(1, len(x.kept[s]))] }) {
		if !x.first.full(t.member) {
			x.give(t.shard, t.member)
		}
	}
}

// keepOthers leaves shards to the others that have a copy, in their order.
func (x *shares) keepOthers(replicas int) {
	stays := map[tenure]bool{}
	count := make([]int, len(x.given))
	for s, list := range x.given {
		count[s] = len(list)
	}
	has := slices.Clone(x.all.has)
	for _, t := range x.tenures(func(s int) []int { return x.kept[s] }) {
		if count[t.shard] >= replicas || has[t.member] >= x.all.share[t.member] || slices.Contains(x.given[t.shard], t.member) {
			continue
		}
		t.place = 0
		stays[t] = true
		count[t.shard]++
		has[t.member]++
	}
	for s, list := range x.kept {
		for _, m := range list {
			if stays[tenure{shard: s, member: m}] {
				x.give(s, m)
			}
		}
	}
}
