package scorer

import (
	"cmp"
	"slices"
)

// Preemption asks where a pod of a class would fit if pods of lower priority left.
type Preemption struct {
	// Priority is the pod's own.
	Priority int32
	// NowMicros is when pods started that have not, in microseconds since 1970.
	NowMicros int64
	// Budgets are those in force, sorted by ID. What a pod names beside them does not count.
	Budgets []Budget
	// Skip are rows that are passed over: sorted by shard and row.
	Skip []RowRef
	// Only are the rows that are tried, sorted likewise; nil: all. PreemptRow tries any. Messages don't carry it, nor Units.
	Only []RowRef
	// Units are the pods that leave with others; nil: there are none.
	Units Units
	// Whole is the class's answer over the whole cluster, of which the measures are read; nil
	// will do where the class has no group part.
	Whole *Result
	// All is how many candidates to find; 0: only the best.
	All int
	// Steps is as in Options.
	Steps int64
}

// Limit is how many candidates are to be found.
func (p *Preemption) Limit() int { return max(p.All, 1) }

// Budget is a PodDisruptionBudget: a number, and how many of its pods may leave.
type Budget struct {
	ID      uint32
	Allowed int32
}

// RowRef names a row.
type RowRef struct{ Shard, Row uint32 }

// Compare orders rows by shard and row.
func (r RowRef) Compare(o RowRef) int {
	return cmp.Or(cmp.Compare(r.Shard, o.Shard), cmp.Compare(r.Row, o.Row))
}

// Skips tells whether a row is passed over.
func (p *Preemption) Skips(row RowRef) bool {
	if len(p.Skip) == 0 {
		return false
	}
	_, found := slices.BinarySearchFunc(p.Skip, row, RowRef.Compare)
	return found
}

// PreemptionCandidate is a row that would take the pod if its victims left.
type PreemptionCandidate struct {
	Shard, Row uint32
	// Victims are numbers of pods, most important first; at least one.
	Victims []uint64
	// Elsewhere is how many more pods leave other rows with them, less those of Victims that leave anyway. What follows counts them
	// as it counts Victims.
	Elsewhere int
	// Violations is how many of them leave against a budget.
	Violations int
	// TopPriority is that of the first victim.
	TopPriority int32
	// PrioritySum adds up the victims' priorities, each plus 2³¹.
	PrioritySum uint64
	// EarliestStart is when the first of the victims with TopPriority started, in
	// microseconds since 1970.
	EarliestStart int64

	// LastDecision, NameHash and Name are the row's columns of the tie rule.
	LastDecision, NameHash uint64
	Name                   string
}

// leaving is how many pods leave for it.
func (c *PreemptionCandidate) leaving() int { return len(c.Victims) + c.Elsewhere }

// BeforeCandidate is the order in which candidates are chosen: fewer violated budgets,
// the lower top priority, the smaller sum of priorities, fewer victims, the later earliest
// start; then the tie rule, as Before. Names are unique in a cluster, so the order is total
// and does not depend on how nodes are spread over shards and rows.
//
// Differs from upstream: there the last step is any of the best, in the order of a map; and
// all nodes are tried, not a sample.
func BeforeCandidate(a, b *PreemptionCandidate) bool { return comparePreemptions(a, b) < 0 }

func comparePreemptions(a, b *PreemptionCandidate) int {
	switch {
	case a.Violations != b.Violations:
		return cmp.Compare(a.Violations, b.Violations)
	case a.TopPriority != b.TopPriority:
		return cmp.Compare(a.TopPriority, b.TopPriority)
	case a.PrioritySum != b.PrioritySum:
		return cmp.Compare(a.PrioritySum, b.PrioritySum)
	case a.leaving() != b.leaving():
		return cmp.Compare(a.leaving(), b.leaving())
	case a.EarliestStart != b.EarliestStart:
		return cmp.Compare(b.EarliestStart, a.EarliestStart)
	case a.LastDecision != b.LastDecision:
		return cmp.Compare(a.LastDecision, b.LastDecision)
	case a.NameHash != b.NameHash:
		return cmp.Compare(a.NameHash, b.NameHash)
	}
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Row, b.Row))
}

// PreemptionResult is a dry run's answer over any set of tables. Results over disjoint sets
// add up by Merge, in any order and grouping, to the answer over all.
type PreemptionResult struct {
	ClassID uint64
	// Tried is how many rows were: those that refuse the pod in a way that preemption may
	// help.
	Tried int
	// Candidates are the best of them, best first.
	Candidates []PreemptionCandidate
	// Reasons say why rows that were tried are no candidates, sorted by plugin and text.
	Reasons []ReasonCount
	// Failing are rows that were tried and fail the pod instead (Standing.Failing): the first MaxFailingRows by name.
	Failing []FailingRow
	// Failed is as Result.Failed.
	Failed error
	// Witnesses are the caller's: Merge leaves them as they are.
	Witnesses Witnesses

	// limit is how many candidates are kept.
	limit int
}

// MaxFailingRows is how many rows a dry run names that fail the pod: the text that tells of them is for people.
//
// Differs from upstream: it tells of all, in the order in which it comes by them.
const MaxFailingRows = 16

// FailingRow is a row that fails the pod.
type FailingRow struct {
	Shard, Row uint32
	Name       string
}

// Best is the first candidate, nil where there is none.
func (r *PreemptionResult) Best() *PreemptionCandidate {
	if len(r.Candidates) == 0 {
		return nil
	}
	return &r.Candidates[0]
}

// Reset empties the result for a class. It keeps the memory.
func (r *PreemptionResult) Reset(classID uint64, limit int) {
	*r = PreemptionResult{ClassID: classID, Candidates: r.Candidates[:0], Reasons: r.Reasons[:0], Failing: r.Failing[:0],
		Witnesses: r.Witnesses[:0], limit: max(limit, 1)}
}

// Merge adds the answer over other rows. It copies what it needs of o.
func (r *PreemptionResult) Merge(o *PreemptionResult) {
	r.Failed = cmp.Or(r.Failed, o.Failed)
	r.limit = max(r.limit, o.limit)
	r.Tried += o.Tried
	for _, c := range o.Reasons {
		r.AddReason(Reason{c.Plugin, c.Text, c.Unresolvable}, c.Nodes)
	}
	for i := range o.Candidates {
		r.add(&o.Candidates[i])
	}
	for _, x := range o.Failing {
		r.AddFailing(x)
	}
	r.cut()
}

// AddFailing adds a row that fails the pod.
func (r *PreemptionResult) AddFailing(x FailingRow) {
	i, _ := slices.BinarySearchFunc(r.Failing, x, compareFailing)
	r.Failing = slices.Insert(r.Failing, i, x)
	r.Failing = r.Failing[:min(len(r.Failing), MaxFailingRows)]
}

func compareFailing(a, b FailingRow) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Row, b.Row))
}

// AddReason counts n more rows for a reason.
func (r *PreemptionResult) AddReason(why Reason, n int) {
	i, found := slices.BinarySearchFunc(r.Reasons, why, compareReasons)
	if !found {
		r.Reasons = slices.Insert(r.Reasons, i, ReasonCount{Plugin: why.Plugin, Text: why.Text, Unresolvable: why.Unresolvable})
	}
	r.Reasons[i].Nodes += n
}

// cut leaves the best candidates, in order.
func (r *PreemptionResult) cut() {
	slices.SortFunc(r.Candidates, func(a, b PreemptionCandidate) int { return comparePreemptions(&a, &b) })
	if len(r.Candidates) > r.limit {
		clear(r.Candidates[r.limit:])
		r.Candidates = r.Candidates[:r.limit]
	}
}

// add keeps a candidate if it is among the best.
func (r *PreemptionResult) add(c *PreemptionCandidate) {
	n := len(r.Candidates)
	if n > 0 && r.limit == 1 {
		if BeforeCandidate(c, &r.Candidates[0]) {
			r.Candidates[0].set(c)
		}
		return
	}
	r.Candidates = append(r.Candidates, PreemptionCandidate{})
	r.Candidates[n].set(c)
	// Twice the limit at the most: a sort for each limit candidates.
	if n+1 >= 2*r.limit {
		r.cut()
	}
}

// set makes c a copy of o in its own memory.
func (c *PreemptionCandidate) set(o *PreemptionCandidate) {
	victims := append(c.Victims[:0], o.Victims...)
	*c = *o
	c.Victims = victims
}
