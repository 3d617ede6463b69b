package scorer

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// model is what a table ought to hold, kept the plain way: the pods themselves.
type model map[uint32]*modelRow

type modelRow struct {
	node     *pb.Node
	pods     []*pb.PodUsage
	placed   []*pb.PlacedPod // of each of pods; nil: it has no number
	decision uint64
}

// numbered are the pods that have numbers, as a snapshot has them.
func (x *modelRow) numbered() []*pb.PlacedPod {
	var out []*pb.PlacedPod
	for i, p := range x.placed {
		if p == nil {
			continue
		}
		p = proto.CloneOf(p)
		p.Usage = proto.CloneOf(x.pods[i])
		p.Usage.Requests = total([]*pb.Resources{p.Usage.Requests})
		out = append(out, p)
	}
	start := func(p *pb.PlacedPod) uint64 { return uint64(p.StartMicros) - 1 } // none is last
	slices.SortFunc(out, func(a, b *pb.PlacedPod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(start(a), start(b)), cmp.Compare(a.Number, b.Number))
	})
	return out
}

// placed draws all of a pod but its usage.
func (r random) placed() *pb.PlacedPod {
	p := &pb.PlacedPod{Number: 1 + r.Uint64N(1<<40), Priority: int32(r.IntN(5)) - 2, StartMicros: r.Int64N(4)}
	for id := uint32(1); id < 4; id++ {
		if r.chance(20) {
			p.Budgets = append(p.Budgets, id)
		}
		if r.chance(10) {
			p.Leaving = append(p.Leaving, &pb.CounterValue{Counter: id, Value: 1 + r.Int64N(2)})
		}
		if r.chance(10) {
			p.Shared = append(p.Shared, &pb.SharedCount{Counter: id, Token: r.Uint64N(2)})
		}
	}
	return p
}

// rows are the model's rows as a snapshot has them.
func (m model) rows() []*pb.SnapshotRow {
	var out []*pb.SnapshotRow
	for at, x := range m {
		node := proto.CloneOf(x.node)
		node.Allocatable = total([]*pb.Resources{node.Allocatable})
		out = append(out, &pb.SnapshotRow{Row: at, Node: node, Totals: x.totals(), Pods: x.numbered()})
	}
	slices.SortFunc(out, func(a, b *pb.SnapshotRow) int { return cmp.Compare(a.Row, b.Row) })
	return out
}

func (x *modelRow) totals() *pb.NodeTotals {
	out := &pb.NodeTotals{Pods: int64(len(x.pods)), LastDecision: x.decision}
	var requests []*pb.Resources
	ports := map[string]*pb.PortUse{}
	for _, p := range x.pods {
		requests = append(requests, p.Requests)
		out.NonZeroMilliCpu += p.NonZeroMilliCpu
		out.NonZeroMemoryBytes += p.NonZeroMemoryBytes
		for _, h := range p.HostPorts {
			key := fmt.Sprintf("%s %d %d", h.Ip, h.Protocol, h.Port)
			if ports[key] == nil {
				ports[key] = &pb.PortUse{Port: h}
				out.Ports = append(out.Ports, ports[key])
			}
			ports[key].Pods++
		}
	}
	out.Requested = total(requests)
	slices.SortFunc(out.Ports, func(a, b *pb.PortUse) int {
		return cmp.Or(strings.Compare(a.Port.Ip, b.Port.Ip), cmp.Compare(a.Port.Protocol, b.Port.Protocol), cmp.Compare(a.Port.Port, b.Port.Port))
	})
	return out
}

// total adds resources up; scalars that come to nothing are left out.
func total(list []*pb.Resources) *pb.Resources {
	out, sums := &pb.Resources{}, map[string]int64{}
	for _, r := range list {
		out.MilliCpu += r.GetMilliCpu()
		out.MemoryBytes += r.GetMemoryBytes()
		out.EphemeralStorageBytes += r.GetEphemeralStorageBytes()
		for _, s := range r.GetScalars() {
			sums[s.Name] += s.Quantity
		}
	}
	for name, v := range sums {
		if v != 0 {
			out.Scalars = append(out.Scalars, &pb.ScalarResource{Name: name, Quantity: v})
		}
	}
	slices.SortFunc(out.Scalars, func(a, b *pb.ScalarResource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// encode makes rows comparable byte for byte.
func encode(t interface{ Fatalf(string, ...any) }, rows []*pb.SnapshotRow) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pb.LoadSnapshotRequest{Rows: rows})
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return b
}

func snapshot(t *Table) []*pb.SnapshotRow {
	var rows []*pb.SnapshotRow
	for x := range t.Snapshot {
		rows = append(rows, x)
	}
	return rows
}

func text(rows []*pb.SnapshotRow) string {
	return prototext.Format(&pb.LoadSnapshotRequest{Rows: rows})
}

// step makes a delta that the model allows, and does it there.
func (m model) step(r random, rows int) *pb.Delta {
	at := uint32(r.IntN(rows))
	d := &pb.Delta{Row: at}
	x := m[at]
	switch {
	case x == nil || r.chance(15):
		name := fmt.Sprintf("n%d-%d", at, r.IntN(2))
		d.Change = &pb.Delta_SetNode{SetNode: r.node(name)}
		if x == nil {
			x = &modelRow{}
			m[at] = x
		}
		x.node = d.GetSetNode()
	case r.chance(15):
		d.Change = &pb.Delta_RemoveNode{RemoveNode: &pb.RemoveNode{}}
		delete(m, at)
	case len(x.pods) == 0 || r.chance(55):
		d.Change, d.Decision = &pb.Delta_AddPod{AddPod: r.pod()}, r.Uint64N(3)
		if r.chance(70) {
			d.Pod = r.placed()
		}
		x.pods, x.placed = append(x.pods, d.GetAddPod()), append(x.placed, d.Pod)
		if d.Decision != 0 {
			x.decision = d.Decision
		}
	default:
		i := r.IntN(len(x.pods))
		if p := x.placed[i]; p != nil && r.chance(50) {
			now := r.placed()
			now.Number = p.Number
			d.Change, x.placed[i] = &pb.Delta_ChangePod{ChangePod: now}, now
			break
		}
		d.Change = &pb.Delta_RemovePod{RemovePod: x.pods[i]}
		if p := x.placed[i]; p != nil {
			d.Pod = &pb.PlacedPod{Number: p.Number}
		}
		x.pods, x.placed = slices.Delete(x.pods, i, i+1), slices.Delete(x.placed, i, i+1)
	}
	return d
}

// However a table came to its rows, it is the table that a snapshot of them makes: the
// same snapshot byte for byte, the same answers, and nothing left of what is gone.
func TestDeltasEqualSnapshot(t *testing.T) {
	e := NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		r := newRandom(rapid.Uint64().Draw(t, "seed"))
		rows := rapid.SampledFrom([]int{1, 3, 63, 64, 65, 130, 300}).Draw(t, "rows")
		steps := rapid.IntRange(1, 6*rows).Draw(t, "steps")
		m, table := model{}, NewTable(5)
		for i := range steps {
			d := m.step(r, rows)
			if err := table.Apply(d); err != nil {
				t.Fatalf("step %d: %v\ndelta %v", i, err, d)
			}
			if table.Generation() != uint64(i+1) {
				t.Fatalf("got generation %d, want %d", table.Generation(), i+1)
			}
			if r.chance(2) { // a snapshot in the middle changes nothing
				table = loadTable(t, 5, snapshot(table))
				table.generation = uint64(i + 1)
			}
		}
		checkTable(t, table, m)
		loaded := loadTable(t, 5, m.rows())
		checkTable(t, loaded, m)
		for range 2 {
			c := newClass(t, r.query())
			o := options(t, c)
			if d := diff(describe(evaluate(e, table, c, o)), describe(evaluate(e, loaded, c, o))); d != "" {
				t.Fatalf("query %v\n%s", c.Query(), d)
			}
		}
		checkEmptied(t, table, m)
	})
}

func checkTable(t *rapid.T, table *Table, m model) {
	if err := table.check(); err != nil {
		t.Fatalf("%v", err)
	}
	got, want := snapshot(table), m.rows()
	if !bytes.Equal(encode(t, got), encode(t, want)) {
		t.Fatalf("snapshot: %s", diff(text(got), text(want)))
	}
	highest := 0
	for at := range m {
		highest = max(highest, int(at)+1)
	}
	if table.Nodes() != len(m) || table.Rows() != highest {
		t.Fatalf("got %d nodes in %d rows, want %d in %d", table.Nodes(), table.Rows(), len(m), highest)
	}
}

// checkEmptied removes all nodes and looks for what is left.
func checkEmptied(t *rapid.T, table *Table, m model) {
	for at := range m {
		must(table.Apply(&pb.Delta{Row: at, Change: &pb.Delta_RemoveNode{}}))
	}
	checkTable(t, table, model{})
	if n := len(table.labels.byKey) + len(table.images.byName) + len(table.taints.lists.byKey) + len(table.labels.keySets.byKey); n != 0 {
		t.Fatalf("got %d entries in the dictionaries of an empty table, want none", n)
	}
}

// A row judged with totals of its own is judged as a table that has them.
func TestTotalsStandInForTheRows(t *testing.T) {
	e := NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		r := newRandom(rapid.Uint64().Draw(t, "seed"))
		rows := r.rows(rapid.IntRange(1, 20).Draw(t, "size"))
		table := loadTable(t, 0, rows)
		before := make([]RowTotals, len(rows))
		for i, x := range rows {
			table.Totals(x.Row, &before[i])
			must(table.Apply(&pb.Delta{Row: x.Row, Change: &pb.Delta_AddPod{AddPod: r.pod()}, Decision: 99}))
			if before[i].LastDecision() != x.Totals.LastDecision {
				t.Fatalf("got decision %d, want %d", before[i].LastDecision(), x.Totals.LastDecision)
			}
		}
		old := loadTable(t, 0, rows)
		for range 5 {
			c := newClass(t, r.query())
			for i, x := range rows {
				want := fmt.Sprint(judge(e, old, x.Row, nil, c))
				if got := fmt.Sprint(judge(e, table, x.Row, &before[i], c)); got != want {
					t.Fatalf("row %d: got %s, want %s", x.Row, got, want)
				}
				_, why := e.Reasons(old, x.Row, nil, c)
				want = fmt.Sprint(why, e.Shortfalls(old, x.Row, nil, c), e.Scores(old, x.Row, nil, c))
				_, why = e.Reasons(table, x.Row, &before[i], c)
				if got := fmt.Sprint(why, e.Shortfalls(table, x.Row, &before[i], c), e.Scores(table, x.Row, &before[i], c)); got != want {
					t.Fatalf("row %d: got %s, want %s", x.Row, got, want)
				}
			}
		}
	})
}

func TestApplyRefuses(t *testing.T) {
	port := &pb.HostPort{Ip: "0.0.0.0", Protocol: pb.Protocol_PROTOCOL_TCP, Port: 80}
	add := func(u *pb.PodUsage) *pb.Delta { return &pb.Delta{Change: &pb.Delta_AddPod{AddPod: u}} }
	remove := func(u *pb.PodUsage) *pb.Delta { return &pb.Delta{Change: &pb.Delta_RemovePod{RemovePod: u}} }
	set := func(row uint32, n *pb.Node) *pb.Delta {
		return &pb.Delta{Row: row, Change: &pb.Delta_SetNode{SetNode: n}}
	}
	gpu := func(n int64) *pb.Resources {
		return &pb.Resources{Scalars: []*pb.ScalarResource{{Name: "nvidia.com/gpu", Quantity: n}}}
	}
	for _, c := range []struct {
		name  string
		delta *pb.Delta
		want  string
	}{
		{"nothing to do", &pb.Delta{}, "expected one of set_node"},
		{"a row beyond the limit", set(pb.MaxRow, &pb.Node{Name: "b"}), "row: expected"},
		{"a node without a name", set(1, &pb.Node{}), "set_node.name"},
		{"a name that another row has", set(1, &pb.Node{Name: "a"}), "node a is in row 0 already"},
		{"labels out of order", set(1, &pb.Node{Name: "b", Labels: []*pb.Label{{Key: "y"}, {Key: "x"}}}), "labels[1]"},
		{"negative resources", set(1, &pb.Node{Name: "b", Allocatable: &pb.Resources{MilliCpu: -1}}), "milli_cpu"},
		{"a pod for a row without a node", &pb.Delta{Row: 1, Change: &pb.Delta_AddPod{}}, "row 1: holds no node"},
		{"a pod for a row that never was", &pb.Delta{Row: 1 << 20, Change: &pb.Delta_AddPod{}}, "holds no node"},
		{"removing a node that is not there", &pb.Delta{Row: 1, Change: &pb.Delta_RemoveNode{}}, "holds no node"},
		{"a pod that makes a sum overflow", add(&pb.PodUsage{Requests: &pb.Resources{MilliCpu: math.MaxInt64}}), "62 bits"},
		{"scalars that overflow", add(&pb.PodUsage{Requests: gpu(math.MaxInt64)}), "62 bits"},
		{"taking more cpu than is there", remove(&pb.PodUsage{Requests: &pb.Resources{MilliCpu: 101}}), "do not have that much"},
		{"taking more of a scalar", remove(&pb.PodUsage{Requests: gpu(2)}), "do not have that much"},
		{"freeing a port twice", remove(&pb.PodUsage{HostPorts: []*pb.HostPort{port, port}}), "do not have that much"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := NewTable(9)
			must(table.Apply(set(0, &pb.Node{Name: "a"})))
			must(table.Apply(add(&pb.PodUsage{Requests: &pb.Resources{MilliCpu: 100, Scalars: gpu(1).Scalars}, HostPorts: []*pb.HostPort{port}})))
			before := text(snapshot(table))
			err := table.Apply(c.delta)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "delta 3 of shard 9") {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
			if d := diff(text(snapshot(table)), before); d != "" || table.Generation() != 2 {
				t.Errorf("the table changed, to generation %d: %s", table.Generation(), d)
			}
		})
	}
}

func TestLoadTableRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		rows []*pb.SnapshotRow
		want string
	}{
		{"a row without a node", []*pb.SnapshotRow{{Row: 1}}, "rows[0]: node"},
		{"a row twice", []*pb.SnapshotRow{{Node: &pb.Node{Name: "a"}}, {Node: &pb.Node{Name: "b"}}}, "rows[1]: row 0 comes twice"},
		{"a name twice", []*pb.SnapshotRow{{Node: &pb.Node{Name: "a"}}, {Row: 1, Node: &pb.Node{Name: "a"}}}, "rows[1]: node a is in row 0 already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := LoadTable(2, 3, c.rows, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// A node under endless replacement leaves nothing behind.
func TestChurnKeepsMemory(t *testing.T) {
	r, table := newRandom(1), NewTable(0)
	for i := range 40 {
		must(table.Apply(&pb.Delta{Row: uint32(i), Change: &pb.Delta_SetNode{SetNode: r.node(fmt.Sprintf("n%d", i))}}))
	}
	var early int64
	for i := range 20000 {
		row := uint32(i % 40)
		must(table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_RemoveNode{}}))
		must(table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_SetNode{SetNode: r.node(fmt.Sprintf("n%d", 1000+i))}}))
		if i == 2000 {
			early = table.MemoryBytes()
		}
	}
	if got := table.MemoryBytes(); got > early*11/10 {
		t.Errorf("got %d bytes after 20,000 replacements, want about the %d after 2,000", got, early)
	}
	if err := table.check(); err != nil {
		t.Error(err)
	}
}
