package scorer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// sharesAs tells whether two verdicts have the same share in groups and measures.
func sharesAs(v, o *Verdict) bool {
	return v.Passed == o.Passed && (!v.Passed || v.Key.Equal(&o.Key)) && slices.Equal(v.Measured, o.Measured)
}

// A row can take another's place in a result exactly if its group holds that one, and the shares of the measures are the same.
func TestHoldsTellsThatNothingMoves(t *testing.T) {
	e := NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		x := newGroupTrial(t, e, size(t))
		spec, q := x.r.groupSpec()
		x.ask(spec, q, x.r.chance(70))
		r := x.evaluate()
		before := tell(r)
		for range 10 {
			v, o := x.row(x.nodes[x.r.IntN(len(x.nodes))]), x.row(x.nodes[x.r.IntN(len(x.nodes))])
			r.Move(x.class, v, 1)
			if group := r.Move(x.class, o, -1); group != r.GroupOf(o) {
				t.Fatalf("got group %d, moved in %d", r.GroupOf(o), group)
			}
			if got, want := r.Holds(r.GroupOf(v), o) && slices.Equal(v.Measured, o.Measured), tell(r) == before; got != want {
				t.Fatalf("got %t, want %t\n%+v\n%+v", got, want, v, o)
			}
			r.Move(x.class, v, -1)
			r.Move(x.class, o, 1)
		}
	})
}

func TestGroupOfOpensAGroupWithoutRows(t *testing.T) {
	r := &Result{}
	if got := r.GroupOf(&Verdict{}); got != -1 {
		t.Errorf("a verdict in no group: got %d, want -1", got)
	}
	v := &Verdict{Passed: true, Key: Key{Values: []int64{7}}}
	for range 2 {
		if got := r.GroupOf(v); got != 0 || len(r.Groups) != 1 || r.Groups[0].Rows != 0 || !r.Groups[0].Key.Equal(&v.Key) {
			t.Errorf("got group %d of %+v", got, r.Groups)
		}
	}
}

func TestTotalsTellWhichClassesTheirCountersMove(t *testing.T) {
	c := newClass(t, &pb.Query{ClassId: 1, RowValues: []*pb.RowValue{{Counters: counting(7)}}})
	for _, x := range []struct {
		name string
		list []*pb.CounterValue
		sign int64
		want bool
	}{
		{"none", nil, 1, false},
		{"one that the class does not read", []*pb.CounterValue{{Counter: 6, Value: 1}, {Counter: 8, Value: 1}}, 1, false},
		{"one that it reads", []*pb.CounterValue{{Counter: 6, Value: 1}, {Counter: 7, Value: 1}}, -1, true},
		{"one that it reads, back and forth", []*pb.CounterValue{{Counter: 7, Value: 1}, {Counter: 7, Value: -1}}, 1, false},
	} {
		var totals RowTotals
		totals.AddCounters(x.list, x.sign)
		if got := totals.Moves(c); got != x.want {
			t.Errorf("%s: got %t, want %t", x.name, got, x.want)
		}
	}
}
