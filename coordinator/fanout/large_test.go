package fanout_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	gstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
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

func TestMessagesTooLargeAreHalved(t *testing.T) {
	// A limit of 2 KiB stands in for the 4 MiB, in both directions.
	fleet := newFleet(t, 1, worker.Config{}, grpc.MaxSendMsgSize(2<<10))
	c := newCluster(2)
	c.addNodes(t, 0, 3000)
	f := fleet.fanout(t, c, 1, fanout.Config{})
	var queries []*pb.Query
	for i := range 20 {
		queries = append(queries, query(uint64(i+1), int64(100+i), false))
	}
	reqs := requests(t, 20, true, queries...)
	c.wantSame(t, f, reqs)
	if got := f.Stats().LocalShards; got != 0 {
		t.Errorf("got %d shards evaluated here, want halves that fit", got)
	}
	whole := requests(t, 3000, true, queries...) // one class of one shard is too large
	c.wantSame(t, f, whole)
	if got := f.Stats().LocalShards; got == 0 {
		t.Error("got no shard evaluated here, want those whose answers can not be sent")
	}
	for _, w := range f.Workers() {
		if w.GetFailures() != 0 {
			t.Errorf("got %v, want no failures", w)
		}
	}
}

func TestAShardOfManyMebibytesComesInChunks(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{}) // gRPC takes 4 MiB
	c := newCluster(1)
	for i := range 2500 {
		n := node(i)
		for j := range 25 {
			n.Labels = append(n.Labels, &pb.Label{Key: "zz/" + string(rune('a'+j)), Value: string(slices.Repeat([]byte{byte('a' + i%26)}, 60+j))})
		}
		c.apply(t, uint32(i), n.GetName(), &pb.Delta{Change: &pb.Delta_SetNode{SetNode: n}})
	}
	f := fleet.fanout(t, c, 1, fanout.Config{})
	reqs := requests(t, 5, false, query(1, 100, false))
	c.wantSame(t, f, reqs)
	// As many changes again are more than a request may carry.
	for i := range 2500 {
		n := node(i)
		n.Labels = append(n.Labels, &pb.Label{Key: "zz/long", Value: string(slices.Repeat([]byte{byte('a' + i%26)}, 2000))})
		c.apply(t, uint32(i), n.GetName(), &pb.Delta{Change: &pb.Delta_SetNode{SetNode: n}})
	}
	c.wantSame(t, f, reqs)
	if got := f.Stats(); got.Snapshots != 2 || got.LocalShards != 0 {
		t.Errorf("got %+v, want two snapshots and nothing evaluated here", got)
	}
}

func TestALargeShardGetsItsManyDeltasInSeveralRequests(t *testing.T) {
	const nodes, pods = 50_000, 20_000 // of deltas that are reckoned at 128 bytes
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(1)
	c.addNodes(t, 0, nodes)
	f := fleet.fanout(t, c, 1, fanout.Config{})
	reqs := requests(t, 5, false, query(1, 100, false))
	c.wantSame(t, f, reqs)
	for _, x := range []struct {
		restarted int // in which of the requests; -1: in none
		snapshots uint64
	}{{-1, 0}, {0, 1}, {1, 1}, {-1, 0}} {
		for i := range uint32(pods) {
			c.tick++
			add := &pb.Delta_AddPod{AddPod: &pb.PodUsage{Requests: &pb.Resources{MilliCpu: 1}, NonZeroMilliCpu: 1}}
			c.apply(t, i, node(int(i)).GetName(), &pb.Delta{Change: add, Decision: c.tick, Pod: &pb.PlacedPod{Number: c.tick}})
		}
		w := fleet.proxies["w0"]
		if x.restarted == 0 {
			w.restart()
		}
		asked := 0
		w.script(func(_ context.Context, req *pb.EvaluateRequest) error {
			if asked++; asked == x.restarted {
				w.restart()
			}
			if size := proto.Size(req); size > 2<<20 {
				t.Errorf("got a request of %d bytes, want 2 MiB at the most", size)
			}
			return nil
		}, nil)
		before := f.Stats()
		c.wantSame(t, f, reqs)
		w.script(nil, nil)
		after := f.Stats()
		if got := after.Snapshots - before.Snapshots; got != x.snapshots || after.LocalShards != before.LocalShards {
			t.Errorf("restarted in request %d: got %d snapshots and %d shards evaluated here, want %d and none",
				x.restarted, got, after.LocalShards-before.LocalShards, x.snapshots)
		}
		if asked < 2 {
			t.Errorf("restarted in request %d: got %d requests, want more than one for %d deltas", x.restarted, asked, pods)
		}
	}
}

func TestAShardWithANodeLargerThanAMessageIsEvaluatedHere(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(4)
	c.addNodes(t, 0, 200)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := fleet.fanout(t, c, 2, fanout.Config{Clock: clock})
	reqs := requests(t, 5, false, query(1, 100, false))
	owned(t, c, f, 2, reqs)
	large := node(200)
	for i := range 1200 {
		large.Labels = append(large.Labels, &pb.Label{Key: fmt.Sprintf("zz/%04d", i), Value: strings.Repeat("x", 4000)})
	}
	c.apply(t, 200, large.GetName(), &pb.Delta{Change: &pb.Delta_SetNode{SetNode: large}})
	before := f.Stats()
	c.wantSame(t, f, reqs)
	c.wantSame(t, f, reqs)
	after := f.Stats()
	if got := after.LocalShards - before.LocalShards; got != 2 || after.Snapshots != before.Snapshots {
		t.Errorf("got %d shards evaluated here in two rounds and %d snapshots, want the one that no message holds, and none", got, after.Snapshots-before.Snapshots)
	}
	for _, w := range f.Workers() {
		if w.GetFailures() != 0 {
			t.Errorf("got %v, want no failures", w)
		}
	}
	// Where the node is as others are again, workers get the shard.
	small := node(200)
	c.apply(t, 200, small.GetName(), &pb.Delta{Change: &pb.Delta_SetNode{SetNode: small}})
	clock.Step(time.Hour)
	c.wantSame(t, f, reqs)
	if got := f.Stats(); got.LocalShards != after.LocalShards || got.Snapshots != after.Snapshots+1 {
		t.Errorf("got %d shards evaluated here and %d snapshots more, want none and the shard's", got.LocalShards-after.LocalShards, got.Snapshots-after.Snapshots)
	}
}
