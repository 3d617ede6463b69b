//go:build !race

package coordinator

import (
	"fmt"
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// The pods of a profile without plugins cost as much as if no other profile had any.
func TestGuestsOfAnotherProfileCostNothing(t *testing.T) {
	allocations := func(configure func(*SchedulerConfig)) float64 {
		// With a clock of its own for the queue no batch is cut for the time that it takes.
		cfg := SchedulerConfig{Cluster: "test", Term: 1, Shards: 1, QueueNow: time.Now}
		configure(&cfg)
		s, err := NewScheduler(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.Load(&objects.Snapshot{Nodes: nodesOf("64", "n", "o", "p")}, nil)
		const batch = 16
		n, least := 0, math.Inf(1)
		for range 20 { // what else runs in this process allocates, too
			least = min(least, testing.AllocsPerRun(4, func() {
				for range batch {
					n++
					s.queue.Add(cores(fmt.Sprint("p", n), "10m"))
				}
				pods := s.queue.PopBatch(batch, nil)
				s.schedule(s.life, pods)
				for i := range batch {
					s.podGone(cores(fmt.Sprint("p", n-i), "10m"))
					s.history.Forget(types.UID(fmt.Sprint("p", n-i)))
				}
			}))
		}
		return least
	}
	without := allocations(func(*SchedulerConfig) {})
	g := newTestPlugin()
	hosts := withPlugins(t, "", g)
	with := allocations(func(cfg *SchedulerConfig) {
		hosts(cfg)
		cfg.OutOfTree.Profiles[0].Name = "another"
		cfg.OutOfTree.Environment.Informers = informers.NewSharedInformerFactory(nil, 0) // or else they are fed
	})
	if with > without*1.01+1 {
		t.Errorf("got %v allocations for a batch beside a profile with plugins, want the %v of a scheduler without", with, without)
	}
	if calls := g.take(); len(calls) != 0 {
		t.Errorf("plugins of another profile were called: %q", calls)
	}
}
