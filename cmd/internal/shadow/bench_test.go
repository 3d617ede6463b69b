package shadow

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// BenchmarkJudgement takes in a pod and its bind, and judges it, among 5,000 nodes: ours, or any.
func BenchmarkJudgement(b *testing.B) {
	const nodes = 5000
	for _, agrees := range []bool{true, false} {
		b.Run(map[bool]string{true: "same", false: "lower"}[agrees], func(b *testing.B) {
			all := &objects.Snapshot{}
			for i := range nodes {
				all.Nodes = append(all.Nodes, build.Node(fmt.Sprintf("n%d", i)).CPU("64").Memory("256Gi").Pods("250").
					Zone(fmt.Sprintf("z%d", i%3)).Obj())
			}
			x := newRig(b, all, func(c *MirrorConfig) { c.ToFind = func(string, int) int { return 100 } })
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p := x.comes(build.Pod(fmt.Sprintf("p%d", i)).CPU("1").Memory("4Gi").Label("app", fmt.Sprint(i%10)).Obj())
				x.after(2)
				node := fmt.Sprintf("n%d", i%(nodes/50))
				if agrees {
					j, err := x.scheduler.Judge(b.Context(), p.UID, "", false)
					if err != nil {
						b.Fatal(err)
					}
					node = j.Node
				}
				x.binds(p, node)
				x.now = x.now.Add(-2*time.Second + time.Millisecond)
				x.step(b.Context(), true)
			}
			if a := x.Agreement(); a.Judged < b.N || agrees && a.Judged != a.Pods(Same) {
				b.Errorf("got %v of %d pods", a.Classes, b.N)
			}
		})
	}
}
