package fanout_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	gstatus "google.golang.org/grpc/status"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/worker"
)

// decoded is the size of the largest message that clients have decoded.
type decoded struct {
	stats.Handler
	largest atomic.Int64
}

func (d *decoded) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		n := int64(in.Length)
		for seen := d.largest.Load(); n > seen && !d.largest.CompareAndSwap(seen, n); seen = d.largest.Load() {
		}
	}
}
func (d *decoded) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (d *decoded) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (d *decoded) HandleConn(context.Context, stats.ConnStats)                       {}

// empties are results of two bytes each.
func empties(n int) []*pb.ClassResult {
	out := make([]*pb.ClassResult, n)
	for i := range out {
		out[i] = &pb.ClassResult{}
	}
	return out
}

func TestAnAnswerLargerThanItCanBeIsNotDecoded(t *testing.T) {
	sizes := &decoded{}
	fleet := newFleet(t, 1, worker.Config{})
	fleet.stats = sizes
	c := newCluster(4)
	c.addNodes(t, 0, 100)
	f := fleet.fanout(t, c, 1, fanout.Config{})
	reqs := requests(t, 5, true, query(1, 100, false), query(2, 500, true))
	fleet.proxies["w0"].script(nil, func(resp *pb.EvaluateResponse) {
		if len(resp.GetResults()) > 0 {
			resp.Results = empties(1 << 16) // 128 KiB on the wire
		}
	})
	c.wantSame(t, f, reqs)
	if got := sizes.largest.Load(); got == 0 || got > 64<<10 {
		t.Errorf("got a message of %d bytes decoded, want 64 KiB at the most", got)
	}
}

// sicken has all workers of a fleet fail once, and answer probes as the functions say then.
func sicken(t *testing.T, n int, before func(context.Context) error, after func(*pb.EvaluateResponse)) *fanout.Fanout {
	t.Helper()
	fleet := newFleet(t, n, worker.Config{})
	c := newCluster(4 * n)
	c.addNodes(t, 0, 100)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := fleet.fanout(t, c, n, fanout.Config{Clock: clock})
	for _, p := range fleet.proxies {
		p.script(func(ctx context.Context, req *pb.EvaluateRequest) error {
			if len(req.GetShards()) > 0 {
				return gstatus.Error(codes.Internal, "no")
			}
			return before(ctx)
		}, after)
	}
	c.wantSame(t, f, requests(t, 5, true, query(1, 100, false)))
	clock.Step(time.Second)
	return f
}

func TestAWorkerThatAnswersProbesAtLengthIsQuarantined(t *testing.T) {
	for _, n := range []int{0, 1, 1 << 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := sicken(t, 1, func(context.Context) error { return nil }, func(resp *pb.EvaluateResponse) { resp.Results = empties(n) })
			if err := f.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.Settle()
			if got := status(t, f, "w0").GetQuarantine(); (got != "") != (n > 0) {
				t.Errorf("got quarantine %q after a probe's answer of %d results", got, n)
			}
		})
	}
}

func TestFewProbesAreUnderWayAtATime(t *testing.T) {
	const workers, most = 20, 16
	release := make(chan struct{})
	f := sicken(t, workers, func(ctx context.Context) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}, nil)
	for range 2 {
		if err := f.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := f.Probing(); got != most {
			t.Fatalf("got %d probes under way, want %d", got, most)
		}
	}
	close(release)
	f.Settle()
	if err := f.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.Probing(); got > workers-most {
		t.Errorf("got %d probes under way, want those of the other %d", got, workers-most)
	}
}
