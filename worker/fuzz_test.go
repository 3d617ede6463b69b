package worker_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
	"github.com/shardsched/shardsched/worker"
)

// FuzzEvaluate sends whatever decodes to a worker that holds a shard: it answers
// with something valid, or refuses the request as the sender's fault.
func FuzzEvaluate(f *testing.F) {
	seed := func(m proto.Message) []byte {
		bytes, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return bytes
	}
	req := &pb.EvaluateRequest{
		Cluster: "blue", Rules: scan.Rules(), Term: 7, Queries: []*pb.Query{query(1, 500)},
		Shards:  []*pb.ShardDeltas{after(0, 0, setNode(0, node(1)), addPod(0, 100))},
		Classes: []*pb.ClassRequest{{ClassId: 1, Diagnose: true}}, Candidates: []uint32{3},
		Preemptions: []*pb.PreemptionRequest{{
			ClassId: 1, Priority: 5, NowMicros: 3, Candidates: 2, Budgets: []*pb.Budget{{Id: 1, Allowed: 1}},
			SkipShards: []uint32{0}, SkipRows: []uint32{5},
		}},
	}
	full := addPod(0, 2000)
	full.Pod = &pb.PlacedPod{Number: 1, Budgets: []uint32{1}}
	req.Shards[0].Deltas = append(req.Shards[0].Deltas, full)
	req.Shards[0].Generation++
	f.Add(seed(&pb.LoadSnapshotRequest{Rows: []*pb.SnapshotRow{{Row: 0, Node: node(1)}}}), seed(req))
	req.Shards[0] = after(0, 0)
	f.Add(seed(&pb.LoadSnapshotRequest{Rows: []*pb.SnapshotRow{{Row: 2, Node: node(1)}, {Row: 70, Node: node(2)}}}), seed(req))
	f.Add(seed(&pb.LoadSnapshotRequest{
		Rows: []*pb.SnapshotRow{{
			Row: 2, Node: node(1), Totals: &pb.NodeTotals{Pods: 1, Requested: &pb.Resources{MilliCpu: 2900}},
			Pods: []*pb.PlacedPod{{Number: 4, UsageRef: 1}},
		}},
		Usages: []*pb.PodUsage{{Requests: &pb.Resources{MilliCpu: 2900}}},
	}), seed(req))
	f.Add([]byte(nil), []byte("\xff"))
	f.Fuzz(func(t *testing.T, snapshot, request []byte) {
		var chunk pb.LoadSnapshotRequest
		var req pb.EvaluateRequest
		if proto.Unmarshal(snapshot, &chunk) != nil || proto.Unmarshal(request, &req) != nil {
			return
		}
		r := newRig(t, worker.Config{Cores: 1})
		chunk.Header = &pb.SnapshotHeader{Cluster: "blue", Rules: scan.Rules(), Term: 7}
		if _, err := r.send(&chunk); err != nil {
			wantFault(t, err)
		}
		req.Rules = scan.Rules()
		resp, err := r.server.Evaluate(context.Background(), &req)
		if err != nil {
			wantFault(t, err)
			return
		}
		if err := resp.Validate(); err != nil {
			t.Fatalf("the answer is not valid: %v", err)
		}
	})
}

// wantFault checks that an error is the sender's.
func wantFault(t *testing.T, err error) {
	t.Helper()
	switch status.Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.ResourceExhausted:
	default:
		t.Fatalf("got %v, want the sender's fault", err)
	}
}
