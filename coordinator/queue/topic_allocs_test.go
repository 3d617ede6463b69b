//go:build !race

package queue

import (
	"testing"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// TestPodThatIsPlacedCostsWaitingPodsOfOtherPluginsNothing holds that the topics of an event are worked out only
// for plugins that have rejected somebody: each pod that is placed is such an event.
func TestPodThatIsPlacedCostsWaitingPodsOfOtherPluginsNothing(t *testing.T) {
	now := start
	q := newQueue(&now)
	q.Add(benchPod(0))
	q.Unschedulable(popOne(t, q), []string{"NodeResourcesFit"}, "no")
	placed := AssignedPodAdded(build.Pod("x").Node("n").Label("app", "a").Label("tier", "b").Obj())
	if n := testing.AllocsPerRun(100, func() { q.Move(placed) }); n > 1 { // the event itself
		t.Errorf("an event that no plugin of a waiting pod looks at allocates %v times, want 1", n)
	}
}
