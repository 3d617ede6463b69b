package answers

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Nominee is the pods that are nominated to a row's node and come before the pod that is
// being decided. The row has to take this pod both with them and without them (upstream's RunFilterPluginsWithNominatedPods).
// The same pointer stands for the same pods.
type Nominee struct {
	Row    cache.Row
	Usages []*pb.PodUsage
	// Volumes are the differences that the pods make to the counters of the node's volumes.
	Volumes []*pb.CounterValue
	// Spread is how many of the pods each hard constraint counts besides its counters.
	Spread []int64
	// Claims is how many volumes of the pods name a ReadWriteOncePod claim of the pod that is being decided.
	Claims int64
}

// Join adds the pods to a row's totals. volumes are the differences that they make to the counters of the node's volumes.
func (n *Nominee) Join(totals *scorer.RowTotals, volumes []*pb.CounterValue) {
	for _, u := range n.Usages {
		totals.AddPod(u)
	}
	totals.AddCounters(volumes, 1)
}

// AddTo adds to a row's verdict what no counter holds of the nominated pods. Without a disk, and with none of its
// claims in use, a pod is skipped by VolumeRestrictions' PreFilter: then Claims do not count. In a dry run the
// scorer decides that.
func (n *Nominee) AddTo(v *scorer.Verdict, q *pb.Query, dry bool) {
	hard := q.GetSpread().GetHard()
	for i, more := range n.Spread {
		place := hard[i].GetPlace()
		m := &v.Measured[place.GetMeasure()]
		if more == 0 || !m.Included {
			continue
		}
		// Constraints may have a measure in common, a row value too, or a measure alone.
		if !slices.ContainsFunc(hard[:i], func(c *pb.HardConstraint) bool { return c.GetPlace().GetMeasure() == place.GetMeasure() }) {
			m.Value += more
		}
		in, ok := place.GetIn().(*pb.Place_RowValue)
		if ok && v.Passed && !slices.ContainsFunc(hard[:i], func(c *pb.HardConstraint) bool { return isRowValue(c, in.RowValue) }) {
			v.Key.Values[in.RowValue] += more
		}
	}
	if n.Claims > 0 && (dry || len(q.GetVolumeRestrictions().GetDisks()) > 0) {
		v.Measured[q.GetVolumeRestrictions().GetClaims()[0]].Value += n.Claims
	}
}

// isRowValue tells whether a constraint reads a row value.
func isRowValue(c *pb.HardConstraint, value uint32) bool {
	in, ok := c.GetPlace().GetIn().(*pb.Place_RowValue)
	return ok && in.RowValue == value
}

// scratchRow is scratch memory for judging one row by itself.
type scratchRow struct {
	totals   scorer.RowTotals
	verdict  scorer.Verdict
	result   scorer.Result
	standing scorer.Standing
	reasons  []scorer.Reason
	claims   uint64 // that are not for the row, as bits
}

// RefusedWith is why a row refuses a class if it also holds the pods of a nominee; nil: none. The class is the answer's class, or
// the same class without the PreFilters that narrow its nodes. The reasons are valid until the next call.
func (a *Answer) RefusedWith(row cache.Row, n *Nominee, class *scorer.Class) []scorer.Reason {
	if n == nil {
		n = &Nominee{}
	}
	_, reasons := a.refusedWith(a.at(row), n, class)
	return reasons
}

func (a *Answer) refusedWith(at int, n *Nominee, class *scorer.Class) (refused bool, reasons []scorer.Reason) {
	e := a.engine
	r, x := &a.repaired[at], &a.scratch
	table := e.tables.Table(int(r.row.Shard))
	table.Totals(r.row.Index, &x.totals)
	n.Join(&x.totals, n.Volumes)
	e.work.Judged++
	e.eval.Row(table, r.row.Index, &x.totals, class, a.diagnosed, &x.verdict)
	n.AddTo(&x.verdict, class.Query(), false)
	x.reasons, x.claims = x.reasons[:0], 0
	if !x.verdict.Passed {
		_, why := e.eval.Reasons(table, r.row.Index, &x.totals, class)
		x.reasons = append(x.reasons, why...)
		return true, x.reasons
	}
	if !class.FiltersGroups() && x.verdict.Key.LateFilter == 0 {
		return false, nil
	}
	shape := a.shape
	group := a.groupOf(&x.verdict)
	a.move(r.group, a.measuredOf(r), -1)
	a.move(group, x.verdict.Measured, +1)
	a.settle()
	refused = !a.standing.Groups[group].Feasible && !a.standing.Groups[group].Failing
	if refused {
		_, why := a.class.GroupReasons(a.result, &a.standing, group)
		x.reasons = append(x.reasons, why...)
		x.claims = a.class.UnavailableClaims(a.result, &a.standing, group)
	}
	a.move(group, x.verdict.Measured, -1)
	a.move(r.group, a.measuredOf(r), +1)
	a.shape = shape
	return refused, x.reasons
}

// veto takes those rows out of the answer that refuse the pod with their nominees, until the next call. It
// is false where the answer does not serve then, because a vetoed row has one of its maxima.
//
// The verdict of a row with its nominee holds until either changes. If a filter of the class depends on other
// rows too, it holds until the shape of the answer changes.
func (a *Answer) veto(nominees []*Nominee) bool {
	serves, grouped := true, a.class.FiltersGroups()
	a.round++
	for _, n := range nominees {
		at := a.at(n.Row)
		r := &a.repaired[at]
		if r.round = a.round; r.checked != n || grouped && r.shape != a.shape {
			a.lift(r)
			a.check(at, n)
			r = &a.repaired[at]
		}
		serves = serves && !(r.vetoed && r.extreme)
	}
	// Lift the vetoes of rows that have no nominee any more.
	kept := a.vetoes[:0]
	for _, at := range a.vetoes {
		r := &a.repaired[at]
		if r.vetoed && r.round != a.round {
			a.lift(r)
		}
		if r.listed = r.vetoed; r.vetoed {
			kept = append(kept, at)
		}
	}
	a.vetoes = kept
	return serves
}

// check judges a row with its nominee, and vetoes the row if it refuses the pod.
func (a *Answer) check(at int, n *Nominee) {
	refused, reasons := a.refusedWith(at, n, a.class)
	r := &a.repaired[at]
	r.checked, r.shape = n, a.shape
	if !refused {
		return
	}
	r.vetoed, r.vetoClaims = true, a.scratch.claims
	if !r.listed {
		r.listed = true
		a.vetoes = append(a.vetoes, at)
	}
	a.countVeto(r, -1)
	if a.diagnosed {
		a.countReasons(r.reasons, -1)
		r.vetoReasons = append(r.vetoReasons[:0], reasons...)
		a.countReasons(r.vetoReasons, +1)
	}
}

// lift undoes the veto of a row, if there is one.
func (a *Answer) lift(r *repairedRow) {
	r.checked = nil
	if !r.vetoed {
		return
	}
	r.vetoed = false
	a.countVeto(r, +1)
	if a.diagnosed {
		a.countReasons(r.vetoReasons, -1)
		a.countReasons(r.reasons, +1)
	}
}

// countVeto takes a row out of its group, or puts it back. Its share in the measures stays.
func (a *Answer) countVeto(r *repairedRow, by int) {
	if r.group >= 0 {
		a.result.Groups[r.group].Rows += by
		a.result.Feasible += by
		a.settled = false
	}
}

// liftVetoes undoes veto.
func (a *Answer) liftVetoes() {
	for _, at := range a.vetoes {
		r := &a.repaired[at]
		a.lift(r)
		r.listed = false
	}
	a.vetoes = a.vetoes[:0]
}

// Alone is the choice of one row, with the score that it has as the only row; false: it is not feasible.
func (a *Answer) Alone(row cache.Row) (Choice, bool) {
	r, x := &a.repaired[a.at(row)], &a.scratch
	a.settle()
	if !a.passes(r) {
		return Choice{}, false
	}
	choice := Choice{Row: row, Feasible: 1, from: a}
	if a.result.Normalised {
		key := r.raw[:a.class.KeyLen()]
		choice.Score = r.local - a.class.GroupScore(key, a.result.Extrema) + a.class.GroupScore(key, key)
		return choice, true
	}
	x.result.Reset(a.class.ID(), 0)
	x.result.Measures = a.result.Measures
	x.result.Groups = append(x.result.Groups, scorer.Group{Key: a.result.Groups[r.group].Key, Rows: 1})
	a.class.Settle(&x.result, &x.standing)
	choice.Score = r.local + x.standing.Groups[0].Score
	x.result.Measures = nil
	return choice, true
}
