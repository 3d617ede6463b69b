package scorer

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// No row takes more pods of two classes than it is said to take once it is empty, and of a class whose filters look at requests alone
// it takes as many.
func TestNoRowTakesMoreThanOnceItIsEmpty(t *testing.T) {
	e, exact, mixed := NewEvaluator(nil), 0, 0
	rapid.Check(t, func(t *rapid.T) {
		x := newCopyTrial(t, 1)
		q := proto.CloneOf(x.q)
		q.ClassId++
		if f := q.GetFit().GetRequests(); f != nil {
			f.MilliCpu, f.MemoryBytes = 2*f.MilliCpu, f.MemoryBytes/2
		}
		other := newClass(t, q).Pin(func(yield func(*Table) bool) { yield(x.tables[0]) })
		if x.c.Tied() != "" || other.Tied() != "" {
			return
		}
		table := x.tables[0]
		copies, pods := map[uint32][2]int64{}, map[uint32]int64{}
		v := e.Vacancy(table, []*Class{x.c, other})
		for row := range table.All() {
			if of, all, ok := v.Of(row, &RowTotals{}); ok {
				copies[row], pods[row] = [2]int64{of[0], of[1]}, all
			}
		}
		for row := range table.All() {
			now, otherNow := e.CopiesOn(table, row, nil, x.c), e.CopiesOn(table, row, nil, other)
			if got := copies[row]; now < pb.MaxCopies && now > got[0] || otherNow < pb.MaxCopies && otherNow > got[1] {
				t.Fatalf("row %s takes %d and %d copies, and %v once it is empty", table.Name(row), now, otherNow, got)
			}
			if now < pb.MaxCopies && x.c.ByRequests() {
				exact++
				if got := e.CopiesOn(table, row, &RowTotals{}, x.c); got != copies[row][0] && got < pb.MaxCopies {
					t.Fatalf("row %s takes %d copies once it is empty, want %d", table.Name(row), copies[row][0], got)
				}
			}
			for n := int64(1); n <= min(now, 4); n++ {
				var totals RowTotals
				table.Totals(row, &totals)
				x.copy(&totals, n)
				if more := e.CopiesOn(table, row, &totals, other); more < pb.MaxCopies && more > 0 {
					mixed++
					if n+more > pods[row] {
						t.Fatalf("row %s takes %d pods of both classes, and %d once it is empty", table.Name(row), n+more, pods[row])
					}
				}
			}
		}
	})
	if exact == 0 || mixed == 0 {
		t.Errorf("%d rows were compared, and %d took pods of both classes", exact, mixed)
	}
}

// What a row takes now is what is left beside its pods. A pod that comes and goes leaves the bound as it was.
func TestAVacancyIsBesideThePodsThatAreLeft(t *testing.T) {
	e, compared, released := NewEvaluator(nil), 0, 0
	rapid.Check(t, func(t *rapid.T) {
		x := newCopyTrial(t, 1)
		table := x.tables[0]
		v := e.Vacancy(table, []*Class{x.c})
		for row := range table.All() {
			of, all, ok := v.Of(row, nil)
			if !ok {
				continue
			}
			copies := of[0]
			if want := e.CopiesOn(table, row, nil, x.c); x.c.ByRequests() && want < pb.MaxCopies && want > 0 { // else another filter may refuse the row
				compared++
				if copies != want {
					t.Fatalf("row %s takes %d copies, want %d", table.Name(row), copies, want)
				}
			}
			var totals RowTotals
			table.Totals(row, &totals)
			use := x.r.pod()
			totals.AddPod(use)
			if fewer, _, _ := v.Of(row, &totals); fewer[0] < copies {
				released++
			}
			totals.RemoveRequests(use)
			if again, pods, _ := v.Of(row, &totals); again[0] != copies || pods != all {
				t.Fatalf("row %s takes %d copies and %d pods once a pod has come and gone, want %d and %d", table.Name(row), again[0], pods, copies, all)
			}
		}
	})
	if compared == 0 || released == 0 {
		t.Errorf("%d rows were compared, and %d took fewer with a pod more", compared, released)
	}
}
