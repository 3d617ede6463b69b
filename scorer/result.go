package scorer

import (
	"cmp"
	"slices"
)

// MaxGroups is how many groups a result holds of a class without a group part. With more
// distinct keys it overflows.
const MaxGroups = 32

// Result is a class's answer over any set of tables. Results over disjoint sets add
// up by Merge, in any order and grouping, to the answer over all.
type Result struct {
	ClassID uint64
	// Rows hold a node; Feasible ones are in a group. Without a group part those
	// passed every filter, else all those that the row itself decides.
	Rows, Feasible int
	// Groups are the feasible rows by key, sorted by key; those that Move opened stand
	// behind the others.
	Groups []Group
	// Overflow tells that there were more than MaxGroups keys: Groups is then empty,
	// and Extrema serves a second round.
	Overflow bool
	// Normalised tells that this is the second of two rounds: the one group has an
	// empty key, and its candidates carry the whole score.
	Normalised bool
	// Extrema are the maxima of the normalised plugins' raw scores over the feasible
	// rows, in the order of Key.Raw. Without feasible rows they are 0 or missing.
	Extrema []int64
	// Measures are in the order of Query.measures.
	Measures []MeasureResult
	// Reasons say why rows were refused, sorted by plugin and text; Hopeless is how many of these rows
	// have an unresolvable reason. Only where asked for.
	Reasons  []ReasonCount
	Hopeless int
	// Copies are those that rows take; nil: nobody has asked.
	Copies *Copies
	// Failed is why the class could not be evaluated over some table; nil: it was. Nothing else
	// counts otherwise.
	Failed error
	// Witnesses are the caller's: Merge leaves them as they are.
	Witnesses Witnesses

	// limit is how many candidates a group holds.
	limit int
	// barred tells that rows were left out below the bars of the answer that this one is added to: no row without a name is among
	// the best of the two together.
	barred bool
	// grouped tells that the class has a group part: then there may be any number of
	// groups.
	grouped bool
	// epoch counts what may have moved groups or cells to other places.
	epoch uint64
	index keyIndex
	// spare is memory for candidates while the result is merged into another, and contest for MergeAll.
	spare   []Candidate
	contest contest
}

// Group is the feasible rows with one key.
type Group struct {
	Key Key
	// Rows is how many feasible rows have the key.
	Rows int
	// Candidates are the best of them, best first: every other row of the group comes after the last one. None in a group
	// that can not be feasible.
	Candidates []Candidate
}

// reset empties the group and keeps its memory.
func (g *Group) reset() {
	g.Key.reset()
	*g = Group{Key: g.Key, Candidates: g.Candidates[:0]}
}

// Reset empties the result for a class, of which groups hold so many candidates. It
// keeps the memory.
func (r *Result) Reset(classID uint64, candidates int) {
	r.index.reset()
	*r = Result{
		ClassID:   classID,
		Groups:    r.Groups[:0],
		Extrema:   r.Extrema[:0],
		Measures:  r.Measures[:0],
		Reasons:   r.Reasons[:0],
		Witnesses: r.Witnesses[:0],
		limit:     max(candidates, 0),
		epoch:     r.epoch + 1,
		index:     r.index,
		spare:     r.spare[:0],
		contest:   r.contest,
	}
}

// Merge adds the answer over other tables. It copies what it needs of o, and uses what memory o has
// to spare.
func (r *Result) Merge(o *Result) {
	r.moved()
	r.add(o)
	if !r.Overflow {
		r.mergeGroups(o)
	}
}

// add adds all that Merge does, except the groups.
func (r *Result) add(o *Result) {
	r.Failed = cmp.Or(r.Failed, o.Failed)
	r.limit = max(r.limit, o.limit)
	r.Rows += o.Rows
	r.Feasible += o.Feasible
	r.Hopeless += o.Hopeless
	r.Normalised = r.Normalised || o.Normalised
	r.grouped = r.grouped || o.grouped
	r.raise(o.Extrema)
	for _, c := range o.Reasons {
		r.addReason(Reason{c.Plugin, c.Text, c.Unresolvable}, c.Nodes)
	}
	r.openMeasures(len(o.Measures))
	for i := range o.Measures {
		r.Measures[i].merge(&o.Measures[i])
	}
	if o.Copies != nil {
		if r.Copies == nil {
			r.Copies = &Copies{}
		}
		r.Copies.merge(o.Copies)
	}
	if o.Overflow {
		r.overflow()
	}
}

// moved notes that places change.
func (r *Result) moved() {
	r.epoch++
	r.index.reset()
	sortGroups(r.Groups)
}

// raise takes the maxima of extrema into the result's.
func (r *Result) raise(extrema []int64) {
	for i, v := range extrema {
		if i == len(r.Extrema) {
			r.Extrema = append(r.Extrema, v)
		}
		r.Extrema[i] = max(r.Extrema[i], v)
	}
}

func (r *Result) overflow() {
	r.Overflow = true
	r.Groups = r.Groups[:0]
}

// openMeasures makes room for n measures.
func (r *Result) openMeasures(n int) {
	for len(r.Measures) < n {
		if k := len(r.Measures); k < cap(r.Measures) {
			r.Measures = r.Measures[:k+1]
			r.Measures[k].reset(0)
		} else {
			r.Measures = append(r.Measures, MeasureResult{})
		}
	}
}

// addReason counts n more nodes for a reason.
func (r *Result) addReason(why Reason, n int) {
	i, found := slices.BinarySearchFunc(r.Reasons, why, compareReasons)
	if !found {
		r.Reasons = slices.Insert(r.Reasons, i, ReasonCount{Plugin: why.Plugin, Text: why.Text, Unresolvable: why.Unresolvable})
	}
	r.Reasons[i].Nodes += n
}

// openGroup appends an empty group, with the memory of one that was there before.
func (r *Result) openGroup() *Group {
	r.growGroups(1)
	return &r.Groups[len(r.Groups)-1]
}

// growGroups appends n empty groups.
func (r *Result) growGroups(n int) {
	have := len(r.Groups)
	r.Groups = slices.Grow(r.Groups[:cap(r.Groups)], max(0, have+n-cap(r.Groups)))[:have+n]
	for i := have; i < have+n; i++ {
		r.Groups[i].reset()
	}
}

// Move adds a row's share to the groups and measures (sign 1), or takes it (sign -1):
// what Evaluate would find with that row, or without it. It returns the row's group,
// which it opens at the end where it is new, and -1 where the verdict is in none. The
// places of groups stay; those without rows too. It touches neither Rows, the candidates,
// the extrema nor the reasons.
func (r *Result) Move(c *Class, v *Verdict, sign int) (group int) {
	group = r.GroupOf(v)
	r.MoveTo(c, group, v.Measured, sign)
	return group
}

// MoveTo is Move of a row whose group is known, with its share of the measures.
func (r *Result) MoveTo(c *Class, group int, measured []Measured, sign int) {
	r.openMeasures(len(measured))
	for i := range measured {
		r.Measures[i].move(c.group.measures[i].by, &measured[i], sign)
	}
	if group >= 0 {
		r.MoveRows(group, sign)
	}
}

// Holds tells whether a group is that of a row with that verdict; -1: none.
func (r *Result) Holds(group int, v *Verdict) bool {
	if group < 0 || !v.Passed {
		return group < 0 && !v.Passed
	}
	return r.Normalised || r.Groups[group].Key.Equal(&v.Key)
}

// GroupOf is the group of a row with that verdict, which it opens at the end, without
// rows, where it is new; -1 where the verdict is in none.
func (r *Result) GroupOf(v *Verdict) (group int) {
	if !v.Passed {
		return -1
	}
	key := &v.Key
	if r.Normalised {
		key = &Key{}
	}
	return r.GroupFor(key)
}
