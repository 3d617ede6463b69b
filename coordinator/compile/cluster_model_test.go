package compile

import (
	"fmt"
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/count"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// clusterModel is a cluster of one shard. It does in small what the coordinator's cache does:
// pods on nodes add to counters, and counters that come into use are filled.
type clusterModel struct {
	*spread
	names    []string // of nodes, by row
	rows     map[string]uint32
	nodes    map[string]*v1.Node
	changes  uint64 // of nodes
	pods     []resident
	table    *scorer.Table
	counters *count.Registry
	cluster  *cluster.Cluster
	storage  Volumes
}

// resident is a pod that is on a node.
type resident struct {
	pod *v1.Pod
	row uint32
}

func newClusterModel() *clusterModel {
	return &clusterModel{
		spread:   &spread{sizes: map[string]int64{}, nodes: map[string]map[string]bool{}},
		rows:     map[string]uint32{},
		nodes:    map[string]*v1.Node{},
		changes:  1,
		table:    scorer.NewTable(0),
		counters: count.New(),
		cluster:  cluster.New(),
	}
}

func (w *clusterModel) Counters() *count.Registry { return w.counters }
func (w *clusterModel) Cluster() *cluster.Cluster { return w.cluster }
func (w *clusterModel) Volumes() Volumes          { return w.storage }
func (*clusterModel) Devices() Devices            { return nil }

func (w *clusterModel) TopologyVersion() uint64 { return w.changes }

func (w *clusterModel) Topology(key string) Topology {
	values, nodes := map[string]bool{}, 0
	for _, n := range w.nodes {
		if v, ok := n.Labels[key]; ok {
			values[v] = true
			nodes++
		}
	}
	switch {
	case nodes == 0:
		return Absent
	case len(values) == nodes:
		return Unique
	}
	return Shared
}

func (w *clusterModel) Domains(key string) int {
	values := map[string]bool{}
	for _, n := range w.nodes {
		if v, ok := n.Labels[key]; ok {
			values[v] = true
		}
	}
	if len(values) == 0 {
		return 0
	}
	return 1 << bits.Len(uint(len(values)-1))
}

// setNode adds or replaces a node.
func (w *clusterModel) setNode(n *v1.Node) error {
	node := Node(n)
	if err := node.Validate(); err != nil {
		return err
	}
	row, ok := w.rows[n.Name]
	if !ok {
		row = uint32(len(w.names))
		w.rows[n.Name] = row
		w.names = append(w.names, n.Name)
		w.add(n)
	}
	w.nodes[n.Name] = n
	w.changes++
	return w.table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_SetNode{SetNode: node}})
}

// removeNode takes a node away, with its pods.
func (w *clusterModel) removeNode(name string) error {
	row := w.rows[name]
	delete(w.nodes, name)
	w.changes++
	w.pods = slices.DeleteFunc(w.pods, func(r resident) bool { return r.row == row })
	return w.table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_RemoveNode{RemoveNode: &pb.RemoveNode{}}})
}

// place puts a pod on a node and returns what it takes there.
func (w *clusterModel) place(node string, p *v1.Pod) (*pb.PodUsage, error) {
	row, ok := w.rows[node]
	if !ok {
		return nil, fmt.Errorf("no node %q", node)
	}
	u := Usage(p)
	w.counters.Carry(p)
	u.Counters = w.counters.Contributions(p)
	if err := u.Validate(); err != nil {
		return nil, err
	}
	w.pods = append(w.pods, resident{p, row})
	return u, w.table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_AddPod{AddPod: u}})
}

// settle fills the counters that came into use.
func (w *clusterModel) settle() error {
	for _, c := range w.counters.TakeNew() {
		sums := map[uint32]int64{}
		for _, r := range w.pods {
			sums[r.row] += c.Value(r.pod)
		}
		column := &pb.CounterColumn{Counter: c.ID()}
		for row := range uint32(len(w.names)) {
			if sums[row] != 0 {
				column.Rows, column.Values = append(column.Rows, row), append(column.Values, sums[row])
			}
		}
		if err := w.table.Apply(&pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: column}}); err != nil {
			return err
		}
	}
	return nil
}

// sweep drops every counter that no pod carries as a term.
func (w *clusterModel) sweep(t rapid.TB) {
	for range 20 {
		w.counters.Sweep()
	}
	for _, id := range w.counters.TakeDropped() {
		if err := w.table.Apply(&pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: &pb.CounterColumn{Counter: id}}}); err != nil {
			t.Fatalf("drop counter %d: %v", id, err)
		}
	}
}

// answer is what becomes of each node.
type answer struct {
	class    *Class
	result   scorer.Result
	standing scorer.Standing
	nodes    []nodeAnswer
}

type nodeAnswer struct {
	name    string
	row     uint32
	verdict scorer.Verdict
	group   int // -1: the row itself refuses
}

// ask evaluates a class on every node, row by row.
func (w *clusterModel) ask(class *Class, eval *scorer.Evaluator) *answer {
	a := &answer{class: class}
	a.result.Reset(class.ID(), 1)
	for row, name := range w.names {
		if !w.table.HasNode(uint32(row)) {
			continue
		}
		n := nodeAnswer{name: name, row: uint32(row)}
		eval.Row(w.table, n.row, nil, class.Scorer, true, &n.verdict)
		n.group = a.result.Move(class.Scorer, &n.verdict, 1)
		a.nodes = append(a.nodes, n)
	}
	class.Scorer.Settle(&a.result, &a.standing)
	return a
}

// feasible tells whether a node is, and its whole score.
func (a *answer) feasible(n *nodeAnswer) (total int64, ok bool) {
	if n.group < 0 || !a.standing.Groups[n.group].Feasible {
		return 0, false
	}
	return n.verdict.Local + a.standing.Groups[n.group].Score, true
}

// check holds the pass over the table against the rows one by one.
func (w *clusterModel) check(a *answer, eval *scorer.Evaluator) error {
	best := int64(-1)
	for i := range a.nodes {
		if total, ok := a.feasible(&a.nodes[i]); ok {
			best = max(best, total)
		}
	}
	var r scorer.Result
	var s scorer.Standing
	r.Reset(a.class.ID(), 1)
	eval.Evaluate(w.table, a.class.Scorer, scorer.Options{Candidates: 1}, &r)
	a.class.Scorer.Settle(&r, &s)
	if s.Feasible != a.standing.Feasible {
		return fmt.Errorf("the pass finds %d nodes feasible, the rows %d", s.Feasible, a.standing.Feasible)
	}
	top := int64(-1)
	for i, g := range r.Groups {
		for _, c := range g.Candidates {
			if s.Groups[i].Feasible {
				top = max(top, c.Score+s.Groups[i].Score)
			}
		}
	}
	if top != best {
		return fmt.Errorf("the pass finds %d as the best score, the rows %d", top, best)
	}
	return nil
}
