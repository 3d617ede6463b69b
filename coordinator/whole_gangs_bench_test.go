package coordinator

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// BenchmarkWholeGangs has 64 preemptors come to 5,000 full nodes, each with a pod by itself that leaves and one that stays, all on the own
// tables: without the flag, with it, with a whole gang of 8 pods, and with one that has a pod on every node. "Restarts" has a pod of the
// gang start again before each preemptor.
func BenchmarkWholeGangs(b *testing.B) {
	const nodes, preemptors = 5000, 64
	for _, c := range []struct {
		name     string
		on       bool
		gang     int
		restarts bool
	}{
		{"off", false, nodes, false}, {"on, no gang", true, 0, false}, {"on, a gang of 8", true, 8, false}, {"on, a gang on every node", true, nodes, false},
		{"off, restarts", false, nodes, true}, {"on, a gang of 8, restarts", true, 8, true}, {"on, a gang on every node, restarts", true, nodes, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			x := newTrial(b, SchedulerConfig{
				Shards: 3, Profiles: withPreemption(), Groups: groups.Gates{Workload: true}, WholeGangs: c.on, Evictor: &fakeEvictor{},
			}, 0)
			defer x.fanout.Close()
			x.groups.Set(build.PodGroup("g").Whole().Priority(5).Obj())
			all := &objects.Snapshot{}
			mates := make([]*v1.Pod, nodes)
			for i := range nodes {
				name := fmt.Sprint("n", i)
				all.Nodes = append(all.Nodes, nodesOf("4", name)...)
				low := build.Pod("low" + name).UID("low" + name).CPU("3").Priority(1).Node(name)
				mate := build.Pod("mate" + name).UID("mate" + name).CPU("1").Priority(5).Node(name)
				if i < c.gang {
					mate.Member("g")
				}
				mates[i] = mate.Obj()
				all.Pods = append(all.Pods, low.Obj(), mates[i])
			}
			x.Load(all, nil)
			x.turn(b)
			round := 0
			for b.Loop() {
				round++
				var pods []*v1.Pod
				for i := range preemptors {
					name := fmt.Sprint("p", round, "-", i)
					p := build.Pod(name).UID(name).CPU("3").Priority(10).Obj()
					pods = append(pods, p)
					x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
					if c.restarts {
						mate := mates[0].DeepCopy()
						mate.Status.StartTime = &metav1.Time{Time: epoch.Add(-time.Duration(round*preemptors+i) * time.Second)}
						x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: mate})
						x.turn(b)
					}
				}
				x.turn(b)
				for _, p := range pods {
					x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: p})
				}
				x.log.Reset()
				a := x.cfg.Evictor.(*fakeEvictor)
				if len(a.told) != preemptors {
					b.Fatalf("got %d evictions, want %d", len(a.told), preemptors)
				}
				a.told, a.done = nil, nil
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/preemptors/1000, "µs/preemptor")
			b.ReportMetric(x.counter("shardsched_preemption_dry_runs_total")/float64(b.N), "dry-runs/op")
			b.ReportMetric(x.counter("shardsched_preemption_rows_total")/float64(b.N), "rows/op")
		})
	}
}
