package conformance

import (
	"testing"

	"k8s.io/klog/v2"
)

// Pod groups: gangs of one class and of several, of which all have to fit or fewer, in domains and without, with spread, affinity,
// devices, host ports, gates and priorities, some of whom have pods of lower priority leave, for a member or for the pod group as a whole,
// or have room held for them. Small clusters are short of room.
func TestRandomGroups(t *testing.T) {
	const seeds, nodes = 130, 14
	var all Result
	for seed := uint64(1); seed <= seeds && !t.Failed(); seed++ {
		r, err := Run(klog.NewContext(t.Context(), klog.Logger{}), Random(seed, nodes, []Family{Groups}), SplitOf(seed))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, d := range r.Differences {
			t.Errorf("seed %d: %s", seed, d)
		}
		all.Add(r)
	}
	if !t.Failed() && (all.Gangs < 1000 || all.Started < 400 || all.Held < 300 || all.Waiting < 15 || all.GroupPreemptions < 8 ||
		all.Reservations < 20) {
		t.Errorf("got %d attempts at pod groups, of which %d placed members, %d members held back, %d attempts that have pods leave, %d that "+
			"have them leave for the pod group as a whole, and %d after which room is held, want 1000, 400, 300, 15, 8 and 20 or more",
			all.Gangs, all.Started, all.Held, all.Waiting, all.GroupPreemptions, all.Reservations)
	}
	t.Logf("%v", &all)
}
