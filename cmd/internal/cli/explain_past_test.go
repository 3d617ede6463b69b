package cli

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestHistoryTellsWhoIsPutOut(t *testing.T) {
	for want, d := range map[string]*pb.Decision{
		"on n1, score 7":                     {Node: "n1", Score: 7},
		"nowhere":                            {},
		"nominated to n1":                    {Nominated: "n1"},
		"nominated to n1, preempts a/x, a/y": {Nominated: "n1", Victims: []string{"a/x", "a/y"}},
		"nominated to n1, preempts 1, 2, 3 and 2 more": {Nominated: "n1", Victims: []string{"1", "2", "3", "4", "5"}},
	} {
		var b strings.Builder
		explainHistory(&b, []*pb.PastDecision{{Decision: d}})
		if !strings.Contains(b.String(), "  "+want+"  ") {
			t.Errorf("got %q, want %q in it", b.String(), want)
		}
	}
}

// What plugins and extenders added and refused is told of the last decision, and adds up to its score.
func TestHistoryTellsWhatReviewersSaid(t *testing.T) {
	score := int64(1000)
	var b strings.Builder
	explainHistory(&b, []*pb.PastDecision{{Decision: &pb.Decision{Seq: 3, Node: "n1", Score: 1463, Feasible: 1, Nodes: 9}, Reviews: []*pb.Review{
		{Reviewer: "plugin Maintenance", Score: &score, Refusals: []*pb.Refusal{{Reason: "too soon", Nodes: 4, Examples: []string{"n2", "n3", "n4"}}}, LeftOut: 1},
		{Reviewer: "extender http://gpu", Refusals: []*pb.Refusal{{Nodes: 3, Examples: []string{"n6", "n7", "n8"}}}},
	}}})
	_, got, _ := strings.Cut(b.String(), "\n\n")
	want := `Out-of-tree plugins and extenders when decision 3 was made:
  WHO                   SCORE OF n1  REFUSED NODES  WHY                  WHICH
  the built-in plugins  463
  plugin Maintenance    1000         4              too soon             n2, n3, n4 and 1 more
                                     1              (further reasons)
  extender http://gpu                3              (no reason given)    n6, n7, n8

`
	if squeeze(got) != squeeze(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// squeeze leaves one blank between words.
func squeeze(text string) (out string) {
	for _, line := range strings.Split(text, "\n") {
		out += strings.Join(strings.Fields(line), " ") + "\n"
	}
	return out
}

// Where no decision is remembered, what the pod's object and the term tell is told.
func TestHowAPodCameToItsNode(t *testing.T) {
	at := func(second int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(second, 0)) }
	for want, a := range map[string]*pb.Arrival{
		": not a decision of the present leader (an earlier one's, another scheduler's, or its kubelet's own)": nil,
		" since 1970-01-01T00:00:10Z: decided by vm_a, which led before (that leader's memory is gone; the score is not known)": {
			Time: at(10), DecidedBy: "vm_a", LeadingSince: at(20), LeaderBefore: "vm_b"},
		" since 1970-01-01T00:00:30Z: decided by vm_a (which does not remember it any more; the score is not known)": {
			Time: at(30), DecidedBy: "vm_a", LeadingSince: at(20)},
		" since 1970-01-01T00:00:10Z, before the present leader led (since 1970-01-01T00:00:20Z): an earlier leader's (the last was vm_b) decision, another scheduler's, or its kubelet's own": {
			Time: at(10), LeadingSince: at(20), LeaderBefore: "vm_b"},
		" since 1970-01-01T00:00:30Z: not a decision of the present leader (an earlier one's, another scheduler's, or its kubelet's own)": {
			Time: at(30), LeadingSince: at(20)},
	} {
		if got := standing(&pb.ExplainResponse{Node: "n", Arrival: a}); got != "is on n"+want {
			t.Errorf("got  %s\nwant is on n%s", got, want)
		}
	}
}
