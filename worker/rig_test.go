package worker_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/testing/protocmp"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
	"github.com/shardsched/shardsched/worker"
)

const gib = 1 << 30

// node is a node of the given number: sizes and zones vary.
func node(i int) *pb.Node {
	return &pb.Node{
		Name:        fmt.Sprintf("node-%04d", i),
		Labels:      []*pb.Label{{Key: "zone", Value: fmt.Sprintf("z%d", i%3)}},
		Allocatable: &pb.Resources{MilliCpu: int64(2000 + 1000*(i%5)), MemoryBytes: int64(4+i%7) * gib},
		AllowedPods: 110,
	}
}

// setNode makes a row.
func setNode(row uint32, n *pb.Node) *pb.Delta {
	return &pb.Delta{Row: row, Change: &pb.Delta_SetNode{SetNode: n}}
}

// addPod puts a pod on a row.
func addPod(row uint32, milliCPU int64) *pb.Delta {
	return &pb.Delta{Row: row, Change: &pb.Delta_AddPod{AddPod: &pb.PodUsage{
		Requests:           &pb.Resources{MilliCpu: milliCPU, MemoryBytes: gib},
		NonZeroMilliCpu:    milliCPU,
		NonZeroMemoryBytes: gib,
	}}}
}

// query is a class that asks for cpu and prefers zone z1.
func query(id uint64, milliCPU int64) *pb.Query {
	scored := []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: milliCPU}, {Name: "memory", Weight: 1, Request: gib}}
	return &pb.Query{
		ClassId: id,
		Filters: []pb.Plugin{pb.Plugin_PLUGIN_TAINT_TOLERATION, pb.Plugin_PLUGIN_NODE_AFFINITY, pb.Plugin_PLUGIN_NODE_RESOURCES_FIT},
		Scores: []*pb.ScoreWeight{
			{Plugin: pb.Plugin_PLUGIN_TAINT_TOLERATION, Weight: 3},
			{Plugin: pb.Plugin_PLUGIN_NODE_AFFINITY, Weight: 2},
			{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, Weight: 1},
			{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION, Weight: 1},
		},
		NodeAffinity: &pb.NodeAffinityQuery{Preferred: []*pb.PreferredTerm{{Weight: 10, Term: &pb.SelectorTerm{
			Labels: []*pb.LabelRequirement{{Key: "zone", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_IN, Values: []string{"z1"}}},
		}}}},
		Fit: &pb.FitQuery{
			Requests:    &pb.Resources{MilliCpu: milliCPU, MemoryBytes: gib},
			ScoringType: pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED,
			Scored:      scored,
		},
		Balanced: &pb.BalancedQuery{Scored: scored},
	}
}

// rig is a worker with a client, and a coordinator's tables beside it.
type rig struct {
	t        *testing.T
	server   *worker.Server
	client   pb.WorkerServiceClient
	conn     *grpc.ClientConn
	registry *prometheus.Registry
	tables   map[uint32]*scorer.Table
	term     uint64
}

// newRig starts a worker; cfg's registerer is the rig's.
func newRig(t *testing.T, cfg worker.Config) *rig {
	t.Helper()
	r := &rig{t: t, registry: prometheus.NewRegistry(), tables: map[uint32]*scorer.Table{}, term: 7}
	cfg.Cluster, cfg.Registerer = "blue", r.registry
	r.server = worker.New(cfg)
	l := bufconn.Listen(1 << 20)
	g := grpc.NewServer()
	r.server.Register(g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///worker", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		<-served
	})
	r.client, r.conn = pb.NewWorkerServiceClient(conn), conn
	return r
}

// health is a client of the worker's health.
func (r *rig) health() healthpb.HealthClient { return healthpb.NewHealthClient(r.conn) }

// fill makes a shard of n nodes at the coordinator.
func (r *rig) fill(shard uint32, n int) {
	r.t.Helper()
	r.tables[shard] = scorer.NewTable(shard)
	for i := range n {
		r.apply(shard, setNode(uint32(i), node(i+1000*int(shard))))
	}
}

// apply changes a shard at the coordinator and returns the deltas.
func (r *rig) apply(shard uint32, deltas ...*pb.Delta) []*pb.Delta {
	r.t.Helper()
	for _, d := range deltas {
		if err := r.tables[shard].Apply(d); err != nil {
			r.t.Fatalf("apply to shard %d: %v", shard, err)
		}
	}
	return deltas
}

// load sends shards as they are at the coordinator.
func (r *rig) load(shards ...uint32) {
	r.t.Helper()
	for _, shard := range shards {
		if _, err := r.send(r.snapshot(shard)...); err != nil {
			r.t.Fatalf("load shard %d: %v", shard, err)
		}
	}
}

// snapshot is a shard in chunks of ten rows.
func (r *rig) snapshot(shard uint32) []*pb.LoadSnapshotRequest {
	t := r.tables[shard]
	chunks := []*pb.LoadSnapshotRequest{{Header: &pb.SnapshotHeader{Cluster: "blue", Rules: scan.Rules(), Term: r.term, Shard: shard, Generation: t.Generation()}}}
	n := 0
	t.Snapshot(func(row *pb.SnapshotRow) bool {
		if n++; n%10 == 0 {
			chunks = append(chunks, &pb.LoadSnapshotRequest{})
		}
		last := chunks[len(chunks)-1]
		last.Rows = append(last.Rows, row)
		return true
	})
	return chunks
}

// send streams chunks.
func (r *rig) send(chunks ...*pb.LoadSnapshotRequest) (*pb.LoadSnapshotResponse, error) {
	r.t.Helper()
	stream, err := r.client.LoadSnapshot(r.t.Context())
	if err != nil {
		return nil, err
	}
	for _, c := range chunks {
		if stream.Send(c) != nil {
			break
		}
	}
	return stream.CloseAndRecv()
}

// at names shards at the coordinator's generations, without deltas.
func (r *rig) at(shards ...uint32) []*pb.ShardDeltas {
	out := make([]*pb.ShardDeltas, len(shards))
	for i, s := range shards {
		g := r.tables[s].Generation()
		out[i] = &pb.ShardDeltas{Shard: s, BaseGeneration: g, Generation: g}
	}
	return out
}

// after names a shard with deltas that follow a generation.
func after(shard uint32, base uint64, deltas ...*pb.Delta) *pb.ShardDeltas {
	return &pb.ShardDeltas{Shard: shard, BaseGeneration: base, Generation: base + uint64(len(deltas)), Deltas: deltas}
}

// request asks for the classes of queries, which it defines.
func (r *rig) request(shards []*pb.ShardDeltas, queries ...*pb.Query) *pb.EvaluateRequest {
	req := &pb.EvaluateRequest{Cluster: "blue", Rules: scan.Rules(), Term: r.term, Shards: shards, Queries: queries}
	for _, q := range queries {
		req.Classes = append(req.Classes, &pb.ClassRequest{ClassId: q.GetClassId(), Diagnose: true})
		req.Candidates = append(req.Candidates, 5)
	}
	return req
}

// evaluate sends a request that has to be answered somehow.
func (r *rig) evaluate(req *pb.EvaluateRequest) *pb.EvaluateResponse {
	r.t.Helper()
	resp, err := r.client.Evaluate(r.t.Context(), req)
	if err != nil {
		r.t.Fatalf("evaluate: %v", err)
	}
	return resp
}

// wantRight checks that the answer is what the coordinator's own tables say.
func (r *rig) wantRight(req *pb.EvaluateRequest, resp *pb.EvaluateResponse, queries ...*pb.Query) {
	r.t.Helper()
	if err := resp.Validate(); err != nil {
		r.t.Errorf("the answer is not valid: %v", err)
	}
	want := &pb.EvaluateResponse{}
	for _, q := range queries {
		class, err := scorer.NewClass(q)
		if err != nil {
			r.t.Fatalf("class: %v", err)
		}
		var result scorer.Result
		result.Reset(class.ID(), 5)
		for _, s := range req.GetShards() {
			scorer.NewEvaluator(nil).Evaluate(r.tables[s.GetShard()], class, scorer.Options{Candidates: 5, Diagnose: true}, &result)
		}
		var shards []uint32
		for _, s := range req.GetShards() {
			shards = append(shards, s.GetShard())
		}
		result.AppendTo(want, slices.Sorted(slices.Values(shards)))
	}
	if diff := cmp.Diff(want, resp, protocmp.Transform(), protocmp.IgnoreFields(&pb.ClassResult{}, "passes"),
		protocmp.IgnoreFields(&pb.EvaluateResponse{}, "passes", "busy_nanos", "failed_classes")); diff != "" {
		r.t.Errorf("results (-own tables +worker):\n%s", diff)
	}
}

// wantNeeds checks that the answer holds no results and names what is missing.
func (r *rig) wantNeeds(resp *pb.EvaluateResponse, shards []uint32, classes []uint64) {
	r.t.Helper()
	if len(resp.GetResults()) > 0 || !slices.Equal(resp.GetNeedSnapshots(), shards) || !slices.Equal(resp.GetNeedClasses(), classes) {
		r.t.Fatalf("got %d results, need snapshots %v and classes %v; want none, %v and %v",
			len(resp.GetResults()), resp.GetNeedSnapshots(), resp.GetNeedClasses(), shards, classes)
	}
}

// metric is the sum of a metric's series that carry the given label values.
func (r *rig) metric(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			have := map[string]bool{}
			for _, l := range m.GetLabel() {
				have[l.GetValue()] = true
			}
			if slices.ContainsFunc(labels, func(l string) bool { return !have[l] }) {
				continue
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// wantMetric checks a metric.
func (r *rig) wantMetric(want float64, name string, labels ...string) {
	r.t.Helper()
	if got := r.metric(name, labels...); got != want {
		r.t.Errorf("metric %s%v: got %v, want %v", name, labels, got, want)
	}
}
