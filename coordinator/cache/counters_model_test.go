package cache

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// modelCounter counts pods of some namespaces, all where there are none, by a label.
type modelCounter struct {
	namespaces []string
	app        string
	weight     int64
	staying    bool // not those that are being deleted
}

func (m *modelCounter) value(p *v1.Pod) int64 {
	if m.namespaces != nil && !slices.Contains(m.namespaces, p.Namespace) || p.Labels["app"] != m.app || m.staying && p.DeletionTimestamp != nil {
		return 0
	}
	return m.weight
}

// modelCounters are those in use, by id.
type modelCounters map[uint32]*modelCounter

// Contributions asks each.
func (m modelCounters) Contributions(p *v1.Pod) []*pb.CounterValue {
	var out []*pb.CounterValue
	for _, id := range slices.Sorted(maps.Keys(m)) {
		if v := m[id].value(p); v != 0 {
			out = append(out, &pb.CounterValue{Counter: id, Value: v})
		}
	}
	return out
}

// Carry and Release are the rest of Counters: no pod has terms.
func (modelCounters) Carry(*v1.Pod) *count.Carried { return nil }
func (modelCounters) Release(*count.Carried)       {}

// ownCounters is how many counters belong to the nodes themselves; the others begin
// behind them.
const ownCounters = 2

// drawLabels gives a pod what counters look at.
func drawLabels(t *rapid.T, p *v1.Pod) {
	p.Namespace = rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "namespace")
	relabel(t, p)
}

var commonLabels = [...]map[string]string{{"app": "a"}, {"app": "b"}}

func relabel(t *rapid.T, p *v1.Pod) {
	p.Labels = rapid.SampledFrom(commonLabels[:]).Draw(t, "app") // in common, as from kube's source
	p.DeletionTimestamp = nil
	if rapid.IntRange(0, 3).Draw(t, "terminating") == 0 {
		at := metav1.Unix(1, 0)
		p.DeletionTimestamp = &at
	}
}

// UseCounters brings one or two counters into use.
func (m *machine) UseCounters(t *rapid.T) {
	var ids []uint32
	var among []string
	all := false
	for range rapid.IntRange(1, 2).Draw(t, "counters") {
		m.lastCounter++
		x := &modelCounter{
			app:     rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "app"),
			weight:  rapid.Int64Range(-3, 3).Draw(t, "weight"),
			staying: rapid.Bool().Draw(t, "staying"),
		}
		switch rapid.IntRange(0, 2).Draw(t, "namespaces") {
		case 0:
			x.namespaces = []string{"x"}
		case 1:
			x.namespaces = []string{"x", "y"}
		default:
			all = true
		}
		m.counters[m.lastCounter] = x
		if rapid.Bool().Draw(t, "by label") {
			if m.c.labelled["app"] == nil { // so few pods are not worth it
				m.c.newIndex("app")
			}
			demands := []selector.Demand{{Key: "app", Values: []string{"nobody's", x.app}}}
			_, filled, err := m.c.FillCounter(m.lastCounter, demands, x.namespaces, math.MaxInt)
			if err != nil {
				t.Fatalf("FillCounter: %v", err)
			}
			if filled {
				continue
			}
		}
		ids, among = append(ids, m.lastCounter), append(among, x.namespaces...)
	}
	slices.Sort(among)
	if err := m.c.FillCounters(ids, all, slices.Compact(among)); err != nil {
		t.Fatalf("FillCounters: %v", err)
	}
}

// Index has some pods more found by label.
func (m *machine) Index(t *rapid.T) { m.c.Index(rapid.IntRange(1, 4).Draw(t, "pods")) }

// DropCounter takes one out of use, of which it brings the first.
func (m *machine) DropCounter(t *rapid.T) {
	if len(m.counters) == 0 {
		m.UseCounters(t)
	}
	id := rapid.SampledFrom(slices.Sorted(maps.Keys(m.counters))).Draw(t, "counter")
	for _, f := range m.fillings {
		if slices.Contains(f.ids, id) {
			return // it comes in yet
		}
	}
	delete(m.counters, id)
	if err := m.c.DropCounters([]uint32{id}); err != nil {
		t.Fatalf("DropCounters: %v", err)
	}
}

// modelFilling is counters that come, or go, row by row.
type modelFilling struct {
	*Filling
}

// reached tells that a row is filled.
func (f *modelFilling) reached(row Row) bool {
	return int(row.Shard) < f.shard || int(row.Shard) == f.shard && row.Index < f.row
}

// OpenCounters begins to bring counters into use, or to take some out of it.
func (m *machine) OpenCounters(t *rapid.T) {
	goes := len(m.counters) > 0 && rapid.Bool().Draw(t, "goes")
	var ids []uint32
	if goes {
		id := rapid.SampledFrom(slices.Sorted(maps.Keys(m.counters))).Draw(t, "counter")
		for _, other := range m.fillings {
			if slices.Contains(other.ids, id) {
				return // it comes in yet
			}
		}
		delete(m.counters, id)
		ids = []uint32{id}
	} else {
		for range rapid.IntRange(1, 2).Draw(t, "counters") {
			m.lastCounter++
			m.counters[m.lastCounter] = &modelCounter{
				app: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app"), weight: rapid.Int64Range(-3, 3).Draw(t, "weight"),
				staying: rapid.Bool().Draw(t, "staying"),
			}
			ids = append(ids, m.lastCounter)
		}
	}
	m.fillings = append(m.fillings, &modelFilling{m.c.Fill(ids, goes, nil)})
}

// FillSome takes one of those a step on or several, whatever has happened since.
func (m *machine) FillSome(t *rapid.T) {
	if len(m.fillings) == 0 {
		m.OpenCounters(t)
	}
	if len(m.fillings) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.fillings)-1).Draw(t, "filling")
	f := m.fillings[i]
	_, done, err := f.Some(rapid.SampledFrom([]int{1, 2, 30, math.MaxInt}).Draw(t, "steps"))
	if err != nil {
		t.Fatalf("fill %v: %v", f.ids, err)
	}
	if done {
		m.fillings = slices.Delete(m.fillings, i, i+1)
	}
}

// isOpen tells that a counter comes, or goes, and that a row is not filled.
func (m *machine) isOpen(id uint32, row Row) bool {
	return slices.ContainsFunc(m.fillings, func(f *modelFilling) bool { return slices.Contains(f.ids, id) && !f.reached(row) })
}

// withoutOpen is a usage without such counters.
func (m *machine) withoutOpen(u *pb.PodUsage, row Row) *pb.PodUsage {
	u = proto.CloneOf(u)
	u.Counters = slices.DeleteFunc(u.Counters, func(v *pb.CounterValue) bool { return m.isOpen(v.Counter, row) })
	return u
}

// forgetOpen leaves out what is not known yet: counters that come, or go, of nodes whose row is not filled.
func (m *machine) forgetOpen(sums map[string]map[uint32]int64) {
	for name, sum := range sums {
		row, _ := m.c.RowOf(name)
		maps.DeleteFunc(sum, func(id uint32, _ int64) bool { return m.isOpen(id, row) })
	}
}

// ChangeCounters moves a node's own, also where the node is not there.
func (m *machine) ChangeCounters(t *rapid.T) {
	name := drawNode(t)
	id := rapid.Uint32Range(1, ownCounters).Draw(t, "counter")
	by := rapid.Int64Range(-2, 2).Draw(t, "by")
	if by == 0 {
		by = -m.own[name][id] // back to nothing
	}
	if by == 0 {
		return
	}
	if m.own[name] == nil {
		m.own[name] = map[uint32]int64{}
	}
	if m.own[name][id] += by; m.own[name][id] == 0 {
		delete(m.own[name], id)
	}
	if len(m.own[name]) == 0 {
		delete(m.own, name)
	}
	if err := m.c.ChangeCounters(name, []*pb.CounterValue{{Counter: id, Value: by}}); err != nil {
		t.Fatalf("ChangeCounters of %s: %v", name, err)
	}
}

// SetLimits says what a node attaches, also where the node is not there.
func (m *machine) SetLimits(t *rapid.T) {
	name := drawNode(t)
	var limits Limits
	if n := rapid.Int64Range(0, 2).Draw(t, "limit"); n > 0 {
		limits.Volumes = []*pb.VolumeLimit{{Driver: "d", Volumes: n}}
	}
	delete(m.limits, name)
	if limits.Volumes != nil {
		m.limits[name] = limits.Volumes[0].Volumes
	}
	if err := m.c.SetLimits(name, limits); err != nil {
		t.Fatalf("SetLimits of %s: %v", name, err)
	}
}

// checkCounters holds each counter against the sum over the pods.
func (m *machine) checkCounters(t *rapid.T) {
	for key, index := range m.c.labelled {
		left := min(index.left, len(m.c.kinds.all))
		for value, l := range index.with {
			pods := 0
			for k := range l.kinds {
				pods += len(k.pods)
			}
			if pods != l.pods || pods == 0 {
				t.Fatalf("label %s=%s: %d pods are said to be found, %d are", key, value, l.pods, pods)
			}
		}
		for _, k := range m.c.kinds.all[left:] {
			value := k.pods[0].object.Labels[key]
			if l := index.with[value]; l == nil || !has(l.kinds, k) {
				t.Fatalf("pods of a kind are not found by label %s=%s", key, value)
			}
		}
	}
	pods := 0
	for _, k := range m.c.kinds.all {
		pods += len(k.pods)
	}
	if pods != len(m.pods) || len(m.c.kinds.all) != len(m.c.kinds.byLooks) {
		t.Fatalf("%d pods of %d kinds, %d by their looks; want %d pods", pods, len(m.c.kinds.all), len(m.c.kinds.byLooks), len(m.pods))
	}
	want := map[string]map[uint32]int64{}
	for name := range m.nodes {
		want[name] = map[uint32]int64{}
		maps.Copy(want[name], m.own[name])
	}
	for _, p := range m.pods {
		for _, v := range m.counters.Contributions(p.object) {
			if sum := want[p.node]; sum != nil {
				if sum[v.Counter] += v.Value; sum[v.Counter] == 0 {
					delete(sum, v.Counter)
				}
			}
		}
	}
	got := map[string]map[uint32]int64{}
	limits := map[string]int64{}
	for i := range m.c.NumShards() {
		table := m.c.Table(i)
		table.Snapshot(func(row *pb.SnapshotRow) bool {
			got[row.GetNode().GetName()] = map[uint32]int64{}
			for _, l := range row.GetNode().GetVolumeLimits() {
				limits[row.GetNode().GetName()] = l.Volumes
			}
			return true
		})
		table.Counters(func(c *pb.CounterColumn) bool {
			for k, row := range c.Rows {
				if c.Values[k] != 0 {
					got[table.Name(row)][c.Counter] = c.Values[k]
				}
			}
			return true
		})
	}
	m.forgetOpen(want)
	m.forgetOpen(got)
	added := 0
	for _, p := range m.c.pods {
		added += len(p.counters)
	}
	if m.c.Added() != added {
		t.Fatalf("pods add to %d counters, want %d", m.c.Added(), added)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("counters (-sum over pods +table):\n%s", d)
	}
	for name := range m.nodes {
		if limits[name] != m.limits[name] {
			t.Fatalf("limit of %s: got %d, want %d", name, limits[name], m.limits[name])
		}
	}
}

// checkTopologies counts values and nodes anew.
func (m *machine) checkTopologies(t *rapid.T) {
	for _, key := range []string{"zone", "tier", "disk", v1.LabelHostname, "nowhere"} {
		values, nodes := map[string]bool{}, 0
		for _, n := range m.nodes {
			if value, ok := n.Labels[key]; ok {
				values[value] = true
				nodes++
			}
		}
		want := compile.Shared
		switch {
		case nodes == 0:
			want = compile.Absent
		case len(values) == nodes:
			want = compile.Unique
		}
		got := m.c.Topology(key)
		if got != want || m.c.HasTopology(key) != (nodes > 0) {
			t.Fatalf("topology %s: got %d, want %d for %d values on %d nodes", key, got, want, len(values), nodes)
		}
		if n := m.c.Domains(key); n < len(values) || n > 0 && n >= 2*len(values) {
			t.Fatalf("topology %s: got %d domains for %d values, want the next power of two", key, n, len(values))
		}
		now := fmt.Sprint(got, m.c.Domains(key))
		if was, told := m.told[key]; told && was != now && m.toldAt == m.c.TopologyVersion() {
			t.Fatalf("topology %s: got topology and domains %s after %s, and the version has not moved", key, now, was)
		}
		m.told[key] = now
	}
	m.toldAt = m.c.TopologyVersion()
}

// checkSnapshots holds that a table made of a snapshot is the one that the deltas led to.
func (m *machine) checkSnapshots(t *rapid.T) {
	for i := range m.c.NumShards() {
		own := m.c.Table(i)
		var rows []*pb.SnapshotRow
		own.Snapshot(func(r *pb.SnapshotRow) bool { rows = append(rows, r); return true })
		loaded, err := scorer.LoadTable(uint32(i), own.Generation(), rows, slices.Collect(own.Counters))
		if err != nil {
			t.Fatalf("shard %d: load its own snapshot: %v", i, err)
		}
		if d := cmp.Diff(snapshot(own), snapshot(loaded)); d != "" {
			t.Fatalf("shard %d (-own +of its snapshot):\n%s", i, d)
		}
	}
}

// columns is a table's counters as text.
func columns(t *scorer.Table) []string {
	var out []string
	t.Counters(func(c *pb.CounterColumn) bool {
		out = append(out, fmt.Sprintf("counter %d: rows %v, values %v", c.Counter, c.Rows, c.Values))
		return true
	})
	return out
}

func has(kinds map[*kind]struct{}, k *kind) bool {
	_, is := kinds[k]
	return is
}
