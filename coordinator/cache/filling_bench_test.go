package cache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/selector"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// BenchmarkFillCounter is what the first pod of a workload waits for: a counter of 5,000 of 50,000 pods, each on a node of its
// own, that are found by a label. Pods of a workload have labels and affinity in common, as from kube's source.
func BenchmarkFillCounter(b *testing.B) {
	const pods, apps = 50000, 10
	r := count.New()
	c := New(2)
	c.UseCounters(r)
	order := rand.New(rand.NewPCG(1, 1)).Perm(pods)
	for i := range pods {
		if _, err := c.SetNode(newNode(fmt.Sprint("n", i))); err != nil {
			b.Fatal(err)
		}
	}
	labels, terms := make([]map[string]string, apps), make([]*v1.Affinity, apps)
	for i := range pods {
		name, app := fmt.Sprint("p", i), i%apps
		p := build.Pod(name).UID(name).Label("app", fmt.Sprint("app-", app)).Node(fmt.Sprint("n", order[i])).
			Apart(build.Around(v1.LabelHostname, fmt.Sprint("app=app-", app))).Obj()
		if labels[app] == nil {
			labels[app], terms[app] = p.Labels, p.Spec.Affinity
		}
		p.Labels, p.Spec.Affinity = labels[app], terms[app]
		if _, err := c.SetPod(p); err != nil {
			b.Fatal(err)
		}
	}
	fill := func(i int) uint32 {
		s, err := selector.New(&metav1.LabelSelector{
			MatchLabels:      map[string]string{"app": fmt.Sprint("app-", i%apps)},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "z", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprint(i)}}},
		})
		if err != nil {
			b.Fatal(err)
		}
		id := r.Pods(count.Namespaces{Names: []string{"default"}}, s)
		steps, filled, err := c.FillCounter(id, s.Demands(), []string{"default"}, math.MaxInt)
		if err != nil || !filled || i > 0 && steps != pods/apps {
			b.Fatalf("filled %t from %d pods, %v; want %d", filled, steps, err, pods/apps)
		}
		return id
	}
	ids := []uint32{fill(0)}
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		ids = append(ids, fill(i))
		if len(ids) == apps {
			b.StopTimer()
			r.Drop(ids)
			if err := c.DropCounters(ids); err != nil {
				b.Fatal(err)
			}
			ids = ids[:0]
			b.StartTimer()
		}
	}
}
