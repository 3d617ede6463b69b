package scorer

import (
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// columns encodes all counters of a table.
func columns(t interface{ Fatal(...any) }, table *Table) []string {
	var out []string
	for c := range table.Counters {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

// counterRows makes a table of so many rows without pods.
func counterRows(t interface{ Fatal(...any) }, rows int) *Table {
	table := NewTable(1)
	for i := range rows {
		n := &pb.Node{Name: "n" + string(rune('a'+i%26)) + string(rune('a'+i/26)), AllowedPods: 1000}
		if err := table.Apply(&pb.Delta{Row: uint32(i), Change: &pb.Delta_SetNode{SetNode: n}}); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

// drawValues draws changes of a few counters.
func drawValues(t *rapid.T) []*pb.CounterValue {
	drawn := rapid.MapOfN(rapid.Uint32Range(1, 5), rapid.Int64Range(-3, 3).Filter(func(v int64) bool { return v != 0 }), 1, 3).Draw(t, "values")
	var out []*pb.CounterValue
	for _, id := range slices.Sorted(maps.Keys(drawn)) {
		out = append(out, &pb.CounterValue{Counter: id, Value: drawn[id]})
	}
	return out
}

// Counters are the sums of what pods and changes added to them, a column that is
// set replaces them, and a table made of a snapshot has the same.
func TestCountersAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const rows = 70
		table := counterRows(t, rows)
		want := map[[2]uint32]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "deltas") {
			row := rapid.Uint32Range(0, rows-1).Draw(t, "row")
			d := &pb.Delta{Row: row}
			switch rapid.IntRange(0, 9).Draw(t, "change") {
			case 0:
				c := &pb.CounterColumn{Counter: rapid.Uint32Range(1, 5).Draw(t, "counter")}
				for r := range uint32(rows) {
					want[[2]uint32{c.Counter, r}] = 0
					if rapid.IntRange(0, 6).Draw(t, "has") == 0 {
						c.Rows, c.Values = append(c.Rows, r), append(c.Values, int64(r)+1)
						want[[2]uint32{c.Counter, r}] = int64(r) + 1
					}
				}
				d.Row, d.Change = 0, &pb.Delta_SetCounter{SetCounter: c}
			case 1, 2, 3:
				list := drawValues(t)
				d.Change = &pb.Delta_AddPod{AddPod: &pb.PodUsage{Counters: list}}
				for _, v := range list {
					want[[2]uint32{v.Counter, row}] += v.Value
				}
			default:
				list := drawValues(t)
				d.Change = &pb.Delta_ChangeCounters{ChangeCounters: &pb.CounterChange{Counters: list}}
				for _, v := range list {
					want[[2]uint32{v.Counter, row}] += v.Value
				}
			}
			if err := table.Apply(d); err != nil {
				t.Fatal(err)
			}
		}
		for at, v := range want {
			if got := table.Counter(at[0], at[1]); got != v {
				t.Fatalf("counter %d of row %d: got %d, want %d", at[0], at[1], got, v)
			}
		}
		var list []*pb.CounterColumn
		for c := range table.Counters {
			list = append(list, c)
		}
		var snapshot []*pb.SnapshotRow
		table.Snapshot(func(r *pb.SnapshotRow) bool { snapshot = append(snapshot, r); return true })
		loaded, err := LoadTable(1, table.Generation(), snapshot, list)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := columns(t, loaded), columns(t, table); !slices.Equal(got, want) {
			t.Fatalf("loaded counters differ: got %q, want %q", got, want)
		}
	})
}

func TestARowThatGoesTakesItsCountersWithIt(t *testing.T) {
	table := counterRows(t, 3)
	for _, d := range []*pb.Delta{
		{Row: 1, Change: &pb.Delta_ChangeCounters{ChangeCounters: &pb.CounterChange{Counters: []*pb.CounterValue{{Counter: 4, Value: 2}}}}},
		{Row: 1, Change: &pb.Delta_RemoveNode{RemoveNode: &pb.RemoveNode{}}},
	} {
		if err := table.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	if got := columns(t, table); len(got) != 0 {
		t.Errorf("got counters %q, want none", got)
	}
}

func TestCounterDeltasThatAreRefused(t *testing.T) {
	column := func(c *pb.CounterColumn) *pb.Delta { return &pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: c}} }
	change := func(row uint32, v ...*pb.CounterValue) *pb.Delta {
		return &pb.Delta{Row: row, Change: &pb.Delta_ChangeCounters{ChangeCounters: &pb.CounterChange{Counters: v}}}
	}
	for name, d := range map[string]*pb.Delta{
		"rows out of order":   column(&pb.CounterColumn{Counter: 1, Rows: []uint32{2, 1}, Values: []int64{1, 1}}),
		"a row without node":  column(&pb.CounterColumn{Counter: 1, Rows: []uint32{9}, Values: []int64{1}}),
		"fewer values":        column(&pb.CounterColumn{Counter: 1, Rows: []uint32{1, 2}, Values: []int64{1}}),
		"a value of 0":        column(&pb.CounterColumn{Counter: 1, Rows: []uint32{1}, Values: []int64{0}}),
		"counter 0":           column(&pb.CounterColumn{Rows: []uint32{1}, Values: []int64{1}}),
		"no change":           change(1),
		"change of no node":   change(9, &pb.CounterValue{Counter: 1, Value: 1}),
		"counters unsorted":   change(1, &pb.CounterValue{Counter: 2, Value: 1}, &pb.CounterValue{Counter: 1, Value: 1}),
		"a change out of all": change(1, &pb.CounterValue{Counter: 2, Value: 1 << 50}),
	} {
		table := counterRows(t, 3)
		if err := table.Apply(d); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
		if table.Generation() != 3 || len(columns(t, table)) != 0 {
			t.Errorf("%s: the table has changed", name)
		}
	}
}

// Totals with counters added are what the table has once a delta added them.
func TestTotalsCarryCounters(t *testing.T) {
	table := counterRows(t, 1)
	list := []*pb.CounterValue{{Counter: 1, Value: 3}, {Counter: 7, Value: -2}}
	var totals RowTotals
	table.Totals(0, &totals)
	totals.AddCounters(list, 1)
	usage := &pb.PodUsage{Requests: &pb.Resources{MilliCpu: 5}, NonZeroMilliCpu: 5, Counters: list[:1],
		HostPorts: []*pb.HostPort{{Ip: "0.0.0.0", Protocol: pb.Protocol_PROTOCOL_TCP, Port: 80}}}
	totals.AddPod(usage)
	v := view{t: table, totals: &totals}
	_, requested := v.amounts(newResourceRef("cpu"))
	if v.counter(1) != 6 || v.counter(7) != -2 || v.counter(2) != 0 {
		t.Errorf("got counters %d, %d, %d, want 6, -2, 0", v.counter(1), v.counter(7), v.counter(2))
	}
	if v.pods() != 1 || v.nonZero(cpu) != 5 || requested != 5 || len(v.ports()) != 1 {
		t.Errorf("got %d pods, %d and %d of cpu, ports %v, want those of the pod", v.pods(), v.nonZero(cpu), requested, v.ports())
	}
	totals.AddCounters(list, -1)
	if v.counter(1) != 3 || v.counter(7) != 0 {
		t.Errorf("taken back: got %d and %d, want 3 and 0", v.counter(1), v.counter(7))
	}
}
