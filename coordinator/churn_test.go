//go:build !race

package coordinator

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// heap is what is in use once garbage is collected.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// wordy is a pod of some bytes that no other pod has.
func wordy(name string, bytes int) *build.PodBuilder {
	const long = 60
	values := make([]string, bytes/long)
	for i := range values {
		values[i] = fmt.Sprintf("%-*s", long, fmt.Sprintf("%s-%d", name, i))
		values[i] = strings.ReplaceAll(values[i], " ", "x")
	}
	return build.Pod(name).CPU("1m").Required(build.Labels(build.Match("zone", v1.NodeSelectorOpNotIn, values...)))
}

// TestChurnedPodsLeaveNothing creates, tries and deletes pods that are each of their own: large ones, and many that
// are just small enough to be kept. Half of them are placed, half fit nowhere.
func TestChurnedPodsLeaveNothing(t *testing.T) {
	for name, churned := range map[string]struct{ pods, bytes int }{
		"200 pods of 1 MB":     {200, 1 << 20},
		"2,000 pods of 12 KiB": {2000, 12 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			now := epoch
			x := newTrial(t, SchedulerConfig{Shards: 2, Now: func() time.Time { return now }}, 0)
			t.Cleanup(x.fanout.Close)
			x.Load(&objects.Snapshot{Nodes: nodesOf("64", "a", "b", "c")}, nil)
			churn := func(i int) {
				p := wordy(fmt.Sprint("p", i), churned.bytes)
				if i%2 == 0 {
					p.CPU("1000")
				}
				x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p.Obj()})
				x.turn(t)
				x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: p.Obj()})
				x.turn(t)
			}
			churn(0)
			before := heap()
			for i := range churned.pods {
				churn(i + 1)
			}
			after := heap()
			for range 100 {
				now = now.Add(sweepEvery)
				x.sweep(now)
			}
			later := heap()
			if most := int64(2<<10) * int64(churned.pods); later-before > most { // decisions are logged
				t.Errorf("after a while: got %d bytes more than before, want %d at most", later-before, most)
			}
			if most := int64(64 << 20); after-before > most {
				t.Errorf("at once: got %d bytes more than before, want %d at most", after-before, most)
			}
			runtime.KeepAlive(x)
		})
	}
}
