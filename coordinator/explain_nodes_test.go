package coordinator

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// verdictLines words the verdicts of an explanation.
func verdictLines(out *pb.ExplainResponse) []string {
	var lines []string
	for _, v := range out.Verdicts {
		switch {
		case v.Scored != nil:
			lines = append(lines, fmt.Sprintf("%s scores %d, by %d plugins", v.Node, v.Scored.Score, len(v.Scored.Plugins)))
		case v.Refused != nil:
			lines = append(lines, fmt.Sprintf("%s refused by %s: %v %v", v.Node, v.Refused.Plugin, v.Refused.Reasons, v.Refused.Shortfalls))
		default:
			lines = append(lines, v.Node+": "+v.Note)
		}
	}
	return lines
}

func TestVerdictsOfNodes(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{
			build.Node("big").CPU("8").Memory("8Gi").Obj(), build.Node("large").CPU("8").Memory("8Gi").Obj(),
			build.Node("small").CPU("1").Memory("8Gi").Obj(), build.Node("tainted").CPU("8").Memory("8Gi").Taint("k=v:NoSchedule").Obj(),
		},
		Pods: []*v1.Pod{build.Pod("p").CPU("2").Memory("1Gi").Obj(), build.Pod("huge").CPU("100").Obj()},
	}, nil)
	explain := func(req *pb.ExplainRequest) *pb.ExplainResponse {
		t.Helper()
		req.Namespace = "default"
		out, err := x.explainNow(req)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	wantLines(t, "two nodes and one that is not", verdictLines(explain(&pb.ExplainRequest{Name: "p", NodeNames: []string{"tainted", "big", "none"}})),
		"big scores 452, by 4 plugins", "none: there is no such node", "tainted refused by TaintToleration: [node(s) had untolerated taint(s)] [taint k=v:NoSchedule is not tolerated]")
	wantLines(t, "all nodes", verdictLines(explain(&pb.ExplainRequest{Name: "p", AllNodes: true})),
		"big scores 452, by 0 plugins", "large scores 452, by 0 plugins",
		"small refused by NodeResourcesFit: [Insufficient cpu] [cpu: short by 1, too small even when empty (2 > 1)]", "tainted refused by TaintToleration: [node(s) had untolerated taint(s)] [taint k=v:NoSchedule is not tolerated]")
	wantLines(t, "none", verdictLines(explain(&pb.ExplainRequest{Name: "p"})))

	x.turn(t)
	out := explain(&pb.ExplainRequest{Name: "huge"})
	wantLines(t, "what it waits for", []string{out.Waits.GetPlugins()[0].Plugin, out.Waits.GetPlugins()[1].Plugin}, "NodeResourcesFit", "TaintToleration")
	if out.Waits.BackoffUntil == nil || out.Waits.TriedAnyway == nil || len(out.History) != 1 || out.History[0].Attempt != 1 {
		t.Errorf("got waits %v, history %v; want a backoff, a time, one decision", out.Waits, out.History)
	}
	placed := explain(&pb.ExplainRequest{Name: "p"})
	if len(placed.History) != 1 || len(placed.History[0].Top) != 2 || placed.Waits != nil {
		t.Fatalf("got history %v, waits %v; want one decision with 2 nodes, none", placed.History, placed.Waits)
	}
	if top := placed.History[0].Top[0]; top.Node != placed.Node || !top.Chosen || top.Score != placed.Decision.Score {
		t.Errorf("got the best node %v, want the chosen one with its score: %v", top, placed.Decision)
	}
}
