package coordinator

import (
	"fmt"
	"hash/fnv"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// drawnCluster is nodes with zones, taints and load, and pods that spread, prefer and repel.
func drawnCluster(t *rapid.T) ([]*v1.Node, []*v1.Pod, []*v1.Pod) {
	var nodes []*v1.Node
	var there, waiting []*v1.Pod
	for i := range rapid.IntRange(1, 9).Draw(t, "nodes") {
		name := fmt.Sprint("n", i)
		n := build.Node(name).CPU("8").Memory("32Gi").Label("zone", fmt.Sprint("z", rapid.IntRange(0, 2).Draw(t, "zone"))).Label("kubernetes.io/hostname", name).Obj()
		if rapid.Bool().Draw(t, "tainted") {
			n.Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectPreferNoSchedule}}
		}
		nodes = append(nodes, n)
		for k := range rapid.IntRange(0, 2).Draw(t, "pods") {
			p := build.Pod(fmt.Sprintf("on-%s-%d", name, k)).UID(fmt.Sprintf("on-%s-%d", name, k)).CPU("1").Label("app", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app")).Node(name).Obj()
			there = append(there, p)
		}
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "waiting") {
		p := cores(fmt.Sprint("p", i), rapid.SampledFrom([]string{"1", "2", "4"}).Draw(t, "cpu"))
		p.Labels = map[string]string{"app": "a"}
		if rapid.Bool().Draw(t, "spreads") {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: rapid.SampledFrom([]string{"zone", "kubernetes.io/hostname"}).Draw(t, "key"),
				WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: build.Selector("app=a"),
			}}
		}
		if rapid.Bool().Draw(t, "prefers") {
			p.Spec.Affinity = build.Pod("x").Preferred(int32(rapid.IntRange(1, 100).Draw(t, "weight")), build.Labels(build.Match("zone", v1.NodeSelectorOpIn, "z1"))).Obj().Spec.Affinity
		}
		waiting = append(waiting, p)
	}
	return nodes, there, waiting
}

// decisionsOf are a scheduler's, by pod, once it has tried all.
func decisionsOf(t *rapid.T, cfg SchedulerConfig, all *objects.Snapshot) map[string]*pb.Decision {
	s, err := NewScheduler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Load(all, nil)
	out := map[string]*pb.Decision{}
	ctx := s.life
	for {
		s.inbox.drain(never)
		pods := s.queue.PopBatch(s.cfg.BatchSize, nil)
		if len(pods) == 0 {
			break
		}
		before := slices.Clone(pods)
		s.schedule(ctx, pods)
		for _, p := range before {
			if d := s.history.Last(p.Obj.UID); d != nil {
				out[p.Obj.Name] = d
			}
			if p.Place() == queue.Backoff {
				s.queue.Delete(p.Obj.UID)
			}
		}
	}
	return out
}

func hashed(text string, n uint32) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32() % n
}

// What plugins refuse is as if the nodes were closed: scores are normalised over those that are left,
// and the plugins' own scores are added to them.
func TestTotalsOverTheRowsThatAreLeft(t *testing.T) {
	g := newTestPlugin()
	configure := withPlugins(t, "", g)
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.StringN(1, 4, 8).Draw(t, "seed")
		refuses := func(node string) bool { return hashed(seed+node, 3) == 0 }
		g.fits, g.score = nil, nil
		g.fits = func(node string) *fwk.Status {
			if refuses(node) {
				return no("not here")
			}
			return nil
		}
		nodes, there, waiting := drawnCluster(t)
		p := waiting[0]
		cfg := SchedulerConfig{Cluster: "test", Term: 1, Shards: rapid.IntRange(1, 3).Draw(t, "shards")}
		plain := cfg
		configure(&cfg)
		got := decisionsOf(t, cfg, &objects.Snapshot{Nodes: nodes, Pods: append(slices.Clone(there), p.DeepCopy())})[p.Name]
		var closed []*v1.Node
		for _, n := range nodes {
			n = n.DeepCopy()
			n.Spec.Unschedulable = refuses(n.Name)
			closed = append(closed, n)
		}
		want := decisionsOf(t, plain, &objects.Snapshot{Nodes: closed, Pods: append(slices.Clone(there), p.DeepCopy())})[p.Name]
		if got.Node != want.Node || got.Score != want.Score || got.Feasible != want.Feasible {
			t.Fatalf("got %s with %d of %d, want %s with %d of %d", got.Node, got.Score, got.Feasible, want.Node, want.Score, want.Feasible)
		}
		// A node that the plugin scores so that it comes out on top has the total that it would
		// have as the choice of nobody: its own part, and the plugin's.
		if want.Feasible < 2 {
			return
		}
		favourite := rapid.SampledFrom(nodes).Draw(t, "favourite").Name
		g.score = func(node string) int64 {
			if node == favourite {
				return 100
			}
			return 0
		}
		again := decisionsOf(t, cfg, &objects.Snapshot{Nodes: nodes, Pods: append(slices.Clone(there), p.DeepCopy())})[p.Name]
		own := again.Score
		if again.Node == favourite {
			own -= 100
		}
		if own > want.Score || again.Node != favourite && (again.Node != want.Node || own != want.Score) {
			t.Fatalf("with 100 for %s: got %s with %d, where %s has %d without", favourite, again.Node, again.Score, want.Node, want.Score)
		}
	})
}
