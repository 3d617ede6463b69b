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
