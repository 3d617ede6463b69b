package scorer

import (
	"fmt"
	"slices"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// pinnedClass is a class with one pinned term, which has no sum yet.
func pinnedClass(t testing.TB) *Class {
	return newClass(t, &pb.Query{ClassId: 1, RowValues: []*pb.RowValue{{Pinned: []*pb.PinnedTerms{{TopologyKey: "rack", Counters: counting(7)}}}}})
}

func TestPinGivesTheSumsOfAllTables(t *testing.T) {
	var tables []*Table
	for i, racks := range [][]string{{"a", "b", "a"}, {"b", ""}} {
		table := NewTable(uint32(i))
		for row, rack := range racks {
			n := &pb.Node{Name: fmt.Sprintf("n-%d-%d", i, row)}
			if rack != "" {
				n.Labels = []*pb.Label{{Key: "rack", Value: rack}}
			}
			must(table.Apply(&pb.Delta{Row: uint32(row), Change: &pb.Delta_SetNode{SetNode: n}}))
			change := &pb.CounterChange{Counters: []*pb.CounterValue{{Counter: 7, Value: int64(1 + row)}}}
			must(table.Apply(&pb.Delta{Row: uint32(row), Change: &pb.Delta_ChangeCounters{ChangeCounters: change}}))
		}
		tables = append(tables, table)
	}
	c := pinnedClass(t)
	pinned := c.Pin(slices.Values(tables))
	if got := pinned.PinnedSums(); len(got) != 1 || !slices.Equal(got[0].Domains, []string{"a", "b"}) || !slices.Equal(got[0].Sums, []int64{4, 3}) {
		t.Errorf("got %v, want a: 4 and b: 3", got)
	}
	if pinned.Pin(slices.Values(tables)) != pinned {
		t.Error("pinned as it is: got another class")
	}
	if got, want := pinned.MemoryBytes()-c.MemoryBytes(), int64(2*pinnedBytes); got != want {
		t.Errorf("two sums: got %d bytes more, want %d", got, want)
	}
	if got, want := pinned.Pin(slices.Values(tables[1:])).MemoryBytes()-c.MemoryBytes(), int64(pinnedBytes); got != want {
		t.Errorf("one of them: got %d bytes more, want %d", got, want)
	}
}

func TestAClassWithoutItsPinnedSumsIsNotEvaluated(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("got an answer, want a panic: sums of 0 would be wrong")
		}
	}()
	table := NewTable(0)
	must(table.Apply(&pb.Delta{Change: &pb.Delta_SetNode{SetNode: &pb.Node{Name: "n"}}}))
	evaluate(NewEvaluator(nil), table, pinnedClass(t), Options{Candidates: 1})
}

func TestPinToWantsASumForEachTerm(t *testing.T) {
	for sums := range 3 {
		if _, err := pinnedClass(t).PinTo(make([]*pb.PinnedSums, sums)); (err == nil) != (sums == 1) {
			t.Errorf("%d of 1: got error %v", sums, err)
		}
	}
}
