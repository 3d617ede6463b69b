package scorer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// podsTable has a node with three pods, 1 to 3, of which the last two count for counter 7.
func podsTable(t testing.TB) *Table {
	table := NewTable(0)
	apply := func(d *pb.Delta) {
		if err := table.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	apply(&pb.Delta{Row: 2, Change: &pb.Delta_SetNode{SetNode: &pb.Node{Name: "n"}}})
	for number := uint64(1); number <= 3; number++ {
		u := &pb.PodUsage{NonZeroMilliCpu: 100, Requests: &pb.Resources{}}
		if number > 1 {
			u.Counters = []*pb.CounterValue{{Counter: 7, Value: 1}}
		}
		apply(&pb.Delta{Row: 2, Change: &pb.Delta_AddPod{AddPod: u}, Pod: &pb.PlacedPod{Number: number, Priority: int32(number)}})
	}
	return table
}

// countersOf tells what each pod of row 2 counts for.
func podCountersOf(t *Table) map[uint64][]*pb.CounterValue {
	out := map[uint64][]*pb.CounterValue{}
	w := podWriter{table: t}
	for _, p := range w.pods(2) {
		out[p.Number] = p.Usage.Counters
	}
	return out
}

// A counter's column says which pods count; without rows, none does.
func TestPodsCountWithAColumn(t *testing.T) {
	table := podsTable(t)
	set := func(c *pb.CounterColumn) {
		t.Helper()
		if err := table.Apply(&pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: c}}); err != nil {
			t.Fatal(err)
		}
	}
	one := func(id uint32, v int64) *pb.CounterValue { return &pb.CounterValue{Counter: id, Value: v} }
	check := func(want map[uint64][]*pb.CounterValue) {
		t.Helper()
		if d := cmp.Diff(want, podCountersOf(table), protocmp.Transform()); d != "" {
			t.Errorf("counters of pods (-want +got):\n%s", d)
		}
		if err := table.check(); err != nil {
			t.Error(err)
		}
	}
	set(&pb.CounterColumn{Counter: 5, Rows: []uint32{2}, Values: []int64{2}, PodRows: []uint32{2, 2}, PodNumbers: []uint64{1, 3}})
	check(map[uint64][]*pb.CounterValue{1: {one(5, 1)}, 2: {one(7, 1)}, 3: {one(5, 1), one(7, 1)}})
	set(&pb.CounterColumn{Counter: 7, Rows: []uint32{2}, Values: []int64{9}, PodRows: []uint32{2}, PodNumbers: []uint64{1}, PodValues: []int64{9}})
	check(map[uint64][]*pb.CounterValue{1: {one(5, 1), one(7, 9)}, 2: nil, 3: {one(5, 1)}})
	set(&pb.CounterColumn{Counter: 5})
	check(map[uint64][]*pb.CounterValue{1: {one(7, 9)}, 2: nil, 3: nil})
}

// A part of a column leaves the other rows, and their pods, as they are.
func TestPodsCountWithAPartOfAColumn(t *testing.T) {
	table := NewTable(0)
	apply := func(d *pb.Delta) {
		t.Helper()
		if err := table.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	for row := range uint32(5) {
		apply(&pb.Delta{Row: row, Change: &pb.Delta_SetNode{SetNode: &pb.Node{Name: fmt.Sprint("n", row)}}})
		apply(&pb.Delta{Row: row, Change: &pb.Delta_AddPod{AddPod: &pb.PodUsage{}}, Pod: &pb.PlacedPod{Number: uint64(row) + 1}})
	}
	part := func(from, to uint32, values ...int64) {
		c := &pb.CounterColumn{Counter: 5, FromRow: from, ToRow: to}
		for i, v := range values {
			row := from + uint32(i)
			c.Rows, c.Values = append(c.Rows, row), append(c.Values, v)
			c.PodRows, c.PodNumbers, c.PodValues = append(c.PodRows, row), append(c.PodNumbers, uint64(row)+1), append(c.PodValues, v)
		}
		apply(&pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: c}})
	}
	check := func(want ...int64) {
		t.Helper()
		pods := podWriter{table: table}
		for row, v := range want {
			got := table.Counter(5, uint32(row))
			var ofPod int64
			for _, x := range pods.pods(uint32(row))[0].Usage.GetCounters() {
				ofPod += x.Value
			}
			if got != v || ofPod != v {
				t.Errorf("row %d: got %d, of its pod %d, want %d", row, got, ofPod, v)
			}
		}
		if err := table.check(); err != nil {
			t.Error(err)
		}
	}
	part(3, 5, 1, 2)
	check(0, 0, 0, 1, 2)
	part(0, 2, 3, 4)
	check(3, 4, 0, 1, 2)
	part(1, 4, 5)
	check(3, 5, 0, 0, 2)
	part(0, 5)
	check(0, 0, 0, 0, 0)
}

// What does not fit the row's pods is refused and changes nothing.
func TestRefusedPods(t *testing.T) {
	u := func() *pb.PodUsage { return &pb.PodUsage{} }
	for _, c := range []struct {
		name  string
		delta *pb.Delta
		want  string
	}{
		{"a number twice", &pb.Delta{Row: 2, Change: &pb.Delta_AddPod{AddPod: u()}, Pod: &pb.PlacedPod{Number: 3}}, "add_pod: pod 3 is there already"},
		{"a pod that is not there", &pb.Delta{Row: 2, Change: &pb.Delta_RemovePod{RemovePod: u()}, Pod: &pb.PlacedPod{Number: 4}}, "remove_pod: pod 4 is not there"},
		{"a change of none", &pb.Delta{Row: 2, Change: &pb.Delta_ChangePod{ChangePod: &pb.PlacedPod{Number: 4}}}, "change_pod: pod 4 is not there"},
		{"a change in a row without a node", &pb.Delta{Row: 1, Change: &pb.Delta_ChangePod{ChangePod: &pb.PlacedPod{Number: 1}}}, "holds no node"},
		{"a column of none", &pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: &pb.CounterColumn{Counter: 1, PodRows: []uint32{2}, PodNumbers: []uint64{9}}}}, "row 2 has no pod 9"},
		{"a column beyond the rows", &pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: &pb.CounterColumn{Counter: 1, PodRows: []uint32{999999}, PodNumbers: []uint64{1}}}}, "row 999999 has no pod 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := podsTable(t)
			before := encode(t, snapshot(table))
			if err := table.Apply(c.delta); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if !slices.Equal(encode(t, snapshot(table)), before) {
				t.Error("the table has changed")
			}
		})
	}
	row := snapshot(podsTable(t))[0]
	row.Pods = append(row.Pods, proto.CloneOf(row.Pods[0]))
	if _, err := LoadTable(0, 1, []*pb.SnapshotRow{row}, nil); err == nil || !strings.Contains(err.Error(), "pods[3]: pod 3 is there already") {
		t.Errorf("got %v, want a complaint about pods[3]", err)
	}
}

// Adding and removing a pod of a known kind allocates nothing once the row has had as many.
func TestPodsComeAndGoWithoutAllocating(t *testing.T) {
	table := podsTable(t)
	u := &pb.PodUsage{NonZeroMilliCpu: 100, Requests: &pb.Resources{}, Counters: []*pb.CounterValue{{Counter: 7, Value: 1}}}
	add := &pb.Delta{Row: 2, Change: &pb.Delta_AddPod{AddPod: u}, Pod: &pb.PlacedPod{Number: 9, Priority: 2}}
	remove := &pb.Delta{Row: 2, Change: &pb.Delta_RemovePod{RemovePod: u}, Pod: &pb.PlacedPod{Number: 9}}
	if n := testing.AllocsPerRun(100, func() { must(table.Apply(add)); must(table.Apply(remove)) }); n > 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}
