package scorer

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// crowded is a table of so many rows of ten pods, that count alike for counters 2, 4, 6 and on: the first
// row's pods for one more.
func crowded(t testing.TB, rows, counters int) (*Table, *pb.CounterColumn) {
	t.Helper()
	table := NewTable(0)
	u := &pb.PodUsage{Requests: &pb.Resources{}}
	for id := range counters {
		u.Counters = append(u.Counters, &pb.CounterValue{Counter: uint32(2*id + 2), Value: 1})
	}
	odd := &pb.PodUsage{Requests: &pb.Resources{}, Counters: append(slices.Clone(u.Counters), &pb.CounterValue{Counter: 1 << 20, Value: 3})}
	column := &pb.CounterColumn{}
	for row := range uint32(rows) {
		must(table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_SetNode{SetNode: &pb.Node{Name: fmt.Sprint("n", row)}}}))
		usage := u
		if row == 0 {
			usage = odd
		}
		for i := range uint64(10) {
			number := uint64(row)*10 + i + 1
			must(table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_AddPod{AddPod: usage}, Pod: &pb.PlacedPod{Number: number}}))
			column.PodRows, column.PodNumbers = append(column.PodRows, row), append(column.PodNumbers, number)
		}
		column.Rows, column.Values = append(column.Rows, row), append(column.Values, 10)
	}
	return table, column
}

// A counter that thousands of pods count for, and thousands of counters besides, makes one list for each
// two that were different before, coming and going: not one for each pod.
func TestACounterIsListedOnceForPodsThatCountAlike(t *testing.T) {
	table, column := crowded(t, 300, 1000)
	column.Counter = 999
	set, drop := &pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: column}}, &pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: &pb.CounterColumn{Counter: 999}}}
	if n := testing.AllocsPerRun(5, func() { must(table.Apply(set)); must(table.Apply(drop)) }); n > 60 {
		t.Errorf("3,000 pods of two kinds: want at most 60 allocations, got %g", n)
	}
	must(table.Apply(set))
	if n := len(table.placed.counts.byKey); n != 2 {
		t.Errorf("want two lists of counters, got %d", n)
	}
	for _, row := range []uint32{0, 299} {
		counts := table.placed.counts.contents[table.placed.ofRow[row][0].counts].counts
		if at, found := findCounter(counts, 999); !found || counts[at].change != 1 || !slices.IsSortedFunc(counts, func(a, b counterChange) int { return int(a.id) - int(b.id) }) {
			t.Errorf("row %d: want counter 999 among %d in order, found %t", row, len(counts), found)
		}
	}
	if err := table.check(); err != nil {
		t.Error(err)
	}
}

// Totals add lists up whatever their order.
func TestTotalsAddListsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var totals RowTotals
		want := map[uint32]int64{}
		for range rapid.IntRange(1, 5).Draw(t, "lists") {
			var list []*pb.CounterValue
			for range rapid.IntRange(0, 6).Draw(t, "counters") {
				list = append(list, &pb.CounterValue{Counter: rapid.Uint32Range(1, 9).Draw(t, "counter"), Value: rapid.Int64Range(-2, 2).Draw(t, "value")})
			}
			if rapid.Bool().Draw(t, "sorted") {
				slices.SortFunc(list, func(a, b *pb.CounterValue) int { return int(a.Counter) - int(b.Counter) })
			}
			sign := rapid.SampledFrom([]int64{1, -1}).Draw(t, "sign")
			totals.AddCounters(list, sign)
			for _, v := range list {
				want[v.Counter] += sign * v.Value
			}
		}
		if len(totals.counters) != len(want) || !slices.IsSortedFunc(totals.counters, func(a, b counterChange) int { return int(a.id) - int(b.id) }) {
			t.Fatalf("want %d counters in order, got %v", len(want), totals.counters)
		}
		for _, c := range totals.counters {
			if want[c.id] != c.change {
				t.Errorf("counter %d: want %d, got %d", c.id, want[c.id], c.change)
			}
		}
	})
}

// BenchmarkSetPodCounter is a counter that all of 5,000 pods come to count for, and cease to, who count for
// a thousand others.
func BenchmarkSetPodCounter(b *testing.B) {
	table, column := crowded(b, 500, 1000)
	column.Counter = 999
	set, drop := &pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: column}}, &pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: &pb.CounterColumn{Counter: 999}}}
	b.ReportAllocs()
	for b.Loop() {
		must(table.Apply(set))
		must(table.Apply(drop))
	}
}

// BenchmarkAddCounters adds a pod's thousands of counters to a row's, and takes them back.
func BenchmarkAddCounters(b *testing.B) {
	var list []*pb.CounterValue
	for id := range uint32(5000) {
		list = append(list, &pb.CounterValue{Counter: id + 1, Value: 1})
	}
	var totals RowTotals
	b.ReportAllocs()
	for b.Loop() {
		totals.AddCounters(list, 1)
		totals.AddCounters(list, -1)
	}
}
