package fanout_test

import (
	"context"
	"errors"
	"math/rand/v2"
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
	if got := f.Stats(); got.Hedges < 3 {
		t.Errorf("got %+v, want three hedges or more", got)
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
		case <-time.After(time.Millisecond): // the clock does not run ahead of a worker that computes
			clock.Step(time.Millisecond)
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
	_, c, f, reqs, arrived := stalled(t, 500*time.Millisecond) // long enough that each load reaches the worker
	for range 8 {
		c.wantSame(t, f, reqs)
		f.Settle()
	}
	if got := len(arrived); got != 4 {
		t.Errorf("got %d loads in eight rounds, want one of each of 4 shards", got)
	}
}

// overdue asks once, and steps the clock when w0 was asked, which does not answer then.
func (x *liar) overdue(t *testing.T, arrived <-chan struct{}, step time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // where the round waits on
	defer cancel()
	done := start(ctx, x.f, x.reqs)
	select {
	case <-arrived:
	case <-ctx.Done():
		t.Fatal("w0 was not asked")
	}
	x.clock.Step(step)
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	x.c.wantResults(t, got.results, x.reqs)
}

// alone is one worker, w0, whose shards nobody else has.
func alone(t *testing.T, cfg fanout.Config, queries ...*pb.Query) *liar {
	x := &liar{fleet: newFleet(t, 1, worker.Config{}), c: newCluster(4), clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
	x.c.addNodes(t, 0, 1000)
	cfg.Clock, cfg.HedgeAfter, cfg.AuditEvery = x.clock, 25*time.Millisecond, -1
	cfg.HedgeAfter /= 10 // the own tables wait ten times as long
	x.f = x.fleet.fanout(t, x.c, 1, cfg)
	x.reqs = requests(t, 5, false, queries...)
	x.c.wantSame(t, x.f, x.reqs)
	return x
}

// The worker of the first case answers late, if in time, and is asked again as soon as it answers a probe.
func TestAWorkerThatRoundsWaitForAgainAndAgainIsQuarantined(t *testing.T) {
	for name, tc := range map[string]struct {
		step          time.Duration
		between, want int // answers in between, quarantined after; 0: never
	}{
		"each time":                        {27 * time.Millisecond, 0, 3},
		"every third time":                 {27 * time.Millisecond, 2, 3},
		"now and then":                     {27 * time.Millisecond, 16, 0},
		"it is this process that stalls":   {100 * time.Millisecond, 0, 0},
		"it is this process, now and then": {100 * time.Millisecond, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var queries []*pb.Query
			for i := range uint64(5) { // so much that it has a pace
				queries = append(queries, query(i+1, 100, false))
			}
			x := alone(t, fanout.Config{}, queries...)
			// It makes itself expected to be slow, in time.
			x.fleet.proxies["w0"].script(func(_ context.Context, req *pb.EvaluateRequest) error {
				if len(req.GetClasses()) > 0 {
					x.clock.Step(20 * time.Millisecond)
				}
				return nil
			}, nil)
			for range 10 {
				x.c.wantSame(t, x.f, x.reqs)
			}
			for i := range 6 {
				arrived, release := hold(x.fleet.proxies["w0"])
				x.overdue(t, arrived, tc.step)
				release()
				x.fleet.proxies["w0"].script(nil, nil)
				x.f.Settle()
				why := status(t, x.f, "w0").GetQuarantine()
				if quarantined := tc.want > 0 && i+1 >= tc.want; quarantined != (why == "others had the answer far sooner") {
					t.Fatalf("slow for the %dth time: got quarantine %q, want it: %t", i+1, why, quarantined)
				} else if quarantined {
					return
				}
				x.clock.Step(time.Second)
				probed(t, x)
				for range tc.between {
					x.c.wantSame(t, x.f, x.reqs)
				}
			}
		})
	}
}

// heavy is a clock by which all that is timed takes a while more.
type heavy struct {
	*clocktesting.FakeClock
	more time.Duration
}

func (c heavy) Since(t time.Time) time.Duration { return c.FakeClock.Since(t) + c.more }

// A class, or a dry run, may cost many times what the own tables usually take for so many rows.
func TestAWorkerIsNotToBlameForWhatTakesTheOwnTablesLongToo(t *testing.T) {
	for name, tc := range map[string]struct {
		more  time.Duration
		blame bool
	}{"a quick question": {0, true}, "a heavy question": {50 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			x := &liar{fleet: newFleet(t, 1, worker.Config{}), c: newCluster(4), clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
			x.c.addNodes(t, 0, 1000)
			x.f = x.fleet.fanout(t, x.c, 1, fanout.Config{Clock: heavy{x.clock, tc.more}, HedgeAfter: 2500 * time.Microsecond, AuditEvery: -1})
			x.reqs = requests(t, 5, false, query(1, 100, false))
			x.c.wantSame(t, x.f, x.reqs)
			arrived, release := hold(x.fleet.proxies["w0"])
			defer release()
			x.overdue(t, arrived, 27*time.Millisecond)
			if got := status(t, x.f, "w0").GetFailures() > 0; got != tc.blame {
				t.Errorf("the worker is to blame: got %t, want %t", got, tc.blame)
			}
		})
	}
}

// With Compare all wait for the slower one.
func TestTheOwnTablesDecideWhereOneOfTwoIsSlow(t *testing.T) {
	cfg := fanout.Config{Replicas: 2, Compare: true, AuditEvery: -1, HedgeAfter: 2500 * time.Microsecond}
	x := newLiar(t, cfg, false, query(1, 100, false))
	arrived, release := hold(x.fleet.proxies["w0"])
	defer release()
	x.overdue(t, arrived, 27*time.Millisecond)
	if got := status(t, x.f, "w0").GetFailures(); got == 0 {
		t.Error("the slow one is not to blame")
	}
}

// Two workers that hang keep a round no longer than one does: the own tables answer in their time, long before the deadline.
func TestTheOwnTablesAnswerWhereBothOwnersAreSlow(t *testing.T) {
	// Also where this process has stalled until after their time.
	for _, stall := range []time.Duration{4 * time.Millisecond, time.Second} {
		hangBoth(t, stall)
	}
}

// hangBoth has two workers hang, and the first look at that come so late.
func hangBoth(t *testing.T, first time.Duration) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	cfg := fanout.Config{Replicas: 2, AuditEvery: -1, HedgeAfter: 2500 * time.Microsecond, Clock: clock}
	fleet, c := newFleet(t, 2, worker.Config{}), newCluster(4)
	c.addNodes(t, 0, 1000)
	f := fleet.fanout(t, c, 2, cfg)
	reqs := requests(t, 5, false, query(1, 100, false))
	for range 3 {
		c.wantSame(t, f, reqs)
		f.Settle()
	}
	arrived0, release0 := hold(fleet.proxies["w0"])
	defer release0()
	arrived1, release1 := hold(fleet.proxies["w1"])
	defer release1()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // where the round waits on
	defer cancel()
	done := start(ctx, f, reqs)
	wait := func(arrived <-chan struct{}) {
		select {
		case <-arrived:
		case <-ctx.Done():
			t.Fatal("a worker was not asked")
		}
	}
	wait(arrived0)
	wait(arrived1)
	clock.Step(first)
	wait(arrived0) // as a next owner
	wait(arrived1)
	clock.Step(250 * time.Millisecond)
	got := <-done
	if got.err != nil {
		t.Fatalf("the round waits for the deadline: %v", got.err)
	}
	c.wantResults(t, got.results, reqs)
}

// A worker that lost all gets all in the round that finds out. Where that takes long the own tables answer, and the rest is
// loaded beside rounds.
func TestAWorkerThatLostAllIsNotToBlameForLoads(t *testing.T) {
	x := alone(t, fanout.Config{}, query(1, 100, false))
	w0 := x.fleet.proxies["w0"]
	w0.restart()
	arrived := make(chan struct{}, 64)
	w0.mu.Lock()
	w0.load = func(ctx context.Context) {
		arrived <- struct{}{}
		<-ctx.Done()
	}
	w0.mu.Unlock()
	x.overdue(t, arrived, 27*time.Millisecond)
	if got := status(t, x.f, "w0").GetFailures(); got != 0 {
		t.Errorf("got %d failures, want none", got)
	}
	x.f.Settle()
	w0.mu.Lock()
	w0.load = nil
	w0.mu.Unlock()
	x.clock.Step(time.Second)
	probed(t, x)
	for range 4 {
		x.c.wantSame(t, x.f, x.reqs)
		x.f.Settle()
	}
	local := x.f.Stats().LocalShards
	x.c.wantSame(t, x.f, x.reqs)
	if got := x.f.Stats().LocalShards; got != local {
		t.Errorf("got %d shards evaluated here after four rounds, want none: one is loaded beside each", got-local)
	}
}

// Otherwise a worker might lose its shards again and again, and load them just in time.
func TestAWorkerThatLoadsSlowlyLoadsBesideRounds(t *testing.T) {
	x := alone(t, fanout.Config{Deadline: 2 * time.Second}, query(1, 100, false))
	w0 := x.fleet.proxies["w0"]
	w0.load = func(context.Context) { x.clock.Step(200 * time.Millisecond) }
	again := x.fleet.members(1)
	again[0].Cores++ // another session
	x.f.SetMembers(again)
	x.c.wantSame(t, x.f, x.reqs)
	if got := x.f.Stats().LocalShards; got != 0 {
		t.Fatalf("got %d shards evaluated here, want none", got)
	}
	w0.restart()
	x.c.wantSame(t, x.f, x.reqs)
	if got := x.f.Stats().LocalShards; got != 4 {
		t.Errorf("once it has lost all: got %d shards evaluated here, want 4", got)
	}
}
