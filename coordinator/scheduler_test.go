package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/build"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

func cores(name, cpu string) *v1.Pod {
	p := build.Pod(name).UID(name).CPU(cpu).Obj()
	p.ResourceVersion = "1"
	return p
}

func TestAPodIsPlacedBoundAndConfirmed(t *testing.T) {
	onStage(t, cluster(nodesOf("4", "n")), nil, func(x *stage) {
		release := x.binder.hold()
		p := cores("p", "1")
		x.deliver(store.Added, p)
		x.wantPods("while it is bound", "p promised n")
		release(nil)
		x.wantPods("when that is committed", "p promised n")
		x.confirm(p, "n")
		x.wantPods("when it is seen", "p on n")
		x.wantBinds("after all", "p@1 n")
		x.deliver(store.Deleted, p)
		x.wantPods("when it is gone")
	})
}

func TestARefusedBindIsTakenBackAndTriedAgainWithTheNewestObject(t *testing.T) {
	onStage(t, cluster(nodesOf("4", "n")), nil, func(x *stage) {
		release := x.binder.hold()
		p := cores("p", "3")
		x.deliver(store.Added, p)
		x.update(p, "2", func(p *v1.Pod) { p.Labels = map[string]string{"new": "yes"} })
		x.deliver(store.Added, cores("q", "2"))
		x.wantPods("p changed, q has no room", "p promised n", "q unschedulable")

		release(always(store.ErrConflict))
		x.wantPods("the conflict gives room to q", "p backoff", "q promised n")
		x.wantMessage("p", "bind pod p: changed meanwhile")
		elapse(journalEvery)
		if got := x.journal.attempts("p"); got != 1 {
			t.Errorf("journal: got %d attempts of p, want 1", got)
		}

		x.update(cores("q", "2"), "9", func(q *v1.Pod) { q.Status.Phase = v1.PodSucceeded })
		elapse(3 * time.Second) // p's backoff of a second
		x.wantPods("p is tried again", "p promised n")
		x.wantBinds("with its newest object", "p@1 n", "q@1 n", "p@2 n")
		x.confirm(p, "n")
		elapse(journalEvery)
		if got := x.journal.attempts("p"); got != 0 {
			t.Errorf("journal: got %d attempts of p, which is bound; want no entry", got)
		}
		sum, err := x.Summary(x.ctx)
		if err != nil || sum.BindFailures != 1 || sum.PodsBound != 2 || sum.Decisions != 4 {
			t.Errorf("summary: got %d failures, %d bound, %d decisions, %v; want 1, 2, 4", sum.BindFailures, sum.PodsBound, sum.Decisions, err)
		}
	})
}

// A pod that asks for less while its bind is under way is judged by that from then on.
func TestARefusedBindOfAPodThatHasShrunk(t *testing.T) {
	onStage(t, cluster(nodesOf("4", "n"), build.Pod("big").UID("big").CPU("2").Node("n").Obj()), nil, func(x *stage) {
		release := x.binder.hold()
		p := cores("p", "2")
		x.deliver(store.Added, p)
		x.update(p, "2", func(p *v1.Pod) { p.Spec = cores("p", "1").Spec })
		release(always(store.ErrConflict))
		elapse(3 * time.Second)
		x.wantBinds("tried again", "p@1 n", "p@2 n")
		x.deliver(store.Added, cores("q", "1"))
		x.wantPods("there is room for another", "p promised n", "q promised n")
	})
}

func TestABindThatIsNotToBeRetried(t *testing.T) {
	for name, x := range map[string]struct {
		err   error
		event func(x *stage, p *v1.Pod) // before the outcome; nil: none
		want  []string
	}{
		"bound elsewhere, and not seen there yet": {store.ErrAlreadyBound, nil, []string{"q promised n"}},
		"bound elsewhere, and seen there":         {store.ErrAlreadyBound, func(x *stage, p *v1.Pod) { x.confirm(p, "m") }, []string{"p on m", "q promised n"}},
		"changed, then bound elsewhere":           {store.ErrConflict, func(x *stage, p *v1.Pod) { x.confirm(p, "m") }, []string{"p on m", "q promised n"}},
		"changed, and bound here by another":      {store.ErrConflict, func(x *stage, p *v1.Pod) { x.confirm(p, "n") }, []string{"p on n", "q unschedulable"}},
		"deleted":                                 {store.ErrNotFound, func(x *stage, p *v1.Pod) { x.deliver(store.Deleted, p) }, []string{"q promised n"}},
		"deleted, and not heard of yet":           {store.ErrNotFound, nil, []string{"q promised n"}},
		"run to its end":                          {store.ErrConflict, func(x *stage, p *v1.Pod) { x.update(p, "3", end) }, []string{"q promised n"}},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, cluster(nodesOf("4", "n")), nil, func(s *stage) {
				release := s.binder.hold()
				p := cores("p", "4")
				s.deliver(store.Added, p)
				s.deliver(store.Added, cores("q", "4"))
				s.wantPods("before", "p promised n", "q unschedulable")
				if x.event != nil {
					x.event(s, p)
				}
				release(func(b store.Binding) error {
					if b.Pod.Name == "p" {
						return x.err
					}
					return nil
				})
				elapse(time.Minute)
				s.wantPods("after", x.want...)
				s.wantNothingOf("p")
			})
		})
	}
}

func end(p *v1.Pod) { p.Status.Phase = v1.PodFailed }

// wantNothingOf checks that nothing is remembered of a pod that is not to be tried again.
func (x *stage) wantNothingOf(uid types.UID) {
	x.t.Helper()
	elapse(2 * journalEvery)
	if err := x.call(x.t.Context(), func() {
		_, binding := x.Scheduler.binding[uid]
		_, arrival := x.arrivals[uid]
		_, hopeless := x.hopeless[uid]
		entry := x.journal.attempts(uid) != 0
		if binding || arrival || hopeless || entry || x.queue.Has(uid) {
			x.t.Errorf("of %s is kept: binding %t, arrival %t, hopeless %t, journal %t, in the queue %t; want nothing", uid, binding, arrival, hopeless, entry, x.queue.Has(uid))
		}
	}); err != nil {
		x.t.Fatal(err)
	}
}

func TestAPodIsDeletedWhileItsBindIsUnderWay(t *testing.T) {
	for name, err := range map[string]error{"too late": nil, "in time": store.ErrNotFound} {
		t.Run(name, func(t *testing.T) {
			onStage(t, cluster(nodesOf("4", "n")), nil, func(x *stage) {
				release := x.binder.hold()
				p := cores("p", "4")
				x.deliver(store.Added, p)
				x.deliver(store.Added, cores("q", "4"))
				x.deliver(store.Deleted, p)
				x.wantPods("its room is free at once", "q promised n")
				release(func(b store.Binding) error {
					if b.Pod.Name == "p" {
						return err
					}
					return nil
				})
				x.wantPods("after the outcome", "q promised n")
				x.wantNothingOf("p")
				if err := x.Idle(x.ctx); err != nil {
					t.Errorf("Idle: %v", err)
				}
			})
		})
	}
}

func TestADeposedLeaderBindsNothingMore(t *testing.T) {
	t.Run("the store says so", func(t *testing.T) {
		onStage(t, cluster(nodesOf("400", "n")), nil, func(x *stage) {
			release := x.binder.hold()
			for i := range bindWorkers {
				x.deliver(store.Added, cores(fmt.Sprintf("p%d", i), "1"))
			}
			x.deliver(store.Added, cores("queued", "1"))
			x.wantBinds("under way", "p0@1 n", "p1@1 n", "p2@1 n", "p3@1 n")
			release(always(store.ErrDeposed))
			x.wantEnd(store.ErrDeposed)
			x.Deliver([]store.Event{{Type: store.Added, Pod: cores("later", "1")}})
			synctest.Wait()
			calls := x.binder.seen
			if len(calls) > bindWorkers+1 {
				t.Errorf("got binds %q, want no more than what was under way", calls)
			}
			elapse(time.Hour)
			x.wantBinds("ever after", calls...)
		})
	})
	t.Run("a worker says so in mid-batch", func(t *testing.T) {
		onStage(t, cluster(nodesOf("4", "n")), nil, func(x *stage) {
			if err := x.call(x.ctx, func() { x.deposeAfter(1) }); err != nil {
				t.Fatal(err)
			}
			// The first fits and is placed; why the second does not is asked in a round of its own.
			x.Deliver([]store.Event{added(cores("fits", "4")), added(cores("too-large", "5"))})
			x.wantEnd(fanout.ErrDeposed)
			x.wantBinds("what the batch had placed is not bound")
			if _, err := x.Summary(x.ctx); !errors.Is(err, fanout.ErrDeposed) || status.Code(err) != codes.Unavailable {
				t.Errorf("a caller gets %v, want UNAVAILABLE with the cause", err)
			}
		})
	})
	t.Run("a worker says so of a batch", func(t *testing.T) {
		onStage(t, cluster(nodesOf("4", "n")), nil, func(x *stage) {
			if err := x.call(x.ctx, func() { x.deposeAfter(0) }); err != nil {
				t.Fatal(err)
			}
			x.Deliver([]store.Event{added(cores("p", "4"))})
			x.wantEnd(fanout.ErrDeposed)
			x.wantBinds("nothing is bound")
		})
	})
}

func added(p *v1.Pod) store.Event {
	return store.Event{Type: store.Added, Kind: "Pod", Pod: p}
}

func TestANodeGoesWhilePodsArePromisedToIt(t *testing.T) {
	onStage(t, cluster(nodesOf("4", "n")), nil, func(x *stage) {
		n := nodesOf("4", "n")[0]
		release := x.binder.hold()
		p, q := cores("p", "1"), cores("q", "1")
		x.deliver(store.Added, p)
		x.deliver(store.Added, q)
		x.deliver(store.Deleted, n)
		x.wantPods("the node is gone", "p promised n", "q promised n")
		release(func(b store.Binding) error {
			if b.Pod.Name == "q" {
				return store.ErrConflict
			}
			return nil
		})
		x.confirm(p, "n")
		elapse(2 * time.Second)
		x.wantPods("p is bound all the same, q has nowhere to go", "p on n", "q backoff")
		x.wantMessage("q", noNodes)

		x.deliver(store.Added, n)
		elapse(15 * time.Second)
		x.wantPods("the node is back", "p on n", "q promised n")
		x.deliver(store.Added, cores("r", "3"))
		x.wantPods("with p and q on it", "p on n", "q promised n", "r unschedulable")
		x.deliver(store.Added, cores("s", "2"))
		x.wantPods("and room for two more cores", "p on n", "q promised n", "r unschedulable", "s promised n")
	})
}

func TestPodsOfOtherSchedulers(t *testing.T) {
	foreign := func(p *v1.Pod) { p.Spec.SchedulerName = "another" }
	ours := func(p *v1.Pod) { p.Spec.SchedulerName = v1.DefaultSchedulerName }
	onStage(t, cluster(nodesOf("4", "n")), nil, func(x *stage) {
		p := cores("p", "4")
		foreign(p)
		x.deliver(store.Added, p)
		x.wantPods("ignored while it is pending")
		x.deliver(store.Added, cores("q", "4"))
		x.confirm(cores("q", "4"), "n")
		x.update(p, "2", ours)
		x.wantPods("given to us", "p unschedulable", "q on n")
		elapse(2 * journalEvery)
		x.update(p, "3", foreign)
		x.wantPods("taken from us", "q on n")
		x.wantNothingOf("p")
		x.deliver(store.Deleted, cores("q", "4"))
		x.confirm(p, "n")
		x.deliver(store.Added, cores("r", "1"))
		x.wantPods("what another binds takes room", "p on n", "r unschedulable")
		x.wantMessage("r", "1 Insufficient cpu")
	})
}

// A preferred term that can not be parsed is an error only where nodes are scored.
func TestAPodThatCanNotBeScored(t *testing.T) {
	onStage(t, cluster(nodesOf("4", "n", "m")), nil, func(x *stage) {
		x.deliver(store.Added, unreadable("p"))
		x.wantPods("two nodes", "p backoff")
		x.wantMessage("p", "NodeAffinity")
		if err := x.Idle(x.ctx); err != nil {
			t.Errorf("Idle with a pod that has an error of its own: %v", err)
		}
		elapse(time.Minute)
		x.wantPods("a minute later", "p backoff")
		x.deliver(store.Deleted, nodesOf("4", "m")[0])
		elapse(12 * time.Second)
		x.wantPods("one node", "p promised n")
		x.wantBinds("bound", "p@1 n")
	})
}

func TestAPodThatFitsNowhereIsTriedAgainWhenANodeComes(t *testing.T) {
	onStage(t, cluster(nodesOf("2", "small")), nil, func(x *stage) {
		for i := range 3 {
			x.deliver(store.Added, cores(fmt.Sprintf("p%d", i), "4"))
		}
		x.wantPods("before", "p0 unschedulable", "p1 unschedulable", "p2 unschedulable")
		elapse(20 * time.Second)
		x.deliver(store.Added, nodesOf("3", "still-small")[0])
		x.wantPods("a node that does not help", "p0 unschedulable", "p1 unschedulable", "p2 unschedulable")
		x.deliver(store.Added, nodesOf("8", "large")[0])
		x.wantPods("a node for two of them", "p0 promised large", "p1 promised large", "p2 unschedulable")
		x.wantMessage("p2", "0/3 nodes are available: 3 Insufficient cpu.")
		grown := nodesOf("4", "small")[0]
		elapse(20 * time.Second)
		x.deliver(store.Modified, grown)
		x.wantPods("a node that has grown", "p0 promised large", "p1 promised large", "p2 promised small")
	})
}

func TestWithoutAnyNode(t *testing.T) {
	onStage(t, cluster(nil), nil, func(x *stage) {
		x.deliver(store.Added, cores("p", "1"))
		x.wantPods("no node", "p backoff")
		x.wantMessage("p", noNodes)
		if err := x.Idle(x.ctx); err != nil {
			t.Errorf("Idle: %v", err)
		}
		x.deliver(store.Added, nodesOf("4", "n")[0])
		begin := time.Now()
		if err := x.Idle(x.ctx); err != nil {
			t.Errorf("Idle: %v", err)
		}
		x.wantPods("when there is one", "p promised n")
		if waited := time.Since(begin); waited > 2*time.Second {
			t.Errorf("got placed after %v, want no more than its backoff", waited)
		}
	})
}

func TestATermStartsFromObjectsAndJournal(t *testing.T) {
	bound, running, done := cores("bound", "1"), cores("running", "1"), cores("done", "4")
	bound.Spec.NodeName, running.Spec.NodeName, done.Spec.NodeName = "n", "n", "n"
	done.Status.Phase = v1.PodSucceeded
	fresh, rejected, failing := cores("fresh", "1"), cores("rejected", "1"), cores("failing", "1")
	// The bubble's clock begins at the start of 2000.
	ago := func(d time.Duration) *timestamppb.Timestamp {
		return timestamppb.New(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(-d))
	}
	entries := map[types.UID]*pb.QueueEntry{
		"rejected": {Attempts: 3, UnschedulableCount: 3, RejectedBy: []string{"NodeResourcesFit"}, Queued: ago(time.Minute), FirstAttempt: ago(time.Hour), Message: "old"},
		"failing":  {Attempts: 2, ErrorCount: 2, Queued: ago(time.Minute), BackoffUntil: timestamppb.New(time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC))},
		"bound":    {Attempts: 9},
		"done":     {Attempts: 9},
		"gone":     {Attempts: 9},
	}
	all := cluster(nodesOf("4", "n"), bound, running, done, fresh, rejected, failing)
	onStage(t, all, entries, func(x *stage) {
		// There is room for two: for the pod that no leader has tried, and for the one that was
		// rejected, which is popped from its backoff. The one with an error waits.
		x.wantPods("at once", "fresh promised n", "failing backoff", "rejected promised n")
		elapse(2 * journalEvery)
		x.journal.want(t, "entries of what is not pending are gone", map[types.UID]uint32{"failing": 2})
		elapse(5 * time.Second)
		x.wantPods("later", "fresh promised n", "failing unschedulable", "rejected promised n")
		x.wantMessage("failing", "0/1 nodes are available: 1 Insufficient cpu.")
		elapse(2 * journalEvery)
		x.journal.want(t, "at the end", map[types.UID]uint32{"failing": 3})
		sum, err := x.Summary(x.ctx)
		if err != nil || sum.PodsPresent != 2 {
			t.Errorf("summary: got %d pods present, %v; want 2", sum.PodsPresent, err)
		}
	})
}

func TestTheEndOfATerm(t *testing.T) {
	t.Run("at rest", func(t *testing.T) {
		onStage(t, cluster(nodesOf("4", "n")), nil, func(x *stage) {
			x.cancel()
			x.wantEnd(nil)
			if _, err := x.Summary(x.ctx); !errors.Is(err, ErrStopped) {
				t.Errorf("a caller gets %v, want %v", err, ErrStopped)
			}
			if err := x.Idle(x.ctx); !errors.Is(err, ErrStopped) {
				t.Errorf("who waits gets %v, want %v", err, ErrStopped)
			}
		})
	})
	t.Run("in the middle of a round", func(t *testing.T) {
		onStage(t, cluster(nodesOf("4", "n")), nil, func(x *stage) {
			if err := x.call(x.ctx, func() {
				through := x.evaluate
				x.evaluate = func(ctx context.Context, requests []fanout.Request) ([]*scorer.Result, error) {
					if requests[0].Diagnose {
						x.cancel()
						return nil, ctx.Err()
					}
					return through(ctx, requests)
				}
			}); err != nil {
				t.Fatal(err)
			}
			x.Deliver([]store.Event{added(cores("fits", "4")), added(cores("too-large", "5"))})
			x.wantEnd(nil)
			x.wantBinds("nothing is bound after the end")
			if got := x.queue.Len(queue.Active); got != 1 {
				t.Errorf("given back: got %d pods, want the one that was not decided", got)
			}
		})
	})
	t.Run("what was noted last is written", func(t *testing.T) {
		onStage(t, cluster(nodesOf("4", "n")), nil, func(x *stage) {
			x.deliver(store.Added, cores("p", "5"))
			x.journal.want(t, "before", map[types.UID]uint32{})
			x.cancel()
			x.wantEnd(nil)
			x.journal.want(t, "after", map[types.UID]uint32{"p": 1})
		})
	})
}

func TestDecisionsDoNotWaitForBinds(t *testing.T) {
	onStage(t, cluster(nodesOf("4000", "n", "m")), nil, func(x *stage) {
		release := x.binder.hold()
		var events []store.Event
		for i := range 150 {
			events = append(events, added(cores(fmt.Sprintf("p%03d", i), "1")))
		}
		x.Deliver(events)
		synctest.Wait()
		progress, err := x.Progress(x.ctx)
		if err != nil || progress.Decisions != 100 && progress.Decisions != 150 || progress.PodsBound != 0 || progress.Idle {
			t.Errorf("got %v, %v; want all decided, none bound, not idle", progress, err)
		}
		release(nil)
		progress, err = x.Progress(x.ctx)
		if err != nil || progress.PodsBound != progress.Decisions || !progress.Idle {
			t.Errorf("got %v, %v; want all bound and idle", progress, err)
		}
	})
}

// Kubernetes fixes these fields when a pod is made; a store of our own lets them change for
// as long as the pod is pending.
func TestAPendingPodIsChangedSoThatItFits(t *testing.T) {
	for name, x := range map[string]struct {
		wrong func(*v1.Pod)
	}{
		"its node selector": {func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "nowhere"} }},
		"its node affinity": {func(p *v1.Pod) {
			p.Spec.Affinity = build.Pod("x").Required(build.Names("nobody")).Obj().Spec.Affinity
		}},
		"its host ports": {func(p *v1.Pod) {
			p.Spec.Containers = build.Pod("x").CPU("1").HostPort("", "", 80).Obj().Spec.Containers
		}},
		"its request":                       {func(p *v1.Pod) { p.Spec.Containers = cores("x", "5").Spec.Containers }},
		"a preference that can not be read": {func(p *v1.Pod) { p.Spec.Affinity = unreadable("x").Spec.Affinity }},
	} {
		t.Run(name, func(t *testing.T) {
			ports := func(name, node string) *v1.Pod {
				return build.Pod(name).UID(name).HostPort("", "", 80).Node(node).Obj()
			}
			onStage(t, cluster(nodesOf("4", "n", "m"), ports("a", "n"), ports("b", "m")), nil, func(s *stage) {
				p := cores("p", "1")
				x.wrong(p)
				s.deliver(store.Added, p)
				s.wantBinds("as it is")
				s.update(p, "2", func(p *v1.Pod) { p.Spec = cores("p", "1").Spec })
				elapse(2 * time.Second)
				s.wantBinds("changed", "p@2 n")
			})
		})
	}
}

// A pod that had an error of its own, and then only a refused bind, is worth waiting for.
func TestARefusedBindIsNotAPodsOwnError(t *testing.T) {
	onStage(t, cluster(nodesOf("4", "n", "m")), nil, func(x *stage) {
		x.deliver(store.Added, unreadable("p"))
		x.wantMessage("p", "NodeAffinity")
		x.binder.say(always(store.ErrConflict))
		x.deliver(store.Deleted, nodesOf("4", "m")[0]) // a single node is not scored
		elapse(2 * time.Second)
		x.wantBinds("tried on it", "p@1 n")
		x.wantPods("and refused", "p backoff")
		x.binder.say(nil)
		if err := x.Idle(x.ctx); err != nil {
			t.Errorf("Idle: %v", err)
		}
		x.wantPods("when nothing is left to do", "p promised n")
	})
}

// unreadable is a pod with a preferred term that can not be parsed.
func unreadable(name string) *v1.Pod {
	p := cores(name, "1")
	p.Spec.Affinity = build.Pod("x").Preferred(1, build.Labels(build.Match("k", v1.NodeSelectorOpIn, "-1"))).Obj().Spec.Affinity
	return p
}

// deaf is a worker that nobody reaches.
type deaf struct{ pb.WorkerServiceClient }

var errAway = status.Error(codes.Unavailable, "away")

func (deaf) Evaluate(context.Context, *pb.EvaluateRequest, ...grpc.CallOption) (*pb.EvaluateResponse, error) {
	return nil, errAway
}

func (deaf) LoadSnapshot(context.Context, ...grpc.CallOption) (grpc.ClientStreamingClient[pb.LoadSnapshotRequest, pb.LoadSnapshotResponse], error) {
	return nil, errAway
}

func (deaf) Close() error { return nil }

func TestWorkersAreKnownAtOnceAndDoneWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := NewScheduler(SchedulerConfig{Cluster: "test", Term: 1, Shards: 3, Fanout: fanout.Config{
			Dial: func(context.Context, fanout.Member) (pb.WorkerServiceClient, io.Closer, error) {
				return deaf{}, deaf{}, nil
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(quiet())
		go func() { _ = s.Run(ctx) }()
		s.SetMembers([]fanout.Member{{ID: "w1", Address: "w1:1", Cores: 2}, {ID: "w2", Address: "w2:1", Cores: 2}})
		synctest.Wait()
		workers, err := s.Workers(ctx)
		if err != nil || len(workers) != 2 {
			t.Errorf("workers: got %v, %v; want two", workers, err)
		}
		s.Deliver([]store.Event{{Type: store.Added, Kind: objects.KindNode, Node: nodesOf("4", "n")[0]}, added(cores("p", "1"))})
		if err := s.Idle(ctx); err != nil {
			t.Errorf("Idle: %v", err)
		}
		shards, err := s.Shards(ctx)
		if err != nil || len(shards) != 3 {
			t.Fatalf("shards: got %v, %v; want three", shards, err)
		}
		nodes, generations := 0, uint64(0)
		for i, shard := range shards {
			nodes += int(shard.Nodes)
			generations += shard.Generation
			if shard.Shard != uint32(i) {
				t.Errorf("shard %d: got %v", i, shard)
			}
		}
		if nodes != 1 || generations != 2 { // a node, and a pod on it
			t.Errorf("shards: got %d nodes after %d deltas, want 1 after 2", nodes, generations)
		}
		sum, err := s.Summary(ctx)
		if err != nil || sum.PodsBound != 1 || sum.LocalEvaluations == 0 {
			t.Errorf("summary: got %d pods bound with %d shards evaluated here, %v; want 1 with some", sum.PodsBound, sum.LocalEvaluations, err)
		}
		cancel()
		<-s.ended
	})
}
