package scorer

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// random makes nodes, pods and queries from small vocabularies, so that they meet.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 17))} }

func (r random) chance(percent int) bool { return r.IntN(100) < percent }

func pick[T any](r random, list ...T) T { return list[r.IntN(len(list))] }

// ids picks some of a sorted list of counters.
func (r random) ids(percent int, list ...uint32) []uint32 {
	return slices.DeleteFunc(list, func(uint32) bool { return !r.chance(percent) })
}

// some returns a few of the texts, sorted, each once.
func (r random) some(percent int, list ...string) []string {
	var out []string
	for _, s := range list {
		if r.chance(percent) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

var (
	keys     = []string{"arch", "disk", "gen", "rare", "zone"}
	values   = []string{"", "-3", "0", "12", "7", "a", "b", "c"}
	scalars  = []string{"example.com/fpga", "hugepages-2Mi", "nvidia.com/gpu"}
	pictures = []string{"alpine:3", "busybox:1", "nginx:1", "redis:7"}
	quirks   = []string{"dedicated", "noisy", "old"}
)

func (r random) quantity(most int64) int64 {
	switch r.IntN(20) {
	case 0:
		return 0
	case 1:
		return most
	}
	return r.Int64N(most + 1)
}

func (r random) amounts(percent int, milliCPU, memory, storage, scalar int64) *pb.Resources {
	out := &pb.Resources{
		MilliCpu: r.quantity(milliCPU), MemoryBytes: r.quantity(memory), EphemeralStorageBytes: r.quantity(storage),
	}
	for _, name := range r.some(percent, scalars...) {
		out.Scalars = append(out.Scalars, &pb.ScalarResource{Name: name, Quantity: r.quantity(scalar)})
	}
	return out
}

func (r random) node(name string) *pb.Node {
	n := &pb.Node{
		Name: name, Unschedulable: r.chance(5), AllowedPods: r.quantity(20),
		Allocatable: r.amounts(40, 8000, 1<<34, 1<<36, 8),
		Images:      r.some(40, pictures...),
	}
	for _, key := range r.some(60, keys...) {
		if key != "rare" || r.chance(5) {
			n.Labels = append(n.Labels, &pb.Label{Key: key, Value: pick(r, values...)})
		}
	}
	if r.chance(50) {
		n.Labels = append(n.Labels, &pb.Label{Key: "~hostname", Value: name})
	}
	for range max(0, r.IntN(6)-3) {
		n.Taints = append(n.Taints, &pb.Taint{Key: pick(r, quirks...), Value: pick(r, "", "x"), Effect: pb.TaintEffect(1 + r.IntN(3))})
	}
	return n
}

func (r random) hostPort() *pb.HostPort {
	return &pb.HostPort{
		Ip:       pick(r, "0.0.0.0", "0.0.0.0", "10.0.0.1", "10.0.0.2"),
		Protocol: pb.Protocol(1 + r.IntN(2)),
		Port:     pick(r, uint32(80), 443, 9100),
	}
}

func (r random) pod() *pb.PodUsage {
	p := &pb.PodUsage{Requests: r.amounts(20, 1000, 1<<31, 1<<30, 2)}
	p.NonZeroMilliCpu = max(p.Requests.MilliCpu, 100)
	p.NonZeroMemoryBytes = max(p.Requests.MemoryBytes, 200<<20)
	for range max(0, r.IntN(5)-3) {
		p.HostPorts = append(p.HostPorts, r.hostPort())
	}
	return p
}

func (r random) requirement() *pb.LabelRequirement {
	q := &pb.LabelRequirement{Key: pick(r, append(keys, "none", "~hostname")...), Operator: pb.SelectorOperator(1 + r.IntN(6))}
	switch q.Operator {
	case pb.SelectorOperator_SELECTOR_OPERATOR_IN, pb.SelectorOperator_SELECTOR_OPERATOR_NOT_IN:
		for range 1 + r.IntN(4) {
			q.Values = append(q.Values, pick(r, append(values, "elsewhere")...))
		}
		if q.Key == "~hostname" {
			q.Values = append(q.Values, r.name(), r.name())
		}
	case pb.SelectorOperator_SELECTOR_OPERATOR_GT, pb.SelectorOperator_SELECTOR_OPERATOR_LT:
		q.Bound = pick(r, int64(-4), -3, 0, 6, 7, 12)
	}
	return q
}

// name is the name of a node, or nearly.
func (r random) name() string { return fmt.Sprintf("n%d", r.IntN(70)) }

func (r random) term() *pb.SelectorTerm {
	t := &pb.SelectorTerm{}
	for range r.IntN(3) {
		t.Labels = append(t.Labels, r.requirement())
	}
	if r.chance(10) || len(t.Labels) == 0 {
		t.Names = append(t.Names, &pb.NameRequirement{Operator: pb.SelectorOperator(1 + r.IntN(2)), Name: r.name()})
	}
	return t
}

// selector is nil in most cases.
func (r random) selector(percent int) *pb.NodeSelector {
	if !r.chance(percent) {
		return nil
	}
	s := &pb.NodeSelector{}
	for range r.IntN(4) {
		s.Terms = append(s.Terms, r.term())
	}
	return s
}

func (r random) affinity() *pb.NodeAffinityQuery {
	a := &pb.NodeAffinityQuery{Added: r.selector(10), Required: r.selector(40)}
	for _, key := range r.some(10, keys...) {
		a.NodeSelector = append(a.NodeSelector, &pb.Label{Key: key, Value: pick(r, values...)})
	}
	for range r.IntN(4) {
		a.Preferred = append(a.Preferred, &pb.PreferredTerm{Weight: int32(1 + r.IntN(100)), Term: r.term()})
	}
	return a
}

func (r random) scored(percent int) []*pb.ScoredResource {
	var out []*pb.ScoredResource
	for _, name := range append([]string{"cpu", "memory"}, r.some(percent, append(scalars, "ephemeral-storage", "example.com/none")...)...) {
		if !r.chance(90) {
			continue
		}
		out = append(out, &pb.ScoredResource{Name: name, Weight: int64(1 + r.IntN(5)), Request: r.quantity(2000)})
	}
	return out
}

func (r random) fit() *pb.FitQuery {
	f := &pb.FitQuery{
		BestEffort:  r.chance(10),
		ScoringType: pb.ScoringType(1 + r.IntN(3)),
		Scored:      r.scored(40),
	}
	if !f.BestEffort {
		f.Requests = r.amounts(15, 3000, 1<<33, 1<<35, 3)
	}
	u := int64(0)
	for range 1 + r.IntN(4) {
		f.Shape = append(f.Shape, &pb.ShapePoint{Utilization: u, Score: int64(r.IntN(101))})
		if u += int64(1 + r.IntN(50)); u > 100 {
			break
		}
	}
	return f
}

// filterPlugins are all plugins that filter, in upstream's order.
func filterPlugins() []pb.Plugin {
	return []pb.Plugin{
		pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE, pb.Plugin_PLUGIN_NODE_NAME, pb.Plugin_PLUGIN_TAINT_TOLERATION,
		pb.Plugin_PLUGIN_NODE_AFFINITY, pb.Plugin_PLUGIN_NODE_PORTS, pb.Plugin_PLUGIN_NODE_RESOURCES_FIT,
	}
}

// scorePlugins are all plugins that score, with upstream's weights.
func scorePlugins() []*pb.ScoreWeight {
	return []*pb.ScoreWeight{
		{Plugin: pb.Plugin_PLUGIN_TAINT_TOLERATION, Weight: 3},
		{Plugin: pb.Plugin_PLUGIN_NODE_AFFINITY, Weight: 2},
		{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, Weight: 1},
		{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION, Weight: 1},
		{Plugin: pb.Plugin_PLUGIN_IMAGE_LOCALITY, Weight: 1},
	}
}

func (r random) query() *pb.Query {
	q := &pb.Query{
		ClassId:      1 + r.Uint64N(1000),
		NodeAffinity: r.affinity(),
		Fit:          r.fit(),
		Balanced:     &pb.BalancedQuery{Scored: r.scored(40)},
		Images:       &pb.ImageQuery{Containers: int64(1 + r.IntN(3))},
	}
	for _, p := range filterPlugins() {
		if r.chance(85) {
			q.Filters = append(q.Filters, p)
		}
	}
	r.Shuffle(len(q.Filters), func(i, j int) { q.Filters[i], q.Filters[j] = q.Filters[j], q.Filters[i] })
	for _, s := range scorePlugins() {
		if r.chance(85) {
			q.Scores = append(q.Scores, s)
		}
	}
	r.Shuffle(len(q.Scores), func(i, j int) { q.Scores[i], q.Scores[j] = q.Scores[j], q.Scores[i] })
	if r.chance(5) {
		q.NodeName = r.name()
	}
	if r.chance(10) {
		for range 1 + r.IntN(30) {
			q.Narrowed = &pb.NameSet{Names: append(q.GetNarrowed().GetNames(), r.name()), Plugins: []string{"NodeAffinity", "Other"}}
		}
		slices.Sort(q.Narrowed.Names)
		q.Narrowed.Names = slices.Compact(q.Narrowed.Names)
	}
	for range r.IntN(4) {
		q.Tolerations = append(q.Tolerations, &pb.Toleration{
			Key:      pick(r, append(quirks, "", "node.kubernetes.io/unschedulable")...),
			Operator: pb.TolerationOperator(1 + r.IntN(2)), Value: pick(r, "", "x"), Effect: pb.TaintEffect(r.IntN(4)),
		})
	}
	for range max(0, r.IntN(5)-2) {
		q.HostPorts = append(q.HostPorts, r.hostPort())
	}
	for _, name := range r.some(50, append(pictures, "unknown:1")...) {
		q.Images.Images = append(q.Images.Images, &pb.ImageTerm{Name: name, ScaledBytes: r.quantity(2 << 30)})
	}
	return q
}

// variant is a query that differs from another in its requests only.
func (r random) variant(q *pb.Query) *pb.Query {
	fit, balanced := proto.CloneOf(q.Fit), proto.CloneOf(q.Balanced)
	if !fit.BestEffort {
		fit.Requests = r.amounts(15, 3000, 1<<33, 1<<35, 3)
	}
	for _, list := range [][]*pb.ScoredResource{fit.Scored, balanced.Scored} {
		for _, s := range list {
			s.Request = r.quantity(2000)
		}
	}
	v := q.With(fit, balanced)
	v.ClassId = q.ClassId + 1
	return v
}

// row is a node with some pods.
func (r random) row(at uint32, name string) *pb.SnapshotRow {
	t := NewTable(0)
	must(t.Apply(&pb.Delta{Change: &pb.Delta_SetNode{SetNode: r.node(name)}}))
	for range r.IntN(5) {
		must(t.Apply(&pb.Delta{Change: &pb.Delta_AddPod{AddPod: r.pod()}, Decision: r.Uint64N(3)}))
	}
	var out *pb.SnapshotRow
	for s := range t.Snapshot {
		out = s
	}
	out.Row = at
	return out
}

// rows are n rows with some gaps between them.
func (r random) rows(n int) []*pb.SnapshotRow {
	var out []*pb.SnapshotRow
	at := uint32(0)
	for i := range n {
		if r.chance(3) {
			at += uint32(r.IntN(70))
		}
		out = append(out, r.row(at, fmt.Sprintf("n%d", i)))
		at++
	}
	return out
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
