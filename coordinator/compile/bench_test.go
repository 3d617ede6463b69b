package compile

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// deployed is a pod as a Deployment makes it: two containers, an init container,
// the tolerations that every pod gets, a node affinity.
func deployed() *v1.Pod {
	return build.Pod("web-5d4f").Label("app", "web").
		Container("app").Image("registry.example.com/web:v3").CPU("500m").Memory("512Mi").
		Container("proxy").Image("registry.example.com/proxy:v1").CPU("100m").Memory("128Mi").
		Init("init", "cpu", "100m", "memory", "64Mi").
		Toleration("node.kubernetes.io/not-ready:NoExecute").
		Toleration("node.kubernetes.io/unreachable:NoExecute").
		NodeSelector("kubernetes.io/os", "linux").
		Required(build.Labels(build.Match("topology.kubernetes.io/zone", v1.NodeSelectorOpIn, "a", "b"))).Obj()
}

func benchmarkInterned(b *testing.B, p *v1.Pod) {
	images := EmptyCluster(still{"registry.example.com/web:v3": 300 * mi})
	c, prof := New(), DefaultProfile("x")
	first, err := c.Class(p, prof, images)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if got, err := c.Class(p, prof, images); got != first || err != nil {
			b.Fatalf("class of an equal pod: want the same object, got another, and error %v", err)
		}
	}
}

// BenchmarkInterned is what every pod of a class but the first costs.
func BenchmarkInterned(b *testing.B) {
	b.Run("bare", func(b *testing.B) { benchmarkInterned(b, build.Pod("p").CPU("1").Memory("1Gi").Obj()) })
	b.Run("deployed", func(b *testing.B) { benchmarkInterned(b, deployed()) })
	b.Run("gpu", func(b *testing.B) {
		benchmarkInterned(b, build.Pod("p").CPU("11900m").Memory("1.5Gi").Request("nvidia.com/gpu", "1").Obj())
	})
}

// BenchmarkClass is what the first pod of a class costs.
func BenchmarkClass(b *testing.B) {
	p, prof, images := deployed(), DefaultProfile("x"), EmptyCluster(still{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New().Class(p, prof, images); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUsage(b *testing.B) {
	p := deployed()
	b.ReportAllocs()
	for b.Loop() {
		Usage(p)
	}
}

func BenchmarkNode(b *testing.B) {
	n := build.Node("a").CPU("96").Memory("768Gi").Resource("nvidia.com/gpu", "8").Zone("z1").
		Label("kubernetes.io/hostname", "a").Label("kubernetes.io/os", "linux").Taint("gpu:NoSchedule")
	for _, name := range []string{"a:v1", "b:v1", "c:v1", "d:v1"} {
		n.Image(100*mi, name, "registry.example.com/"+name)
	}
	var got *pb.Node
	b.ReportAllocs()
	for b.Loop() {
		got = Node(n.Obj())
	}
	if len(got.Images) != 8 {
		b.Errorf("images: want 8, got %d", len(got.Images))
	}
}
