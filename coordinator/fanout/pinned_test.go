package fanout_test

import (
	"fmt"
	"testing"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/worker"
)

// The workers are not asked for a class whose pinned sums fit no message; the others of its round they are.
func TestPinnedSumsThatFitNoMessageAreEvaluatedHere(t *testing.T) {
	const most = 1 << 20 / 20
	fleet := newFleet(t, 1, worker.Config{})
	for _, x := range []struct{ sums, here, rows int }{{most, 0, 1}, {most + 1, 4, 2}} {
		c := newCluster(4)
		c.addNodes(t, 0, 100)
		f := fleet.fanout(t, c, 1, fanout.Config{Term: uint64(x.sums)})
		reqs := c.requests(t, 20, true, query(1, 100, false), pinnedQuery(2), spreadQuery(3))
		reqs[1].Class = pinned(t, reqs[1].Class, x.sums)
		c.wantSame(t, f, reqs)
		if got := f.Stats(); int(got.LocalShards) != x.here || int(got.Rounds) != x.rows {
			t.Errorf("%d sums: got %+v, want %d shards evaluated here in %d rounds", x.sums, got, x.here, x.rows)
		}
		p := fanout.PreemptRequest{Class: reqs[1].Class, Preemption: &scorer.Preemption{Priority: 3, Whole: &scorer.Result{}}}
		if _, err := f.Preempt(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got := f.Stats(); int(got.LocalShards) != 2*x.here {
			t.Errorf("%d sums: got %+v, want a dry run on %d shards here", x.sums, got, x.here)
		}
	}
}

// pinned is a class with so many sums in all.
func pinned(t *testing.T, class *scorer.Class, sums int) *scorer.Class {
	t.Helper()
	list := []*pb.PinnedSums{{}, {Domains: []string{"t1"}, Sums: []int64{7}}, {}}
	for i := range sums - 1 {
		list[0].Domains, list[0].Sums = append(list[0].Domains, fmt.Sprintf("u%06d", i)), append(list[0].Sums, 1)
	}
	class, err := class.PinTo(list)
	if err != nil {
		t.Fatal(err)
	}
	if got := class.PinnedDomains(); got != sums {
		t.Fatalf("got %d sums, want %d", got, sums)
	}
	return class
}
