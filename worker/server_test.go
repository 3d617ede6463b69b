package worker_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
	"github.com/shardsched/shardsched/worker"
)

// wantCode checks an error's gRPC code and what its message names.
func wantCode(t *testing.T, err error, code codes.Code, words string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), words) {
		t.Errorf("got %v, want %v naming %q", err, code, words)
	}
}

func TestAnswersAsTheCoordinatorsOwnTables(t *testing.T) {
	for _, cores := range []int{1, 4} {
		r := newRig(t, worker.Config{Cores: cores})
		var shards []uint32
		for s := range uint32(6) {
			r.fill(s, 400+10*int(s))
			shards = append(shards, s)
		}
		r.load(shards...)
		queries := []*pb.Query{query(1, 500), query(2, 2500), query(3, 5500), query(4, 99000)}
		req := r.request(r.at(shards...), queries...)
		resp := r.evaluate(req)
		r.wantRight(req, resp, queries...)
		for _, result := range resp.GetResults() {
			if result.GetPasses() == 0 {
				t.Errorf("class %d has no passes", result.GetClassId())
			}
		}
		r.wantMetric(6, "shardsched_worker_snapshots_loaded_total")
		r.wantMetric(6, "shardsched_worker_shards")
		r.wantMetric(4, "shardsched_worker_classes")
		r.wantMetric(1, "shardsched_worker_requests_total", "Evaluate", "OK")
		r.wantMetric(7, "shardsched_worker_term", "blue")
		r.wantMetric(4, "shardsched_worker_plugin_duration_seconds", "NodeResourcesFit", "Filter")
		if got := r.metric("shardsched_worker_cache_bytes"); got <= 0 {
			t.Errorf("cache bytes: got %v, want more than 0", got)
		}
	}
}

func TestADefinedClassIsNamedByIDAfterwards(t *testing.T) {
	r := newRig(t, worker.Config{})
	r.fill(3, 50)
	r.load(3)
	q := query(9, 1000)
	req := r.request(r.at(3), q)
	req.Queries = nil
	r.wantNeeds(r.evaluate(req), nil, []uint64{9})
	req.Queries = []*pb.Query{q}
	r.wantRight(req, r.evaluate(req), q)
	req.Queries = nil
	r.wantRight(req, r.evaluate(req), q)
}

// A variant needs its original: of the same request, or sent before.
func TestVariantsOfAClass(t *testing.T) {
	r := newRig(t, worker.Config{})
	r.fill(3, 50)
	r.load(3)
	original := query(9, 1000)
	ask := func(id uint64, milliCPU int64, with ...*pb.Query) (*pb.EvaluateRequest, *pb.Query) {
		q := query(id, milliCPU)
		req := r.request(r.at(3), q)
		req.Queries, req.Variants = with, []*pb.Variant{q.Variant(original.ClassId)}
		return req, q
	}
	req, _ := ask(10, 2500)
	r.wantNeeds(r.evaluate(req), nil, []uint64{10})
	req, q := ask(10, 2500, original)
	r.wantRight(req, r.evaluate(req), q)
	req, q = ask(11, 5500)
	r.wantRight(req, r.evaluate(req), q)
	req.Variants = nil
	r.wantRight(req, r.evaluate(req), q)
	r.wantMetric(3, "shardsched_worker_classes")
	req, _ = ask(12, 700)
	req.Variants[0].FitScored = nil
	_, err := r.client.Evaluate(t.Context(), req)
	wantCode(t, err, codes.InvalidArgument, "variants[0]: fit_scored: expected one for each of")
}

// What counts is the definition that comes with a request, whatever the worker has under its id.
func TestTwoDefinitionsUnderOneID(t *testing.T) {
	r := newRig(t, worker.Config{})
	r.fill(3, 50)
	r.load(3)
	for _, milliCPU := range []int64{1000, 3000, 1000, 5000} {
		q := query(9, milliCPU)
		req := r.request(r.at(3), q)
		r.wantRight(req, r.evaluate(req), q)
		req.Queries = nil
		r.wantRight(req, r.evaluate(req), q)
	}
	r.wantMetric(1, "shardsched_worker_classes")
	// The next leader numbers its classes anew.
	r.term = 8
	r.load(3)
	req := r.request(r.at(3), query(9, 7000))
	req.Queries = nil
	r.wantNeeds(r.evaluate(req), nil, []uint64{9})
}

// A class that can not be evaluated fails by itself: the worker lives, and answers for the others.
func TestAClassThatPanicsFailsAlone(t *testing.T) {
	r := newRig(t, worker.Config{Cores: 4})
	r.fill(0, 3000)
	r.load(0)
	healthy := []*pb.Query{query(1, 500), query(3, 700)}
	req := r.request(r.at(0), healthy[0], query(2, 600), healthy[1])
	r.server.Pool().Before = func(c *scorer.Class) {
		if c.ID() == 2 {
			panic("poison")
		}
	}
	for range 3 {
		resp := r.evaluate(req)
		if got := resp.GetFailedClasses(); !slices.Equal(got, []uint64{2}) {
			t.Fatalf("failed classes: got %v, want class 2", got)
		}
		r.wantRight(req, resp, healthy...)
	}
	r.wantMetric(3, "shardsched_worker_panics_total")
	req.Classes, req.Candidates = slices.Delete(req.Classes, 1, 2), slices.Delete(req.Candidates, 1, 2)
	r.wantRight(req, r.evaluate(req), healthy...)
}

func TestClassesThatMadeRoomAreNeededAgain(t *testing.T) {
	r := newRig(t, worker.Config{CacheClasses: 2})
	r.fill(0, 50)
	r.load(0)
	queries := []*pb.Query{query(1, 500), query(2, 600), query(3, 700), query(4, 800)}
	req := r.request(r.at(0), queries...)
	r.wantRight(req, r.evaluate(req), queries...) // definitions at hand serve without the cache
	req.Queries = nil
	resp := r.evaluate(req)
	if len(resp.GetNeedClasses()) != 2 {
		t.Fatalf("need classes: got %v, want two of four", resp.GetNeedClasses())
	}
	for _, id := range resp.GetNeedClasses() {
		req.Queries = append(req.Queries, queries[id-1])
	}
	// Taking those two in does not lose the two that were there.
	r.wantRight(req, r.evaluate(req), queries...)
	r.wantMetric(2, "shardsched_worker_classes")
	if got := r.metric("shardsched_worker_evictions_total", "classes"); got < 2 {
		t.Errorf("evicted classes: got %v, want 2 or more", got)
	}
}

func TestDeltasBringAShardToTheGenerationAsked(t *testing.T) {
	r := newRig(t, worker.Config{})
	r.fill(2, 30)
	q := query(1, 1000)
	r.wantNeeds(r.evaluate(r.request(r.at(2), q)), []uint32{2}, nil)
	base := r.tables[2].Generation()
	r.load(2)
	deltas := r.apply(2, addPod(4, 1500), addPod(5, 800), setNode(30, node(77)))
	req := r.request([]*pb.ShardDeltas{after(2, base, deltas...)}, q)
	r.wantRight(req, r.evaluate(req), q)
	// The answer was lost, and more has happened: what is there is skipped.
	deltas = append(deltas, r.apply(2, addPod(6, 100))...)
	req = r.request([]*pb.ShardDeltas{after(2, base, deltas...)}, q)
	r.wantRight(req, r.evaluate(req), q)
	req = r.request([]*pb.ShardDeltas{after(2, base, deltas...)}, q)
	r.wantRight(req, r.evaluate(req), q)
	r.wantMetric(4, "shardsched_worker_deltas_applied_total")
}

// A request that follows another waits for it, whether that brings deltas or not, and no longer than it can come.
func TestARequestThatFollowsWaits(t *testing.T) {
	right := func(r *rig, req *pb.EvaluateRequest, resp *pb.EvaluateResponse, err error) {
		if err != nil {
			r.t.Fatal(err)
		}
		r.wantRight(req, resp, req.GetQueries()...)
	}
	for name, test := range map[string]struct {
		meanwhile func(r *rig, first *pb.EvaluateRequest, cancel func())
		check     func(r *rig, req *pb.EvaluateRequest, resp *pb.EvaluateResponse, err error)
	}{
		"until that has come": {func(r *rig, first *pb.EvaluateRequest, _ func()) { r.evaluate(first) }, right},
		"until that is refused": {
			func(r *rig, first *pb.EvaluateRequest, _ func()) {
				first.Shards[0].Deltas[0].Change = &pb.Delta_RemovePod{RemovePod: addPod(4, 1500).GetAddPod()}
				_, err := r.client.Evaluate(r.t.Context(), first)
				wantCode(r.t, err, codes.InvalidArgument, "shard 0")
			},
			func(r *rig, _ *pb.EvaluateRequest, resp *pb.EvaluateResponse, err error) {
				if err != nil {
					r.t.Fatal(err)
				}
				r.wantNeeds(resp, []uint32{0}, nil)
			},
		},
		"until a later one has come": {
			func(r *rig, _ *pb.EvaluateRequest, _ func()) {
				r.load(0, 1)
				later := r.request(r.at(0, 1))
				later.Turn = 9
				r.evaluate(later)
			},
			right,
		},
		"until its caller gives up": {
			func(_ *rig, _ *pb.EvaluateRequest, cancel func()) { cancel() },
			func(r *rig, _ *pb.EvaluateRequest, _ *pb.EvaluateResponse, err error) {
				wantCode(r.t, err, codes.Canceled, "")
				for r.metric("shardsched_worker_requests_total", "Evaluate") == 0 { // the worker does not wait either
					runtime.Gosched()
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, worker.Config{})
			r.fill(0, 30)
			r.fill(1, 30)
			r.load(0, 1)
			q := query(1, 1000)
			r.evaluate(r.request(r.at(0, 1), q))
			base := r.tables[0].Generation()
			first := r.request([]*pb.ShardDeltas{after(0, base, r.apply(0, addPod(4, 1500))...), r.at(1)[0]}, q)
			first.Turn = 7
			req := r.request([]*pb.ShardDeltas{
				after(0, base+1), after(1, r.tables[1].Generation(), r.apply(1, addPod(6, 800))...), // it could overtake the first on shard 1
			}, q)
			req.Turn, req.Follows = 8, 7
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var resp *pb.EvaluateResponse
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				resp, err = r.client.Evaluate(ctx, req)
			}()
			for !r.server.Waits() {
				runtime.Gosched()
			}
			test.meanwhile(r, first, cancel)
			<-done
			test.check(r, req, resp, err)
		})
	}
}

// A worker that was started anew has not got what a request follows, nor will it come: it says at once what it lacks.
func TestANewWorkerWaitsForNoTurn(t *testing.T) {
	r := newRig(t, worker.Config{})
	r.fill(0, 30)
	req := r.request(r.at(0), query(1, 1000))
	req.Turn, req.Follows = 8, 7
	r.wantNeeds(r.evaluate(req), []uint32{0}, nil)
}

func TestAWrongGenerationIsNeverAnswered(t *testing.T) {
	r := newRig(t, worker.Config{})
	q := query(1, 1000)
	r.fill(0, 20)
	r.fill(1, 20)
	r.load(0, 1)
	g := r.tables[0].Generation()
	pods := []*pb.Delta{addPod(1, 10), addPod(2, 10)}
	tests := []struct {
		name  string
		shard *pb.ShardDeltas
	}{
		{"deltas that start behind what it has", after(0, g+1, pods...)},
		{"a generation ahead without deltas", after(0, g+5)},
		{"a generation in the past", after(0, g-3)},
		{"deltas that end in the past", after(0, g-3, pods...)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			req := r.request([]*pb.ShardDeltas{tc.shard, r.at(1)[0]}, q)
			r.wantNeeds(r.evaluate(req), []uint32{0}, nil)
			req = r.request(r.at(0, 1), q) // and nothing has changed
			r.wantRight(req, r.evaluate(req), q)
		})
	}
}

func TestShardsThatCanAdvanceDoAlsoWhenOthersAreMissing(t *testing.T) {
	r := newRig(t, worker.Config{})
	q := query(1, 1000)
	r.fill(0, 20)
	r.fill(1, 20)
	r.load(0)
	base := r.tables[0].Generation()
	deltas := r.apply(0, addPod(3, 700))
	req := r.request([]*pb.ShardDeltas{r.at(1)[0], after(0, base, deltas...)}, q)
	r.wantNeeds(r.evaluate(req), []uint32{1}, nil)
	r.load(1)
	req = r.request(r.at(0, 1), q)
	r.wantRight(req, r.evaluate(req), q)
}

func TestADeltaThatCanNotBeAppliedCostsTheShard(t *testing.T) {
	r := newRig(t, worker.Config{})
	q := query(1, 1000)
	r.fill(0, 20)
	r.load(0)
	g := r.tables[0].Generation()
	_, err := r.client.Evaluate(t.Context(), r.request([]*pb.ShardDeltas{after(0, g, addPod(999, 1))}, q))
	wantCode(t, err, codes.InvalidArgument, "shard 0: delta to generation")
	r.wantNeeds(r.evaluate(r.request(r.at(0), q)), []uint32{0}, nil)
	r.wantMetric(0, "shardsched_worker_shards")
	r.wantMetric(0, "shardsched_worker_cache_bytes")
}

// A delta that panics costs its shard, and leaves none of the request's locked.
func TestADeltaThatPanicsCostsTheShard(t *testing.T) {
	r := newRig(t, worker.Config{})
	q := query(1, 1000)
	for _, shard := range []uint32{0, 1} {
		r.fill(shard, 20)
		r.load(shard)
	}
	left := r.server.Break(1, r.term)
	func() {
		defer func() {
			var met *scan.Panic
			if err, _ := recover().(error); !errors.As(err, &met) || !strings.Contains(string(met.Stack), "advance") {
				t.Errorf("got %v, want the panic with its stack", err)
			}
		}()
		_, err := r.server.Evaluate(t.Context(), r.request(r.at(0, 1), q))
		t.Errorf("got error %v, want a panic", err)
	}()
	if got := left(); got != 0 {
		t.Errorf("who waits for the shard finds generation %d, want none", got)
	}
	r.wantMetric(1, "shardsched_worker_shards")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // where a shard is locked for ever
	defer cancel()
	resp, err := r.client.Evaluate(ctx, r.request(r.at(0, 1), q))
	if err != nil {
		t.Fatal(err)
	}
	r.wantNeeds(resp, []uint32{1}, nil)
	r.load(1)
	req := r.request(r.at(0, 1), q)
	r.wantRight(req, r.evaluate(req), q)
}

func TestASnapshotThatWasLongOnItsWayTakesNothingBack(t *testing.T) {
	r := newRig(t, worker.Config{})
	r.fill(2, 50)
	slow := r.snapshot(2)
	base := r.tables[2].Generation()
	r.load(2)
	r.evaluate(r.request([]*pb.ShardDeltas{after(2, base, r.apply(2, setNode(50, node(7777)))...)}, query(1, 500)))
	if _, err := r.send(slow...); err != nil {
		t.Fatal(err)
	}
	req := r.request(r.at(2), query(1, 500))
	r.wantRight(req, r.evaluate(req), query(1, 500))

	r.term++ // a new leader begins anew, whatever its generation
	r.fill(2, 20)
	r.load(2)
	req = r.request(r.at(2), query(1, 500))
	r.wantRight(req, r.evaluate(req), query(1, 500))
}

func TestOldTermsAreRefused(t *testing.T) {
	r := newRig(t, worker.Config{})
	q := query(1, 1000)
	r.fill(0, 20)
	r.load(0)
	r.term = 8
	// A new leader's generations are its own: what the old one sent is no use.
	r.wantNeeds(r.evaluate(r.request(r.at(0), q)), []uint32{0}, nil)
	r.wantMetric(0, "shardsched_worker_shards")
	r.load(0)
	r.term = 7
	_, err := r.client.Evaluate(t.Context(), r.request(r.at(0), q))
	wantCode(t, err, codes.FailedPrecondition, "term 7 is over")
	_, err = r.send(r.snapshot(0)...)
	wantCode(t, err, codes.FailedPrecondition, "term 7 is over")
	r.term = 8
	req := r.request(r.at(0), q)
	r.wantRight(req, r.evaluate(req), q)
	r.wantMetric(2, "shardsched_worker_terms_refused_total")
	r.wantMetric(2, "shardsched_worker_requests_total", "FailedPrecondition")
}

func TestShardsMakeRoomByLastUse(t *testing.T) {
	probe := newRig(t, worker.Config{})
	probe.fill(0, 100)
	one := probe.tables[0].MemoryBytes()
	r := newRig(t, worker.Config{CacheBytes: 5 * one / 2})
	q := query(1, 1000)
	for s := range uint32(3) {
		r.fill(s, 100)
	}
	r.load(0, 1)
	r.evaluate(r.request(r.at(0), q)) // now 1 was used longest ago
	r.load(2)
	r.wantNeeds(r.evaluate(r.request(r.at(0, 1, 2), q)), []uint32{1}, nil)
	r.wantMetric(1, "shardsched_worker_evictions_total", "shards")
	r.wantMetric(2, "shardsched_worker_shards")
}

// pinnedQuery is a class with one pinned term.
func pinnedQuery(id uint64) *pb.Query {
	q := query(id, 1000)
	q.RowValues = []*pb.RowValue{{Pinned: []*pb.PinnedTerms{{TopologyKey: "zone", Counters: []*pb.CounterTerm{{Counter: 1, Weight: 1}}}}}}
	return q
}

func TestBadInputIsRefusedByName(t *testing.T) {
	r := newRig(t, worker.Config{})
	r.fill(0, 30)
	q := query(1, 1000)
	tests := []struct {
		name  string
		req   *pb.EvaluateRequest
		words string
	}{
		{"no cluster", &pb.EvaluateRequest{Rules: scan.Rules(), Term: 7}, "cluster"},
		{"no term", &pb.EvaluateRequest{Rules: scan.Rules(), Cluster: "blue"}, "term"},
		{"a shard twice", r.request(r.at(0, 0), q), "shards[1]"},
		{"too few deltas", r.request([]*pb.ShardDeltas{{Shard: 0, BaseGeneration: 1, Generation: 3}}, q), "shards[0].generation"},
		{"no pinned sums", r.request(r.at(0), pinnedQuery(5)), "expected 1 pinned sums, got 0"},
		{"a query that is none", r.request(r.at(0), &pb.Query{ClassId: 4, Filters: []pb.Plugin{99}}), "queries[0]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := r.client.Evaluate(t.Context(), tc.req)
			wantCode(t, err, codes.InvalidArgument, tc.words)
		})
	}
}

func TestBadSnapshotsAreRefusedAndChangeNothing(t *testing.T) {
	r := newRig(t, worker.Config{})
	r.fill(0, 30)
	r.load(0)
	whole := r.snapshot(0)
	tests := []struct {
		name   string
		chunks []*pb.LoadSnapshotRequest
		words  string
	}{
		{"nothing at all", nil, "without a header"},
		{"no header", whole[1:], "header"},
		{"a second header", []*pb.LoadSnapshotRequest{whole[0], whole[0]}, "mid-stream"},
		{"rows that go back", []*pb.LoadSnapshotRequest{whole[0], whole[2], whole[1]}, "row"},
		{"a row twice", []*pb.LoadSnapshotRequest{whole[0], whole[1], whole[1]}, "row"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := r.send(tc.chunks...)
			wantCode(t, err, codes.InvalidArgument, tc.words)
			q := query(1, 1000)
			req := r.request(r.at(0), q)
			r.wantRight(req, r.evaluate(req), q)
		})
	}
}

func TestHealthIsServing(t *testing.T) {
	r := newRig(t, worker.Config{})
	for _, service := range []string{"", pb.WorkerService_ServiceDesc.ServiceName} {
		got, err := r.health().Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: got %v, %v; want SERVING", service, got.GetStatus(), err)
		}
	}
}

func TestMemberDescribesTheWorker(t *testing.T) {
	got := worker.New(worker.Config{ID: "w", Address: "h:1", Cores: 3, Version: "v2"}).Member()
	if got.GetId() != "w" || got.GetAddress() != "h:1" || got.GetCores() != 3 || got.GetVersion() != "v2" {
		t.Errorf("got %v", got)
	}
	a, b := worker.New(worker.Config{}).Member(), worker.New(worker.Config{}).Member()
	if a.GetId() == "" || a.GetId() == b.GetId() {
		t.Errorf("ids by default: got %q and %q, want two that differ", a.GetId(), b.GetId())
	}
}
