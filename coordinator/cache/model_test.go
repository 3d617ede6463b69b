package cache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// machine drives a cache and, beside it, a model that only remembers who is there and
// adds everything up anew at each step.
type machine struct {
	c        *Cache
	nodes    map[string]*v1.Node
	pods     map[types.UID]modelPod
	last     map[string]uint64 // by node, the last decision that gave it a pod
	decision uint64
	names    int             // pods made so far
	workers  []*scorer.Table // follow the deltas, as workers do

	counters    modelCounters
	fillings    []*modelFilling
	lastCounter uint32
	own         map[string]map[uint32]int64 // by node
	limits      map[string]int64            // by node

	told   map[string]string // what was told of label keys, and when
	toldAt uint64
}

type modelPod struct {
	object  *v1.Pod
	node    string
	assumed bool
}

func newMachine(t *rapid.T) *machine {
	shards := rapid.IntRange(1, 4).Draw(t, "shards")
	m := &machine{
		c: New(shards), nodes: map[string]*v1.Node{}, pods: map[types.UID]modelPod{}, last: map[string]uint64{},
		counters: modelCounters{}, lastCounter: ownCounters, own: map[string]map[uint32]int64{}, limits: map[string]int64{},
		told: map[string]string{},
	}
	m.c.UseCounters(m.counters)
	m.c.UseDepartures(modelDepartures{})
	m.c.SetBudgets(modelBudgets)
	for i := range shards {
		m.workers = append(m.workers, scorer.NewTable(uint32(i)))
	}
	return m
}

func TestCacheAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		t.Repeat(rapid.StateMachineActions(newMachine(t)))
	})
}

func drawNode(t *rapid.T) string {
	return fmt.Sprintf("node-%d", rapid.IntRange(0, 6).Draw(t, "node"))
}

// drawObjects makes a node and a pod of no importance.
func drawObjects(t *rapid.T) (*v1.Node, *v1.Pod) {
	seed := rapid.Uint64Range(0, 1000).Draw(t, "seed")
	c := build.Random(rand.New(rand.NewPCG(seed, 3)), 1, 0, 1)
	return c.Nodes[0], c.Pending[0]
}

// drawPod names one of the pods there are, of which it brings the first.
func (m *machine) drawPod(t *rapid.T) types.UID {
	if len(m.pods) == 0 {
		m.Add(t)
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.pods))).Draw(t, "pod")
}

// newPod is a pod that was never there.
func (m *machine) newPod(t *rapid.T) *v1.Pod {
	_, p := drawObjects(t)
	m.names++
	p.Name = fmt.Sprintf("pod-%d", m.names)
	p.UID = types.UID(p.Name)
	drawLabels(t, p)
	return p
}

func (m *machine) SetNode(t *rapid.T) {
	n, _ := drawObjects(t)
	n.Name = drawNode(t)
	old, err := m.c.SetNode(n)
	if err != nil || old != m.nodes[n.Name] {
		t.Fatalf("SetNode %s: got %v, %v; want %v", n.Name, old, err, m.nodes[n.Name])
	}
	m.nodes[n.Name] = n
}

func (m *machine) RemoveNode(t *rapid.T) {
	name := drawNode(t)
	old, err := m.c.RemoveNode(name)
	if err != nil || old != m.nodes[name] {
		t.Fatalf("RemoveNode %s: got %v, %v; want %v", name, old, err, m.nodes[name])
	}
	delete(m.nodes, name)
	delete(m.last, name)
}

// Add brings a pod that is on a node.
func (m *machine) Add(t *rapid.T) {
	p := m.newPod(t)
	p.Spec.NodeName = drawNode(t)
	m.set(t, p, nil)
}

// See confirms, changes or moves a pod.
func (m *machine) See(t *rapid.T) {
	was := m.pods[m.drawPod(t)]
	p := was.object.DeepCopy()
	if rapid.Bool().Draw(t, "changed") {
		_, other := drawObjects(t)
		p.Spec = other.Spec
	}
	if rapid.Bool().Draw(t, "relabelled") {
		relabel(t, p)
	}
	p.Spec.NodeName = was.node
	if rapid.IntRange(0, 3).Draw(t, "moved") == 0 {
		p.Spec.NodeName = drawNode(t)
	}
	var old *v1.Pod
	if !was.assumed {
		old = was.object
	}
	m.set(t, p, old)
}

func (m *machine) set(t *rapid.T, p, want *v1.Pod) {
	got, err := m.c.SetPod(p)
	if err != nil || got != want {
		t.Fatalf("SetPod %s: got %v, %v; want %v", p.Name, got, err, want)
	}
	m.pods[p.UID] = modelPod{p, p.Spec.NodeName, false}
}

func (m *machine) Assume(t *rapid.T) {
	p, name := m.newPod(t), drawNode(t)
	m.decision++
	if err := m.c.Assume(p, name, compile.Usage(p), m.decision); err != nil {
		t.Fatalf("Assume: %v", err)
	}
	if p.Spec.NodeName != "" {
		t.Fatalf("Assume wrote node %s into the pod", p.Spec.NodeName)
	}
	m.pods[p.UID] = modelPod{p, name, true}
	if m.nodes[name] != nil {
		m.last[name] = m.decision
	}
}

func (m *machine) AssumeTwice(t *rapid.T) {
	p := m.pods[m.drawPod(t)].object
	if err := m.c.Assume(p, drawNode(t), compile.Usage(p), m.decision+1); err == nil {
		t.Fatalf("Assume of %s, which has a node: got no error", p.Name)
	}
}

func (m *machine) Forget(t *rapid.T) {
	uid := m.drawPod(t)
	was := m.pods[uid].assumed
	got, err := m.c.Forget(uid)
	if err != nil || got != was {
		t.Fatalf("Forget %s: got %t, %v; want %t", uid, got, err, was)
	}
	if was {
		delete(m.pods, uid)
	}
}

// TryAndUndo holds that pods that are assumed and undone, as those of a gang that does not fit, leave no trace: not in the tables,
// nor in the numbers of the pods after them.
func (m *machine) TryAndUndo(t *rapid.T) {
	before, last := m.snapshots(), m.c.last
	type tried struct {
		uid  types.UID
		last uint64
	}
	var list []tried
	for i := range rapid.IntRange(1, 5).Draw(t, "members") {
		p, name := m.newPod(t), drawNode(t)
		x := tried{uid: p.UID}
		if row, ok := m.c.RowOf(name); ok {
			x.last = m.c.LastDecision(row)
		}
		if err := m.c.Assume(p, name, compile.Usage(p), m.decision+1+uint64(i)); err != nil {
			t.Fatalf("Assume: %v", err)
		}
		list = append(list, x)
	}
	for _, x := range slices.Backward(list) {
		if undone, err := m.c.Undo(x.uid, x.last); !undone || err != nil {
			t.Fatalf("Undo %s: got %t, %v", x.uid, undone, err)
		}
	}
	if d := cmp.Diff(before, m.snapshots()); d != "" {
		t.Fatalf("tables after a try that was undone (-before +after):\n%s", d)
	}
	if m.c.last != last {
		t.Fatalf("the last pod's number: got %d, want %d", m.c.last, last)
	}
}

// UndoOthers holds that pods which are not assumed are left alone.
func (m *machine) UndoOthers(t *rapid.T) {
	uid := m.drawPod(t)
	if m.pods[uid].assumed {
		return
	}
	if undone, err := m.c.Undo(uid, 0); undone || err != nil {
		t.Fatalf("Undo %s, which is seen on its node: got %t, %v", uid, undone, err)
	}
}

func (m *machine) RemovePod(t *rapid.T) {
	uid := m.drawPod(t)
	want := m.pods[uid]
	got, node, err := m.c.RemovePod(uid)
	if err != nil || got != want.object || node != want.node {
		t.Fatalf("RemovePod %s: got %v on %s, %v; want %v on %s", uid, got, node, err, want.object, want.node)
	}
	delete(m.pods, uid)
}

// Unknown asks for a pod that is not there.
func (m *machine) Unknown(t *rapid.T) {
	p, node, err := m.c.RemovePod("nobody")
	if forgot, ferr := m.c.Forget("nobody"); p != nil || node != "" || err != nil || forgot || ferr != nil {
		t.Fatalf("a pod that is not there: got %v, %s, %v, %t, %v; want nothing", p, node, err, forgot, ferr)
	}
}

// Without holds that a pod taken off its row and put back leaves no trace.
func (m *machine) Without(t *rapid.T) {
	uid := m.drawPod(t)
	p := m.pods[uid]
	before := m.rows()
	put, err := m.c.Without(uid)
	if err != nil {
		t.Fatalf("Without %s: %v", uid, err)
	}
	delete(m.pods, uid)
	m.checkRows(t)
	m.checkCounters(t)
	if rapid.Bool().Draw(t, "meanwhile") {
		m.UseCounters(t)
	}
	m.pods[uid] = p
	if err := put(); err != nil {
		t.Fatalf("put %s back: %v", uid, err)
	}
	m.checkCounters(t)
	if d := cmp.Diff(before, m.rows()); d != "" {
		t.Fatalf("rows after Without and put (-before +after):\n%s", d)
	}
}

// Check holds the cache against the model after each step.
func (m *machine) Check(t *rapid.T) {
	assumed := 0
	for uid, want := range m.pods {
		if want.assumed {
			assumed++
		}
		object, node, isAssumed := m.c.Pod(uid)
		if object != want.object || node != want.node || isAssumed != want.assumed {
			t.Fatalf("pod %s: got %v on %s, assumed %t; want %v on %s, %t", uid, object, node, isAssumed, want.object, want.node, want.assumed)
		}
	}
	if all, got := m.c.Pods(); all != len(m.pods) || got != assumed {
		t.Fatalf("pods: got %d, %d assumed; want %d, %d", all, got, len(m.pods), assumed)
	}
	if got := m.c.Nodes(); got != len(m.nodes) {
		t.Fatalf("nodes: got %d, want %d", got, len(m.nodes))
	}
	m.checkRows(t)
	m.checkCounters(t)
	m.checkPlaced(t)
	m.checkTopologies(t)
	m.checkWorkers(t)
	m.checkSnapshots(t)
	m.checkNoLeak(t)
}

// rows gives each node's row as flat numbers.
func (m *machine) rows() map[string]map[string]int64 {
	out := map[string]map[string]int64{}
	for i := range m.c.NumShards() {
		m.c.Table(i).Snapshot(func(row *pb.SnapshotRow) bool {
			out[row.GetNode().GetName()] = flat(row.GetTotals())
			return true
		})
	}
	return out
}

// snapshots are the tables as they are.
func (m *machine) snapshots() (out [][]string) {
	for i := range m.c.NumShards() {
		out = append(out, snapshot(m.c.Table(i)))
	}
	return out
}

func (m *machine) checkRows(t *rapid.T) {
	want := map[string]map[string]int64{}
	for name := range m.nodes {
		want[name] = map[string]int64{}
		add(want[name], "last decision", int64(m.last[name]))
	}
	for _, p := range m.pods {
		if sum := want[p.node]; sum != nil {
			addUsage(sum, compile.Usage(p.object))
		}
	}
	if d := cmp.Diff(want, m.rows()); d != "" {
		t.Fatalf("rows (-sum over pods +table):\n%s", d)
	}
	for name, n := range m.nodes {
		row, ok := m.c.RowOf(name)
		if !ok || int(row.Shard) != ShardOf(name, m.c.NumShards()) || m.c.Table(int(row.Shard)).Name(row.Index) != name || m.c.Node(name) != n {
			t.Fatalf("node %s: got row %v, %t, object %v", name, row, ok, m.c.Node(name))
		}
	}
}

// checkWorkers holds that the deltas lead to the table.
func (m *machine) checkWorkers(t *rapid.T) {
	for i, w := range m.workers {
		deltas, ok := m.c.Deltas(i, w.Generation())
		if !ok {
			t.Fatalf("shard %d: deltas after %d are gone", i, w.Generation())
		}
		for _, d := range deltas {
			if err := w.Apply(d); err != nil {
				t.Fatalf("shard %d: a worker refuses %v: %v", i, d, err)
			}
		}
		own := m.c.Table(i)
		if w.Generation() != own.Generation() {
			t.Fatalf("shard %d: got generation %d, want %d", i, w.Generation(), own.Generation())
		}
		if d := cmp.Diff(snapshot(own), snapshot(w)); d != "" {
			t.Fatalf("shard %d (-own +worker's):\n%s", i, d)
		}
	}
}

// checkNoLeak holds that nothing is kept of what is gone, and that rows are used again.
func (m *machine) checkNoLeak(t *rapid.T) {
	names := map[string]struct{}{}
	for name := range m.nodes {
		names[name] = struct{}{}
	}
	for _, p := range m.pods {
		names[p.node] = struct{}{}
	}
	for name := range m.own {
		names[name] = struct{}{}
	}
	for name := range m.limits {
		names[name] = struct{}{}
	}
	if got, want := slices.Sorted(maps.Keys(m.c.nodes)), slices.Sorted(maps.Keys(names)); !slices.Equal(got, want) {
		t.Fatalf("names kept: got %v, want %v", got, want)
	}
	for i, s := range m.c.shards {
		if used := int(s.next) - len(s.free); used != s.table.Nodes() {
			t.Fatalf("shard %d: got %d rows in use, want %d", i, used, s.table.Nodes())
		}
	}
}

func snapshot(t *scorer.Table) []string {
	var out []string
	t.Snapshot(func(row *pb.SnapshotRow) bool {
		out = append(out, row.String())
		return true
	})
	return append(out, columns(t)...)
}

// add leaves zeros out, so that sums compare whatever led to them.
func add(sum map[string]int64, what string, n int64) {
	if sum[what] += n; sum[what] == 0 {
		delete(sum, what)
	}
}

func addResources(sum map[string]int64, r *pb.Resources) {
	add(sum, "cpu", r.GetMilliCpu())
	add(sum, "memory", r.GetMemoryBytes())
	add(sum, "storage", r.GetEphemeralStorageBytes())
	for _, s := range r.GetScalars() {
		add(sum, s.GetName(), s.GetQuantity())
	}
}

func addUsage(sum map[string]int64, u *pb.PodUsage) {
	add(sum, "pods", 1)
	add(sum, "non-zero cpu", u.GetNonZeroMilliCpu())
	add(sum, "non-zero memory", u.GetNonZeroMemoryBytes())
	addResources(sum, u.GetRequests())
	for _, p := range u.GetHostPorts() {
		add(sum, p.String(), 1)
	}
}

func flat(s *pb.NodeTotals) map[string]int64 {
	sum := map[string]int64{}
	add(sum, "pods", s.GetPods())
	add(sum, "non-zero cpu", s.GetNonZeroMilliCpu())
	add(sum, "non-zero memory", s.GetNonZeroMemoryBytes())
	add(sum, "last decision", int64(s.GetLastDecision()))
	addResources(sum, s.GetRequested())
	for _, p := range s.GetPorts() {
		add(sum, p.GetPort().String(), int64(p.GetPods()))
	}
	return sum
}
