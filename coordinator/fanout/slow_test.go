package fanout_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/worker"
)

// outcome is what an Evaluate returned.
type outcome struct {
	results []*scorer.Result
	err     error
}

// start evaluates on a goroutine of its own.
func start(ctx context.Context, f *fanout.Fanout, reqs []fanout.Request) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		results, err := f.Evaluate(ctx, reqs)
		done <- outcome{results, err}
	}()
	return done
}

// hold makes a worker keep the requests with classes until the caller releases
// them, or gives up on them. arrived gets one element a request.
func hold(p *proxy) (arrived <-chan struct{}, release func()) {
	in, out := make(chan struct{}, 64), make(chan struct{})
	p.script(func(ctx context.Context, req *pb.EvaluateRequest) error {
		if len(req.GetClasses()) == 0 {
			return nil
		}
		in <- struct{}{}
		select {
		case <-out:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil)
	return in, func() { close(out) }
}

func TestASlowWorkerIsHedgedAndItsLateAnswerIsHarmless(t *testing.T) {
	fleet := newFleet(t, 3, worker.Config{})
	c := newCluster(24)
	c.addNodes(t, 0, 300)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := fleet.fanout(t, c, 3, fanout.Config{Replicas: 2, Clock: clock, HedgeAfter: time.Second})
	reqs := requests(t, 5, true, query(1, 100, false), query(2, 500, true), spreadQuery(3))
	owned(t, c, f, 3, reqs)

	slow := fleet.proxies["w2"]
	released := make(chan struct{})
	in := make(chan struct{}, 64)
	slow.script(func(_ context.Context, req *pb.EvaluateRequest) error {
		if len(req.GetClasses()) > 0 {
			in <- struct{}{}
			<-released // it does not even notice that it is no longer wanted
		}
		return nil
	}, nil)
	rng := rand.New(rand.NewPCG(8, 8))
	for range 5 {
		c.churn(t, rng, 20)
		done := start(t.Context(), f, reqs[:1])
		for got := (outcome{}); got.results == nil && got.err == nil; {
			select {
			case <-in:
				clock.Step(time.Minute) // the hedge is due, the deadline is not
			case got = <-done:
				if got.err != nil {
					t.Fatal(got.err)
				}
				c.wantResults(t, got.results, reqs[:1])
			}
		}
		c.churn(t, rng, 20) // while late requests are under way
	}
	if got := f.Stats(); got.Hedges < 3 || got.LocalShards != 0 {
		t.Errorf("got %+v, want three hedges or more, and nothing evaluated here", got)
	}
	if got := status(t, f, "w2").GetFailures(); got != 0 {
		t.Errorf("got %d failures of the slow worker, want none", got)
	}
	for _, list := range f.ShardOwners() {
		if len(list) != 2 {
			t.Fatalf("got owners %v, want two each", f.ShardOwners())
		}
	}
	close(released)
	slow.script(nil, nil)
	c.wantSame(t, f, reqs)
}

func TestAWorkerPastTheDeadlineIsAnsweredForAndComesBack(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(8)
	c.addNodes(t, 0, 300)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := fleet.fanout(t, c, 1, fanout.Config{Clock: clock, Deadline: time.Second})
	reqs := requests(t, 5, true, query(1, 100, false))
	owned(t, c, f, 1, reqs)
	shards := uint64(status(t, f, "w0").GetShards())

	arrived, release := hold(fleet.proxies["w0"])
	done := start(t.Context(), f, reqs)
	<-arrived
	clock.Step(time.Minute)
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	c.wantResults(t, got.results, reqs)
	if got := f.Stats().LocalShards; got != shards {
		t.Errorf("got %d shards evaluated here, want the late worker's %d", got, shards)
	}
	c.wantSame(t, f, reqs) // it is not asked now: no step of the clock is needed
	if got := f.Stats().LocalShards; got != 2*shards {
		t.Errorf("got %d shards evaluated here, want twice the late worker's %d", got, shards)
	}
	for _, list := range f.ShardOwners() {
		if len(list) != 1 {
			t.Fatalf("got owners %v, want each shard to have kept its one", f.ShardOwners())
		}
	}
	release()
	before := status(t, f, "w0").GetRequests()
	clock.Step(time.Second)
	for status(t, f, "w0").GetRequests() == before {
		c.wantSame(t, f, reqs) // one of these probes it, a later one asks it
	}
}

func TestTheContextEndsAnEvaluate(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(8)
	c.addNodes(t, 0, 100)
	f := fleet.fanout(t, c, 2, fanout.Config{})
	reqs := requests(t, 5, false, query(1, 100, false))
	arrived, release := hold(fleet.proxies["w0"])
	ctx, cancel := context.WithCancel(t.Context())
	done := start(ctx, f, reqs)
	<-arrived
	cancel()
	if got := <-done; !errors.Is(got.err, context.Canceled) {
		t.Fatalf("got %v, want the context's error", got.err)
	}
	c.churn(t, rand.New(rand.NewPCG(1, 1)), 20) // nobody reads the tables any more
	release()
	c.wantSame(t, f, reqs)
	if got := status(t, f, "w0").GetFailures(); got != 0 {
		t.Errorf("got %d failures, want none: the worker was not to blame", got)
	}
}

func TestAWorkerIsHedgedOnceTheOthersShowThatItIsSlow(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(8)
	c.addNodes(t, 0, 300)
	began := time.Unix(1000, 0)
	clock := clocktesting.NewFakeClock(began)
	f := fleet.fanout(t, c, 2, fanout.Config{Replicas: 2, Clock: clock, HedgeAfter: time.Hour, Deadline: 24 * time.Hour})
	reqs := requests(t, 5, true, query(1, 100, false))
	owned(t, c, f, 2, reqs)
	if got := f.Stats().Hedges; got > 0 {
		t.Fatalf("got %d hedges while all answered at once, want none", got)
	}

	fleet.proxies["w0"].script(func(_ context.Context, req *pb.EvaluateRequest) error {
		if len(req.GetClasses()) > 0 {
			clock.Step(10 * time.Millisecond) // it takes that long
		}
		return nil
	}, nil)
	_, release := hold(fleet.proxies["w1"])
	defer release()
	began = clock.Now()
	done := start(t.Context(), f, reqs)
	for got := (outcome{}); got.results == nil; {
		select {
		case got = <-done:
			if got.err != nil {
				t.Fatal(got.err)
			}
			c.wantResults(t, got.results, reqs)
		default:
			clock.Step(time.Millisecond)
			runtime.Gosched()
		}
	}
	if got := clock.Since(began); got >= time.Hour {
		t.Errorf("the round took %v, want less than the time that is set for hedges", got)
	}
	if got := f.Stats(); got.Hedges != 1 || got.LocalShards != 0 {
		t.Errorf("got %+v, want one hedge and nothing evaluated here", got)
	}
}

// stalled is a worker of four shards that loads no snapshot, and tells of each that comes, after a round has not waited
// for it.
func stalled(t *testing.T, deadline time.Duration) (*fleet, *cluster, *fanout.Fanout, []fanout.Request, chan struct{}) {
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(4)
	c.addNodes(t, 0, 100)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := fleet.fanout(t, c, 1, fanout.Config{Clock: clock, Deadline: deadline})
	reqs := requests(t, 5, true, query(1, 100, false))
	arrived := make(chan struct{}, 64)
	fleet.proxies["w0"].load = func(ctx context.Context) {
		arrived <- struct{}{}
		<-ctx.Done()
	}
	done := start(t.Context(), f, reqs)
	<-arrived
	clock.Step(6 * time.Second)
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	c.wantResults(t, got.results, reqs)
	f.Settle()
	clock.Step(time.Second)
	probed(t, &liar{f: f})
	return fleet, c, f, reqs, arrived
}

func TestASnapshotThatARoundDidNotWaitForIsLoadedBesideRounds(t *testing.T) {
	fleet, c, f, reqs, _ := stalled(t, 2*time.Second)
	fleet.proxies["w0"].mu.Lock()
	fleet.proxies["w0"].load = nil
	fleet.proxies["w0"].mu.Unlock()

	local := f.Stats().LocalShards
	for i, want := range []uint64{4, 3, 2, 1, 0} { // one shard is loaded beside each round
		c.wantSame(t, f, reqs)
		f.Settle()
		if got := f.Stats().LocalShards - local; got != want {
			t.Errorf("round %d: got %d shards evaluated here, want %d", i, got, want)
		}
		local = f.Stats().LocalShards
	}
	fleet.proxies["w0"].restart()
	c.wantSame(t, f, reqs)
	if got := f.Stats().LocalShards - local; got != 4 {
		t.Errorf("once the worker has lost all: got %d shards evaluated here, want 4", got)
	}
}

// Each such load costs the loop a snapshot.
func TestAShardThatCanNotBeLoadedBesideRoundsStaysAway(t *testing.T) {
	_, c, f, reqs, arrived := stalled(t, 100*time.Millisecond)
	for range 8 {
		c.wantSame(t, f, reqs)
		f.Settle()
	}
	if got := len(arrived); got != 4 {
		t.Errorf("got %d loads in eight rounds, want one of each of 4 shards", got)
	}
}
