package nodefit

import (
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestWhatAnExplanationSaysOfANode(t *testing.T) {
	verdict := func(v *pb.NodeVerdict) []*pb.NodeVerdict { return []*pb.NodeVerdict{v} }
	scored := &pb.NodeVerdict{Scored: &pb.ScoredNode{}}
	for _, c := range []struct {
		e    *pb.ExplainResponse
		want string
	}{
		{&pb.ExplainResponse{Verdicts: verdict(scored)}, "fits"},
		{&pb.ExplainResponse{Verdicts: verdict(scored), NotAsked: []string{"plugin X", "extender Y"}}, "passes the built-in filters; not asked: plugin X, extender Y"},
		{&pb.ExplainResponse{Verdicts: verdict(&pb.NodeVerdict{Note: "there is no such node"})}, "there is no such node"},
		{&pb.ExplainResponse{Verdicts: verdict(&pb.NodeVerdict{Refused: &pb.RefusedNode{Plugin: "A", Reasons: []string{"r"}, Shortfalls: []string{"s", "t"}}})}, "A: s, t"},
		{&pb.ExplainResponse{Verdicts: verdict(&pb.NodeVerdict{Refused: &pb.RefusedNode{Plugin: "A", Reasons: []string{"r"}}})}, "A: r"},
		{&pb.ExplainResponse{Causes: []*pb.Cause{{Plugin: "V", Cause: "no volume", Detail: "of class x"}}}, "V: no volume (of class x)"},
		{&pb.ExplainResponse{Note: "gated"}, "it was not judged: gated"},
	} {
		x := Fit{Example: "shop/web-0"}
		x.Take(c.e)
		if got := x.Verdict(); got != c.want || x.Fits() != (c.want == "fits") {
			t.Errorf("%v: got %q, fits: %v; want %q", c.e, got, x.Fits(), c.want)
		}
		if q := x.Request("n1"); q.Namespace != "shop" || q.Name != "web-0" || q.NodeNames[0] != "n1" {
			t.Errorf("got the request %v", q)
		}
	}
}

func TestWorkloadsOfMostPodsAreHeldAgainstANode(t *testing.T) {
	pending := &pb.ListPendingResponse{Groups: []*pb.PendingGroup{
		{Kind: "Job", Namespace: "a", Name: "x", Pods: 3, Example: "a/x-1"}, {Kind: "Job", Namespace: "a", Name: "x", Pods: 2, Example: "a/x-2"}, {Pods: 9, Example: "b/y"},
	}}
	for i := range Most {
		pending.Groups = append(pending.Groups, &pb.PendingGroup{Kind: "Pod", Namespace: "c", Name: string(rune('a' + i)), Pods: 1})
	}
	fits, left := Candidates(pending)
	if len(fits) != Most || left != 2 || fits[0].Workload != "Job a/x" || fits[0].Pods != 5 || fits[0].Example != "a/x-1" || fits[1].Workload != "(several)" {
		t.Errorf("got %v and %d more, want %d: Job a/x of 5 pods, then several, and 2 more", fits, left, Most)
	}
}
