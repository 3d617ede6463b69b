package coordinator

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// BenchmarkPlainPodsBesideACarrier decides plain pods of one class in batches of 64, on 5,000 nodes with
// forty labels of random values. A carrier of forty preferred terms about these pods is nowhere, waits or is
// on a node. It tells how many groups the class's answer has.
func BenchmarkPlainPodsBesideACarrier(b *testing.B) {
	const nodes, keys, batch = 5000, 40, 64
	for _, x := range []struct {
		name   string
		values int
		node   string
		carry  bool
	}{
		{"none", 100, "", false},
		{"waits", 100, "", true},
		{"placed", 100, "n7", true},
		{"placed/two values", 2, "n7", true},
	} {
		b.Run(x.name, func(b *testing.B) {
			t := newTrial(b, SchedulerConfig{Shards: 8, BatchSize: batch}, 0)
			defer t.fanout.Close()
			r, all := rand.New(rand.NewPCG(1, 2)), &objects.Snapshot{}
			for i := range nodes {
				n := build.Node(fmt.Sprint("n", i)).CPU("64").Memory("256Gi").Pods("110")
				for k := range keys {
					n.Label(label(k), fmt.Sprint(r.IntN(x.values)))
				}
				all.Nodes = append(all.Nodes, n.Obj())
			}
			if x.carry {
				p := build.Pod("carrier").UID("carrier").CPU("1000").Node(x.node)
				for k := range keys {
					p.PreferNear(int32(1+2*k), build.Around(label(k), "app=web"))
				}
				all.Pods = append(all.Pods, p.Obj())
			}
			t.Load(all, nil)
			t.turn(b)
			web := build.Pod("web").CPU("10m").Memory("10Mi").Label("app", "web").Obj()
			var pods []*v1.Pod
			for i := range b.N + 1 {
				pods = append(pods, copyOf(web, i))
			}
			come := func(pods []*v1.Pod) {
				var events []objects.Event
				for _, p := range pods {
					events = append(events, podCame(p))
				}
				t.Deliver(events)
				t.turn(b)
			}
			come(pods[:1])
			asked := t.asked
			b.ReportAllocs()
			b.ResetTimer()
			for rest := pods[1:]; len(rest) > 0; {
				n := min(batch, len(rest))
				come(rest[:n])
				rest = rest[n:]
			}
			b.ReportMetric(float64(t.answers.Kept().Groups), "groups")
			b.ReportMetric(float64(t.asked-asked)/float64(b.N), "asked/op")
		})
	}
}
