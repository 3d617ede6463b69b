//go:build !race

package coordinator

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// TestPlacingAPodAllocatesLittle holds what a pod costs from when it waits to when it is gone, in a profile and a
// cluster in which nothing else matters.
func TestPlacingAPodAllocatesLittle(t *testing.T) {
	s, err := NewScheduler(SchedulerConfig{Cluster: "test", Term: 1, Shards: 1, QueueNow: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	s.Load(&objects.Snapshot{Nodes: nodesOf("64", "n", "o", "p")}, nil)
	const batch, most = 64, 42
	n := 0
	all := testing.AllocsPerRun(20, func() {
		for range batch {
			n++
			s.queue.Add(cores(fmt.Sprint("p", n), "10m"))
		}
		s.schedule(s.life, s.queue.PopBatch(batch, nil))
		for i := range batch {
			s.podGone(cores(fmt.Sprint("p", n-i), "10m"))
			s.history.Forget(types.UID(fmt.Sprint("p", n-i)))
		}
	})
	if a := all / batch; a > most { // 41 today
		t.Errorf("got %v allocations for a pod that is placed, want %d or less", a, most)
	}
}
