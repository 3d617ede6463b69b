package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Observer is told when a pass over a table ends. The clock is the observer's: a
// pass took the time since the one before it. Rules that are scored together, some words at a time, end one behind the
// other: the first of them took the time of all, and that of finding the best rows.
type Observer interface {
	// Pass tells how many rows a plugin looked at, and how many it let through or
	// scored.
	Pass(p pb.Plugin, x pb.ExtensionPoint, rowsIn, rowsOut int)
}

// Options say what an answer shall hold.
type Options struct {
	// Candidates is how many a group offers at the most.
	Candidates int
	// Diagnose asks for the reasons of the rows that are refused.
	Diagnose bool
	// Normalise asks for the second of two rounds: all rows are one group with an
	// empty key, and scores are whole, with Extrema as the maximum of each
	// normalised plugin over the cluster's feasible rows.
	Normalise bool
	Extrema   []int64
	// Copies asks how many copies of the class rows take, over all of them and by the domains of the keys CopyKeys. Not with
	// Diagnose, and of no class that is Tied.
	Copies   bool
	CopyKeys []string
	// Measure asks for nothing but the measures that filters read (Class.Decisive), and copies.
	Measure bool
	// Steps is how many steps searches for devices may take over all tables; 0: any number. An evaluation that would take
	// more has failed with ErrUnfinished. Whoever evaluates several tables counts them (Evaluator.Allow).
	Steps int64
}

// Evaluator evaluates classes over tables. It holds scratch memory, so it serves one
// goroutine at a time, and should be used again.
type Evaluator struct {
	observer Observer
	part     Result
	groups   grouping
	columns  groupColumns
	codes    keyCodes

	rows, refused bitmap // feasible so far; refused by one rule
	any, term     bitmap // of a selector's terms
	exempt        bitmap // of what a filter asks
	aside         bitmap // rows that fail the pod
	keep          []uint8
	room          []int64 // by trait
	takes         []int64 // copies, by row
	domainSums    []int64 // of copies, by value of a label
	verdict       Verdict
	attached      []int64
	labelColumns  []*labelColumn
	keys          rawKeys
	local         localScores
	raw, others   []int64 // of local scores that are not computed by words
	whole         []int64 // local scores of all rows
	few           fewRows
	listScores    []int64
	scored        []scoredColumn
	expanded      expansion
	sums          []weighted
	with, without []float64
	counts, why   []int
	reasons       []Reason
	cel           celMemory
	scores        []PluginScore
	preempt       *dryRun // nil: none was asked for yet
	devices       deviceMemory
}

// NewEvaluator makes an evaluator; o may be nil.
func NewEvaluator(o Observer) *Evaluator { return &Evaluator{observer: o} }

// Renewed is an evaluator in the place of one whose evaluation has panicked, with which nothing else is done.
func (e *Evaluator) Renewed() *Evaluator {
	return &Evaluator{observer: e.observer, devices: deviceMemory{searches: e.devices.searches, left: e.devices.left}}
}

// Resumed is Renewed after ErrUnfinished: what is remembered of searches is whole.
func (e *Evaluator) Resumed() *Evaluator { return &Evaluator{observer: e.observer, devices: e.devices} }

// allKeep returns n flags, all v.
func (e *Evaluator) allKeep(n int, v uint8) []uint8 {
	e.keep = scratch(e.keep, n)
	for i := range e.keep {
		e.keep[i] = v
	}
	return e.keep
}
