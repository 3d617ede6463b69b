package scorer

import pb "github.com/shardsched/shardsched/proto/shardsched/v1"

// MaxKey is the largest number of normalised plugins.
const MaxKey = 2

// MaxGroups is how many groups a result holds; with more distinct keys it
// overflows.
const MaxGroups = 32

// Table is one shard as columns.
type Table struct {
	shard      uint32
	generation uint64
}

func NewTable(shard uint32) *Table { return &Table{shard: shard} }
func LoadTable(shard uint32, generation uint64, rows []*pb.SnapshotRow) (*Table, error) {
	return &Table{shard: shard, generation: generation}, nil
}
func (t *Table) Apply(d *pb.Delta) error                   { t.generation++; return nil }
func (t *Table) Generation() uint64                        { return t.generation }
func (t *Table) Shard() uint32                             { return t.shard }
func (t *Table) Nodes() int                                { return 0 }
func (t *Table) Rows() int                                 { return 0 }
func (t *Table) HasNode(row uint32) bool                   { return false }
func (t *Table) Name(row uint32) string                    { return "" }
func (t *Table) Snapshot(yield func(*pb.SnapshotRow) bool) {}
func (t *Table) MemoryBytes() int64                        { return 0 }
func (t *Table) Totals(row uint32, into *RowTotals)        {}

// Candidate is the row as a candidate with the given score.
func (t *Table) Candidate(row uint32, score int64) Candidate { return Candidate{} }

// RowTotals is the part of a row that pods add up to.
type RowTotals struct{}

// Class is a Query made ready for evaluation.
type Class struct{ query *pb.Query }

func NewClass(q *pb.Query) (*Class, error)             { return &Class{q}, nil }
func (c *Class) ID() uint64                            { return c.query.GetClassId() }
func (c *Class) Query() *pb.Query                      { return c.query }
func (c *Class) KeyLen() int                           { return 0 }
func (c *Class) GroupScore(key, extrema []int64) int64 { return 0 }

// Normalise is a plugin's score from 0 to 100.
func (c *Class) Normalise(p PluginScore, extrema []int64) int64 { return p.Raw }

type Observer interface {
	Pass(p pb.Plugin, x pb.ExtensionPoint, rowsIn, rowsOut int)
}
type Evaluator struct{ o Observer }

func NewEvaluator(o Observer) *Evaluator { return &Evaluator{o} }

type Options struct {
	Candidates int
	Diagnose   bool
	Normalise  bool
	Extrema    []int64
}

func (e *Evaluator) Evaluate(t *Table, c *Class, o Options, into *Result) {}

type Verdict struct {
	Feasible bool
	Key      [MaxKey]int64
	Local    int64
}

func (e *Evaluator) Row(t *Table, row uint32, totals *RowTotals, c *Class) Verdict { return Verdict{} }

type Reason struct {
	Plugin, Text string
	Unresolvable bool
}

func (e *Evaluator) Reasons(t *Table, row uint32, totals *RowTotals, c *Class) (plugin pb.Plugin, reasons []Reason) {
	return 0, nil
}

// PluginScore is what one score plugin gives a row.
type PluginScore struct {
	Plugin      pb.Plugin
	Raw, Weight int64
}

func (p PluginScore) Name() string { return PluginName(p.Plugin) }
func (e *Evaluator) Scores(t *Table, row uint32, totals *RowTotals, c *Class) []PluginScore {
	return nil
}
func (e *Evaluator) Shortfalls(t *Table, row uint32, totals *RowTotals, c *Class) []string {
	return nil
}

type Result struct {
	ClassID        uint64
	Rows, Feasible int
	Groups         []Group
	Overflow       bool
	// Normalised says that the rows are one group with an empty key, and scores are whole.
	Normalised bool
	Extrema    []int64
	Reasons    []ReasonCount
}
type Group struct {
	Key        []int64
	Rows       int
	Candidates []Candidate
}
type ReasonCount struct {
	Plugin, Text string
	Nodes        int
	Unresolvable bool
}

func (r *Result) Reset(classID uint64, candidates int) { *r = Result{ClassID: classID} }
func (r *Result) Merge(o *Result)                      {}
func (r *Result) Proto() *pb.ClassResult               { return nil }
func (r *Result) AddProto(p *pb.ClassResult, tie func(shard, row uint32) (lastDecision, nameHash uint64, name string)) {
}
