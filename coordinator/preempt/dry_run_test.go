package preempt

import (
	"testing"

	"github.com/shardsched/shardsched/scorer"
)

// Many classes that preempt cost others no dry run that goes on to serve them.
func TestADryRunThatServesIsKept(t *testing.T) {
	f := NewFinder(Config{})
	serving := &dryRun{key: dryRunKey{class: 1}}
	f.keep(serving)
	for i := range 3 * maxDryRuns {
		f.keep(&dryRun{key: dryRunKey{class: uint64(i + 2)}})
		if f.kept[serving.key] != serving || len(f.kept) > maxDryRuns {
			t.Fatalf("after %d others: got %d dry runs kept, that which serves among them: %v", i+1, len(f.kept), f.kept[serving.key] != nil)
		}
		f.serve(serving)
	}
	if len(f.kept) != maxDryRuns {
		t.Errorf("got %d dry runs kept, want %d", len(f.kept), maxDryRuns)
	}
}

func TestTheSumOfADryRunIsWithoutCandidates(t *testing.T) {
	found := func(tried, refused int) scorer.PreemptionResult {
		var r scorer.PreemptionResult
		r.Reset(1, 8)
		r.Tried, r.Candidates = tried, make([]scorer.PreemptionCandidate, 2)
		r.AddReason(scorer.Reason{Plugin: "p", Text: "no"}, refused)
		return r
	}
	all := found(5, 3)
	d := &dryRun{found: &all}
	got := d.sum([]*triedRow{{result: found(1, 1)}, {result: found(1, 1)}})
	if got.Tried != 7 || len(got.Candidates) != 0 || len(got.Reasons) != 1 || got.Reasons[0].Nodes != 5 {
		t.Errorf("got %+v, want 7 tried, no candidates, one reason for 5", got)
	}
}
