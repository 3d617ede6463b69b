package answers

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// However many nodes a reviewer refuses, and for however many reasons: what is told is bounded, and all nodes are counted.
func TestRefusalsAreBounded(t *testing.T) {
	var x Refusals
	for i := range 1000 {
		x.Add(fmt.Sprint("n", i), "busy")
		x.Add(fmt.Sprint("m", i), fmt.Sprint("until ", i), strings.Repeat("é", toldReasonBytes))
	}
	x.AddNodes(7, "left out")
	x.AddNodes(3, "busy")
	out := &pb.Review{}
	x.Tell(out)
	if len(out.Refusals) != toldReasons || out.Refusals[0].Reason != "busy" || out.Refusals[0].Nodes != 1003 ||
		strings.Join(out.Refusals[0].Examples, " ") != "n0 n1 n2" {
		t.Errorf("got %v, want %d reasons, busy first", out.Refusals, toldReasons)
	}
	total := int(out.LeftOut)
	for _, r := range out.Refusals {
		total += int(r.Nodes)
		if len(r.Reason) > toldReasonBytes+len("…") || !utf8.ValidString(r.Reason) || len(r.Examples) > toldExamples {
			t.Errorf("got reason %q with %d examples, want it cut", r.Reason, len(r.Examples))
		}
	}
	if total != 2010 {
		t.Errorf("got %d nodes, want 2010", total)
	}
	var silent Refusals
	silent.Add("n")
	silent.Tell(out)
	if len(out.Refusals) != 1 || out.Refusals[0].Reason != "" || out.Refusals[0].Nodes != 1 || out.LeftOut != 0 {
		t.Errorf("no reason: got %v", out)
	}
}
