package scorer

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// hardClaims are claims that take some 8,000 steps on each row of allDiffer: no pair of devices leaves one for the last request,
// but on rows with a good device.
const hardClaims = `claim
request pair 2
request last 1 "good" in device.attributes["d"]
distinct d/id pair
`

// allDiffer is a table of rows whose devices all differ. Every tenth row has a good one.
func allDiffer(rows int) *Table {
	table := NewTable(0)
	for row := range uint32(rows) {
		must(table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_SetNode{SetNode: &pb.Node{Name: fmt.Sprint("n", row), AllowedPods: 10}}}))
		s := &pb.DeviceSlice{Name: "s", Driver: "d", Pool: "p", SliceCount: 1}
		for i := range 24 {
			d := &pb.Device{Name: fmt.Sprint("dev", i)}
			if row%10 == 9 && i == 23 {
				d.Attributes = append(d.Attributes, &pb.DeviceAttribute{Name: "good", Value: &pb.DeviceAttribute_Bool{Bool: true}})
			}
			d.Attributes = append(d.Attributes, &pb.DeviceAttribute{Name: "id", Value: &pb.DeviceAttribute_Int{Int: int64(100*row) + int64(i)}})
			s.Devices = append(s.Devices, d)
		}
		must(table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_SetSlice{SetSlice: s}}))
	}
	return table
}

// counted is an allowance.
type counted int64

func (c *counted) Load() int64 { return int64(*c) }
func (c *counted) Add(n int64) int64 {
	*c += counted(n)
	return int64(*c)
}

// unfinished runs what may need more steps than are left.
func unfinished(do func()) (is bool) {
	defer func() {
		if v := recover(); v == ErrUnfinished {
			is = true
		} else if v != nil {
			panic(v)
		}
	}()
	do()
	return false
}

// An evaluation that takes many steps comes to its end in several, none of which takes more than it may, with the result that it
// would have had at once; whatever becomes of the evaluator, and of the devices meanwhile.
func TestAnEvaluationInSlices(t *testing.T) {
	const rows, allowed = 60, 1 << 15
	table, c := allDiffer(rows), newClass(t, parseClaims(hardClaims))
	take := func(n int) { // a device of a row that was searched, and of one that was not
		uses := []*pb.DeviceUse{{Driver: "d", Pool: "p", Device: fmt.Sprint("dev", n%23), Dedicated: true}}
		for _, row := range []uint32{0, rows - 2} {
			must(table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_UseDevices{UseDevices: &pb.DeviceUses{Uses: uses}}}))
		}
	}
	options := Options{Candidates: rows}
	e, slices := NewEvaluator(nil), 0
	e.Share(NewSearches(unlocked{}))
	var got Result
	for again := true; again; slices++ {
		left := counted(allowed)
		e.Allow(&left)
		got.Reset(c.ID(), rows)
		if again = unfinished(func() { e.Evaluate(table, c, options, &got) }); again {
			e = e.Renewed()
		}
		const last = 200 // an inventory or an evaluation that was begun within
		if taken := allowed - left; taken > allowed+last {
			t.Fatalf("slice %d: got %d steps, want %d at the most", slices, taken, allowed+last)
		}
		if slices%4 == 1 && slices < 16 {
			take(slices)
		}
	}
	if least := rows * 8000 / allowed; slices < least {
		t.Errorf("got %d slices, want %d at the least", slices, least)
	}
	want := evaluate(NewEvaluator(nil), table, c, options)
	if diff := cmp.Diff(response([]uint32{0}, want), response([]uint32{0}, &got), protocmp.Transform()); diff != "" || got.Feasible != rows/10 {
		t.Errorf("in slices: got %d feasible rows, want %d (-at once +in slices):\n%s", got.Feasible, rows/10, diff)
	}
}

// What a search would take is made sure of before devices are taken.
func TestWhatCanBeAfforded(t *testing.T) {
	table, c, e := allDiffer(10), newClass(t, parseClaims(hardClaims)), NewEvaluator(nil)
	steps := int64(c.claims.judge(view{t: table, row: 9, e: e}).steps)
	for left, want := range map[int64]bool{steps - 1: true, steps: false} {
		x := counted(left)
		e.Allow(&x)
		if got := unfinished(func() { e.Allocate(table, 9, c) }); got != want {
			t.Errorf("%d steps of %d: got unfinished %t, want %t", left, steps, got, want)
		}
	}
	e.Allow(nil)
	if found := e.Allocate(table, 9, c); len(found.Claims) != 1 {
		t.Errorf("without a bound: got %v, want a claim", found)
	}
}

// What is remembered of searches is bounded, and what is at hand is forgotten last.
func TestSearchesAreBounded(t *testing.T) {
	s := NewSearches(unlocked{})
	s.most = 100
	one, other := digest{1}, digest{2}
	for i := range 80 {
		s.keep(other, deviceQuestion{served: uint64(i)}, deviceVerdict{})
	}
	for i := range 100 {
		if i%2 == 0 {
			s.keep(one, deviceQuestion{served: uint64(i)}, deviceVerdict{steps: int32(i)})
		} else {
			s.keepSum(one, digest{byte(i)}, digest{3})
		}
		if s.kept > s.most {
			t.Fatalf("got %d entries, want %d at the most", s.kept, s.most)
		}
	}
	for i := range 100 {
		v, known := s.verdict(one, deviceQuestion{served: uint64(i)})
		if i%2 == 0 && (!known || v.steps != int32(i)) {
			t.Errorf("verdict %d is forgotten while its question is at hand", i)
		}
	}
	if _, known := s.verdict(other, deviceQuestion{}); known {
		t.Error("what was asked longest ago is not forgotten")
	}
	s.keep(one, deviceQuestion{served: 1000}, deviceVerdict{})
	if s.kept > s.most {
		t.Errorf("got %d entries of one question, want %d at the most", s.kept, s.most)
	}
	for i := range 3 * maxSearched {
		s.keep(digest{4, byte(i), byte(i >> 8)}, deviceQuestion{}, deviceVerdict{})
		if len(s.of) > maxSearched {
			t.Fatalf("got %d questions, want %d at the most", len(s.of), maxSearched)
		}
	}
}
