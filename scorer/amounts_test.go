package scorer

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TestCursorReadsAsTheColumnDoes holds that a walk over some rows, some of them twice, finds what a search for each
// finds: in lists and in columns with a slot a row.
func TestCursorReadsAsTheColumnDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity = 4 * wordRows
		var a amounts
		for range rapid.IntRange(0, 3*capacity/sparseFactor/2).Draw(t, "entries") {
			a.set(rapid.Uint32Range(0, capacity-1).Draw(t, "row"), rapid.Int64Range(0, 3).Draw(t, "amount"), capacity)
		}
		c := cursor{amounts: &a}
		for row := uint32(0); row < capacity; row += rapid.Uint32Range(0, 5).Draw(t, "step") {
			if got, want := c.at(row), a.at(row); got != want {
				t.Fatalf("row %d of %v: got %d, want %d", row, a.rows, got, want)
			}
		}
	})
}

// Names that pods gave scalars go with the last of them; what a row's pods added up to is known by name still.
func TestScalarsGoWithTheirLastRow(t *testing.T) {
	table := NewTable(0)
	must(table.Apply(&pb.Delta{Change: &pb.Delta_SetNode{SetNode: &pb.Node{Name: "n", Allocatable: &pb.Resources{Scalars: []*pb.ScalarResource{{Name: "example.com/gpu", Quantity: 8}}}}}}))
	memory := table.MemoryBytes()
	var before RowTotals
	for i := range 1000 {
		name := fmt.Sprint("example.com/", i)
		usage := &pb.PodUsage{Requests: &pb.Resources{Scalars: []*pb.ScalarResource{{Name: name, Quantity: 5}}}}
		pod := &pb.PlacedPod{Number: uint64(i + 1)}
		must(table.Apply(&pb.Delta{Change: &pb.Delta_AddPod{AddPod: usage}, Pod: pod}))
		table.Totals(0, &before)
		must(table.Apply(&pb.Delta{Change: &pb.Delta_RemovePod{RemovePod: usage}, Pod: pod}))
		v, now := view{t: table, totals: &before}, view{t: table}
		if _, had := v.amounts(newResourceRef(name)); had != 5 {
			t.Fatalf("%s: got %d of the pod before it left, want 5", name, had)
		}
		if _, has := now.amounts(newResourceRef(name)); has != 0 {
			t.Fatalf("%s: got %d once the pod has left, want 0", name, has)
		}
	}
	if len(table.scalars) != 1 || len(table.scalarsOf[0]) != 1 {
		t.Errorf("got %d scalars, the row's %d; want 1", len(table.scalars), len(table.scalarsOf[0]))
	}
	if got := table.MemoryBytes(); got > memory+1<<10 {
		t.Errorf("got %d bytes after the pods, want the %d of before and 1 KiB at most", got, memory)
	}
	must(table.Apply(&pb.Delta{Change: &pb.Delta_RemoveNode{RemoveNode: &pb.RemoveNode{}}}))
	if len(table.scalars) != 0 || table.scalarsOf[0] != nil {
		t.Errorf("without the node: got %d scalars, want none", len(table.scalars))
	}
}

// A pod may ask for tens of thousands of scalars whose names stand between those of the pods that are there: the row's list
// is put together once, not once a scalar.
func TestARowsListOfScalarsFollowsOnce(t *testing.T) {
	table := NewTable(0)
	must(table.Apply(&pb.Delta{Change: &pb.Delta_SetNode{SetNode: &pb.Node{Name: "n"}}}))
	const n = 1000
	var x relisting
	for i := range n {
		table.setScalar(0, fmt.Sprintf("a/%04d", i*7%n), requestedOf, 1, &x)
	}
	if len(table.scalarsOf[0]) != 0 || len(x.came) != n {
		t.Errorf("got a list of %d before all were set, %d to come; want 0, %d", len(table.scalarsOf[0]), len(x.came), n)
	}
	table.relist(0, &x)
	x = relisting{}
	for i := 0; i < n; i += 2 {
		table.setScalar(0, fmt.Sprintf("a/%04d", i), requestedOf, 0, &x)
	}
	if len(table.scalarsOf[0]) != n || !x.gone {
		t.Errorf("got a list of %d before all were taken, gone %t; want %d, true", len(table.scalarsOf[0]), x.gone, n)
	}
	table.relist(0, &x)
	for i, r := range table.scalarsOf[0] {
		if want := fmt.Sprintf("a/%04d", 2*i+1); r.name != want || len(table.scalarsOf[0]) != n/2 {
			t.Fatalf("got %s at %d of %d; want %s of %d", r.name, i, len(table.scalarsOf[0]), want, n/2)
		}
	}
}
