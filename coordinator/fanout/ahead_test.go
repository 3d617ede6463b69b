package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/internal/testkit/wire"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/worker"
)

// place puts a pod on each of some nodes, and tells in which decision a row was chosen last before.
func (c *cluster) place(t testing.TB, rng *rand.Rand, n int) (before func(shard, row uint32) (uint64, bool)) {
	decisions := map[[2]uint32]uint64{}
	for range min(n, len(c.rows)) {
		row := uint32(rng.IntN(len(c.rows)))
		at := c.rows[row]
		if _, known := decisions[at]; !known {
			decisions[at] = c.tables[at[0]].Candidate(at[1], 0).LastDecision
		}
		c.tick++
		c.pods[row] = append(c.pods[row], c.tick)
		c.apply(t, row, fmt.Sprintf("node-%05d", row), &pb.Delta{
			Change: &pb.Delta_AddPod{AddPod: usage()}, Decision: c.tick, Pod: &pb.PlacedPod{Number: c.tick},
		})
	}
	return func(shard, row uint32) (uint64, bool) {
		decision, changed := decisions[[2]uint32{shard, row}]
		return decision, changed
	}
}

// Results are of the tables when the round began, whatever has been placed since and whatever else is asked meanwhile.
func TestARoundAheadIsOfTheTablesWhenItBegan(t *testing.T) {
	fleet := newFleet(t, 3, worker.Config{Cores: 2})
	var terms atomic.Uint64
	answered, again := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		c := newCluster(rapid.SampledFrom([]int{1, 3, 8}).Draw(rt, "shards"))
		c.addNodes(t, 0, rapid.SampledFrom(sizes).Draw(rt, "nodes"))
		f := fleet.fanout(t, c, rapid.IntRange(1, 3).Draw(rt, "workers"), fanout.Config{
			Term: terms.Add(1), AuditEvery: rapid.SampledFrom([]int{1, 3, 128}).Draw(rt, "audits"),
		})
		defer f.Close()
		reqs := c.requests(t, rapid.IntRange(1, 20).Draw(rt, "candidates"), false,
			query(1, 100, false), query(2, 3500, false), query(3, 500, true), query(4, 99000, false))
		c.wantSame(t, f, reqs) // workers have the shards
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			c.churn(t, rng, rapid.IntRange(0, 20).Draw(rt, "changes"))
			want := c.want(reqs)
			round := f.EvaluateAhead(t.Context(), reqs)
			if round == nil {
				rt.Fatal("got no round, want one")
			}
			before := c.place(t, rng, rapid.IntRange(0, 40).Draw(rt, "pods"))
			if rapid.Bool().Draw(rt, "asks for others") {
				c.wantSame(t, f, reqs)
			}
			results, err := round.Results(before)
			if err != nil {
				rt.Fatal(err)
			}
			for i, r := range results {
				if r == nil {
					again++
					continue
				}
				answered++
				got := answerOf(r, func(shard uint32) *scorer.Table { return c.tables[shard] })
				if d := cmp.Diff(want[i], got); d != "" {
					rt.Fatalf("class %d (-want +got):\n%s", i, d)
				}
			}
		}
		for _, w := range f.Workers() {
			if w.GetQuarantine() != "" {
				rt.Fatalf("the honest worker %s is in quarantine: %s", w.GetId(), w.GetQuarantine())
			}
		}
	})
	if answered == 0 || again == 0 { // class 3 overflows
		t.Errorf("got %d answers, and none to %d classes, want some of both", answered, again)
	}
}

// A worker has the question of the next round ahead before it has answered that of the one before.
func TestRoundsAheadAreUnderWayTogether(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(8)
	c.addNodes(t, 0, 200)
	f := fleet.fanout(t, c, 2, fanout.Config{})
	reqs := requests(t, 5, false, query(1, 100, false), query(2, 200, false))
	c.wantSame(t, f, reqs)
	asked, hold := make(chan uint64, 8), make(chan struct{})
	for _, p := range fleet.proxies {
		p.script(func(_ context.Context, req *pb.EvaluateRequest) error {
			if len(req.GetClasses()) > 0 {
				asked <- req.GetFollows()
			}
			return nil
		}, func(*pb.EvaluateResponse) { <-hold })
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var rounds []*fanout.Ahead
	var want [][]answer
	var placed []func(shard, row uint32) (uint64, bool)
	var follows []uint64
	for range 3 {
		placed = append(placed, c.place(t, rng, 40))
		want = append(want, c.want(reqs))
		rounds = append(rounds, f.EvaluateAhead(t.Context(), reqs))
		follows = append(follows, <-asked, <-asked)
	}
	close(hold)
	if first := follows[2]; first == 0 || !slices.Equal(follows, []uint64{0, 0, first, first, first + 1, first + 1}) {
		t.Errorf("follow turns %v, want each round the one before, and the first none", follows)
	}
	for i, round := range rounds {
		results, err := round.Results(func(shard, row uint32) (decision uint64, changed bool) {
			for _, before := range placed[i+1:] {
				if decision, changed = before(shard, row); changed {
					break
				}
			}
			return decision, changed
		})
		if err != nil {
			t.Fatal(err)
		}
		for k, r := range results {
			if r == nil {
				t.Fatalf("round %d: got no answer to class %d", i, k)
			}
			if d := cmp.Diff(want[i][k], answerOf(r, func(shard uint32) *scorer.Table { return c.tables[shard] })); d != "" {
				t.Errorf("round %d, class %d (-want +got):\n%s", i, k, d)
			}
		}
	}
}

// A call that is lost on its way to a worker does not have the call that follows it wait there.
func TestALostCallHoldsUpNoneThatFollows(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(4)
	c.addNodes(t, 0, 100)
	f := fleet.fanout(t, c, 1, fanout.Config{})
	reqs := requests(t, 5, false, query(1, 100, false))
	c.wantSame(t, f, reqs)
	lost, asked := make(chan struct{}), make(chan *pb.EvaluateRequest, 2)
	var calls atomic.Int32
	fleet.proxies["w0"].script(func(_ context.Context, req *pb.EvaluateRequest) error {
		call := calls.Add(1)
		asked <- req
		if call == 1 {
			<-lost
			return grpcstatus.Error(codes.Unavailable, "it never reached the worker")
		}
		return nil
	}, nil)
	first := f.EvaluateAhead(t.Context(), reqs)
	turn := (<-asked).GetTurn()
	second := f.EvaluateAhead(t.Context(), reqs)
	if follows := (<-asked).GetFollows(); follows != turn {
		t.Fatalf("the second call follows turn %d, want %d", follows, turn)
	}
	close(lost)
	nothing := func(uint32, uint32) (uint64, bool) { return 0, false }
	for i, round := range []*fanout.Ahead{first, second} {
		if results, err := round.Results(nothing); err != nil || results[0] != nil {
			t.Errorf("round %d: got %v and error %v, want neither: the worker has not answered", i+1, results[0], err)
		}
	}
	if n := status(t, f, "w0").GetFailures(); n != 1 {
		t.Errorf("the worker has failed %d times, want once: it was not asked the second time", n)
	}
	fleet.proxies["w0"].script(nil, nil)
	c.wantSame(t, f, reqs)
}

func TestARoundAheadDependsOnNobody(t *testing.T) {
	asked := func(err error) func(context.Context, *pb.EvaluateRequest) error {
		return func(_ context.Context, req *pb.EvaluateRequest) error {
			if len(req.GetClasses()) == 0 {
				return nil
			}
			return err
		}
	}
	lie := func(about func(*wire.Result)) func(*pb.EvaluateResponse) {
		return wire.Changed(func(resp *wire.Response) {
			if len(resp.Results) > 0 {
				about(resp.Results[0])
			}
		})
	}
	unchanged := func(uint32, uint32) (uint64, bool) { return 0, false }
	for name, test := range map[string]struct {
		before     func(context.Context, *pb.EvaluateRequest) error
		after      func(*pb.EvaluateResponse)
		restarts   bool
		quarantine bool
	}{
		"a worker fails":                   {before: asked(grpcstatus.Error(codes.Internal, "broken"))},
		"a worker has lost its shards":     {restarts: true},
		"a worker can't judge a class":     {after: failing(1, 2)},
		"a worker leaves rows out":         {after: lie(func(r *wire.Result) { r.Rows-- }), quarantine: true},
		"a worker names another class":     {after: lie(func(r *wire.Result) { r.ClassId = 77 }), quarantine: true},
		"a worker names rows that are not": {after: lie(func(r *wire.Result) { r.Groups[0].CandidateRows[0] = 4000 }), quarantine: true},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := newFleet(t, 2, worker.Config{})
			c := newCluster(8)
			c.addNodes(t, 0, 100)
			f := fleet.fanout(t, c, 2, fanout.Config{AuditEvery: 1})
			reqs := requests(t, 5, false, query(1, 100, false), query(2, 200, false))
			c.wantSame(t, f, reqs)
			fleet.proxies["w0"].script(test.before, test.after)
			if test.restarts {
				fleet.proxies["w0"].restart()
			}
			results, err := f.EvaluateAhead(t.Context(), reqs).Results(unchanged)
			if err != nil || results[0] != nil {
				t.Errorf("got %v and %v, want no answer", results[0], err)
			}
			if got := f.Workers()[0].GetQuarantine() != ""; got != test.quarantine {
				t.Errorf("the worker is in quarantine: %t, want %t", got, test.quarantine)
			}
			fleet.proxies["w0"].script(nil, nil)
			c.wantSame(t, f, reqs)
		})
	}
}

func TestARoundAheadNeedsWorkersThatHaveTheShards(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(8)
	c.addNodes(t, 0, 100)
	reqs := requests(t, 5, false, query(1, 100, false))
	f := fleet.fanout(t, c, 2, fanout.Config{})
	if f.EvaluateAhead(t.Context(), reqs) != nil {
		t.Error("got a round of workers without shards, want none")
	}
	c.wantSame(t, f, reqs)
	round := f.EvaluateAhead(t.Context(), reqs)
	if round == nil {
		t.Fatal("got no round, want one")
	}
	round.Drop()
	if results, err := round.Results(func(uint32, uint32) (uint64, bool) { return 0, false }); err != nil || results[0] != nil {
		t.Errorf("after Drop: got %v and %v, want nothing", results[0], err)
	}
	if own := fleet.fanout(t, c, 0, fanout.Config{}); own.MayAskAhead() || own.EvaluateAhead(t.Context(), reqs) != nil {
		t.Error("got a round without workers, want none")
	}
	if two := fleet.fanout(t, c, 2, fanout.Config{Term: 2, Replicas: 2, Compare: true}); two.MayAskAhead() {
		t.Error("two owners that are compared may be asked ahead, want not")
	}
}

func TestARoundAheadTellsOfANewerLeader(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(2)
	c.addNodes(t, 0, 20)
	f := fleet.fanout(t, c, 1, fanout.Config{Leads: func(context.Context) (bool, error) { return false, nil }})
	reqs := requests(t, 5, false, query(1, 100, false))
	c.wantSame(t, f, reqs)
	fleet.proxies["w0"].script(func(context.Context, *pb.EvaluateRequest) error {
		return grpcstatus.Error(codes.FailedPrecondition, "term 2 leads")
	}, nil)
	if _, err := f.EvaluateAhead(t.Context(), reqs).Results(nil); !errors.Is(err, fanout.ErrDeposed) {
		t.Errorf("got %v, want %v", err, fanout.ErrDeposed)
	}
}
