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

	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

func TestADeposedLeaderBindsNothingMore(t *testing.T) {
	t.Run("the store says so", func(t *testing.T) {
		runScenario(t, clusterOf(nodesOf("400", "n")), nil, func(x *scenario) {
			release := x.binder.hold()
			for i := range bind.DefaultCalls {
				x.deliver(objects.Added, cores(fmt.Sprintf("p%d", i), "1"))
			}
			x.deliver(objects.Added, cores("queued", "1"))
			x.wantBinds("under way", "p0@1 n", "p1@1 n", "p2@1 n", "p3@1 n")
			release(always(lease.ErrDeposed))
			x.wantEnd(lease.ErrDeposed)
			x.Deliver([]objects.Event{{Type: objects.Added, Pod: cores("later", "1")}})
			synctest.Wait()
			calls := x.binder.seen
			if len(calls) > bind.DefaultCalls+1 {
				t.Errorf("got binds %q, want no more than what was under way", calls)
			}
			elapse(time.Hour)
			x.wantBinds("ever after", calls...)
		})
	})
	t.Run("a worker says so in mid-batch", func(t *testing.T) {
		runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
			if err := x.call(x.ctx, func() { x.deposeAfter(1) }); err != nil {
				t.Fatal(err)
			}
			// The first fits and is placed; why the second does not is asked in a round of its own.
			x.Deliver([]objects.Event{added(cores("fits", "4")), added(cores("too-large", "5"))})
			x.wantEnd(fanout.ErrDeposed)
			x.wantBinds("what the batch had placed is not bound")
			if _, err := x.Summary(x.ctx); !errors.Is(err, fanout.ErrDeposed) || status.Code(err) != codes.Unavailable {
				t.Errorf("a caller gets %v, want UNAVAILABLE with the cause", err)
			}
		})
	})
	t.Run("a worker says so of a batch", func(t *testing.T) {
		runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
			if err := x.call(x.ctx, func() { x.deposeAfter(0) }); err != nil {
				t.Fatal(err)
			}
			x.Deliver([]objects.Event{added(cores("p", "4"))})
			x.wantEnd(fanout.ErrDeposed)
			x.wantBinds("nothing is bound")
		})
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
	all := clusterOf(nodesOf("4", "n"), bound, running, done, fresh, rejected, failing)
	runScenario(t, all, entries, func(x *scenario) {
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
		runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
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
		runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
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
			x.Deliver([]objects.Event{added(cores("fits", "4")), added(cores("too-large", "5"))})
			x.wantEnd(nil)
			x.wantBinds("nothing is bound after the end")
			if got := x.queue.Len(queue.Active); got != 1 {
				t.Errorf("given back: got %d pods, want the one that was not decided", got)
			}
		})
	})
	t.Run("before a dry run of preemption", func(t *testing.T) {
		runScenarioWith(t, func(cfg *SchedulerConfig) { cfg.Profiles = withPreemption() }, clusterOf(nodesOf("4", "n"), build.Pod("there").CPU("4").Node("n").Obj()), nil, func(x *scenario) {
			if err := x.call(x.ctx, func() {
				through := x.evaluate
				x.evaluate = func(ctx context.Context, requests []fanout.Request) ([]*scorer.Result, error) {
					found, err := through(ctx, requests)
					if requests[0].Diagnose {
						x.cancel()
					}
					return found, err
				}
			}); err != nil {
				t.Fatal(err)
			}
			x.Deliver([]objects.Event{added(build.Pod("above").CPU("4").Priority(1).Obj())})
			x.wantEnd(nil)
			if got := x.queue.Len(queue.Active); got != 1 {
				t.Errorf("given back: got %d pods, want the one that was not decided", got)
			}
		})
	})
	t.Run("what was noted last is written", func(t *testing.T) {
		runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
			x.deliver(objects.Added, cores("p", "5"))
			x.journal.want(t, "before", map[types.UID]uint32{})
			x.cancel()
			x.wantEnd(nil)
			x.journal.want(t, "after", map[types.UID]uint32{"p": 1})
		})
	})
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
		s.Deliver([]objects.Event{{Type: objects.Added, Kind: objects.KindNode, Node: nodesOf("4", "n")[0]}, added(cores("p", "1"))})
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
