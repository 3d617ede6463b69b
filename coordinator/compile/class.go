package compile

import (
	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Class is what pods with the same scheduling-relevant spec have in common. It
// is immutable.
type Class struct {
	// Query is nil where Rejected is set.
	Query *pb.Query
	// Scorer is Query made ready for evaluation, nil where Query is.
	Scorer *scorer.Class
	// Rejected is set where the pod fits nowhere, whatever the nodes are.
	Rejected *Rejection
	// Volatile tells that placing other pods may lead to another class for the same pod
	// (they take volumes): it is to be compiled again at its turn, where
	// Volumes.Version has moved since.
	Volatile bool
	// Claims tells that the pod has claims of devices, or extended resources that devices may serve. Placing other pods may
	// lead to another class for it, too: a claim that pods share is allocated once.
	Claims bool
	// ScoreError is upstream's error of PreScore. It counts only where more than
	// one node is feasible: upstream does not score a single one.
	ScoreError error
	// HardSelectors are those of Query.spread.hard, in that order.
	HardSelectors []*selector.Selector
	// Base is the class of Query without what it counts (scorer.BaseQuery), where it counts anything and
	// is not Volatile: classes that differ in selectors alone share it.
	Base *Class
	// Matched tells apart by what the labels of pods are matched: the terms of other pods, and Services under hard default constraints.
	// Whatever else pods of one class and the same Matched differ in, they stay of one class. Empty: by nothing.
	Matched string
	// Usage is what a pod of the class adds to its node.
	Usage *pb.PodUsage

	// failure is upstream's error of a PreFilter or Filter: there is no query then either.
	failure error
}

// ID is the query's class id, 0 where there is no query.
func (c *Class) ID() uint64 { return c.Query.GetClassId() }

// Within is the class for pods that may get only nodes with a label, with another id.
func (c *Class) Within(id uint64, label *pb.Label) *Class {
	in := *c
	in.Scorer = c.Scorer.Within(id, label)
	in.Query, in.Base = in.Scorer.Query(), nil
	return &in
}

// bytes is about what the class takes.
func (c *Class) bytes() int64 {
	if c.Scorer == nil {
		return 0
	}
	return c.Scorer.MemoryBytes()
}

// counters are those that the query refers to.
func (c *Class) counters() []uint32 {
	if c.Scorer == nil {
		return nil
	}
	return c.Scorer.Counters()
}

// Rejection is a PreFilter status that is not success.
type Rejection struct {
	// Plugins are the names of those that rejected, sorted.
	Plugins []string
	// Message is upstream's text, as it stands in a FitError after "0/5 nodes are
	// available: ".
	Message string
	// Unresolvable is true where preemption can not help either
	// (UnschedulableAndUnresolvable).
	Unresolvable bool
}
