package cli

import (
	"strings"
	"testing"

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
