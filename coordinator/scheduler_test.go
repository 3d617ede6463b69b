package coordinator

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func cores(name, cpu string) *v1.Pod {
	p := build.Pod(name).UID(name).CPU(cpu).Obj()
	p.ResourceVersion = "1"
	return p
}

func added(p *v1.Pod) objects.Event {
	return objects.Event{Type: objects.Added, Kind: "Pod", Pod: p}
}

func TestPodsOfOtherSchedulers(t *testing.T) {
	foreign := func(p *v1.Pod) { p.Spec.SchedulerName = "another" }
	ours := func(p *v1.Pod) { p.Spec.SchedulerName = v1.DefaultSchedulerName }
	runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		p := cores("p", "4")
		foreign(p)
		x.deliver(objects.Added, p)
		x.wantPods("ignored while it is pending")
		x.deliver(objects.Added, cores("q", "4"))
		x.confirm(cores("q", "4"), "n")
		x.update(p, "2", ours)
		x.wantPods("given to us", "p unschedulable", "q on n")
		elapse(2 * journalEvery)
		x.update(p, "3", foreign)
		x.wantPods("taken from us", "q on n")
		x.wantNothingOf("p")
		x.deliver(objects.Deleted, cores("q", "4"))
		x.confirm(p, "n")
		x.deliver(objects.Added, cores("r", "1"))
		x.wantPods("what another binds takes room", "p on n", "r unschedulable")
		x.wantMessage("r", "1 Insufficient cpu")
	})
}

// A preferred term that can not be parsed is an error only where nodes are scored.
func TestAPodThatCanNotBeScored(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("4", "n", "m")), nil, func(x *scenario) {
		x.deliver(objects.Added, unreadable("p"))
		x.wantPods("two nodes", "p backoff")
		x.wantMessage("p", "NodeAffinity")
		if err := x.Idle(x.ctx); err != nil {
			t.Errorf("Idle with a pod that has an error of its own: %v", err)
		}
		elapse(time.Minute)
		x.wantPods("a minute later", "p backoff")
		x.deliver(objects.Deleted, nodesOf("4", "m")[0])
		elapse(12 * time.Second)
		x.wantPods("one node", "p promised n")
		x.wantBinds("bound", "p@1 n")
	})
}

func TestAPodThatFitsNowhereIsTriedAgainWhenANodeComes(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("2", "small")), nil, func(x *scenario) {
		for i := range 3 {
			x.deliver(objects.Added, cores(fmt.Sprintf("p%d", i), "4"))
		}
		x.wantPods("before", "p0 unschedulable", "p1 unschedulable", "p2 unschedulable")
		elapse(20 * time.Second)
		x.deliver(objects.Added, nodesOf("3", "still-small")[0])
		x.wantPods("a node that does not help", "p0 unschedulable", "p1 unschedulable", "p2 unschedulable")
		x.deliver(objects.Added, nodesOf("8", "large")[0])
		x.wantPods("a node for two of them", "p0 promised large", "p1 promised large", "p2 unschedulable")
		x.wantMessage("p2", "0/1 nodes are available: 1 Insufficient cpu.") // it was not tried again: there is no room for a third
		grown := nodesOf("4", "small")[0]
		elapse(20 * time.Second)
		x.deliver(objects.Modified, grown)
		x.wantPods("a node that has grown", "p0 promised large", "p1 promised large", "p2 promised small")
	})
}

func TestWithoutAnyNode(t *testing.T) {
	runScenario(t, clusterOf(nil), nil, func(x *scenario) {
		x.deliver(objects.Added, cores("p", "1"))
		x.wantPods("no node", "p backoff")
		x.wantMessage("p", noNodes)
		if err := x.Idle(x.ctx); err != nil {
			t.Errorf("Idle: %v", err)
		}
		x.deliver(objects.Added, nodesOf("4", "n")[0])
		begin := time.Now()
		if err := x.Idle(x.ctx); err != nil {
			t.Errorf("Idle: %v", err)
		}
		x.wantPods("when there is one", "p promised n")
		if waited := time.Since(begin); waited > 2*time.Second {
			t.Errorf("got placed after %v, want no more than its backoff", waited)
		}
	})
}

// Kubernetes fixes these fields when a pod is made; a store of our own lets them change for
// as long as the pod is pending.
func TestAPendingPodIsChangedSoThatItFits(t *testing.T) {
	for name, x := range map[string]struct {
		wrong func(*v1.Pod)
	}{
		"its node selector": {func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "nowhere"} }},
		"its node affinity": {func(p *v1.Pod) {
			p.Spec.Affinity = build.Pod("x").Required(build.Names("nobody")).Obj().Spec.Affinity
		}},
		"its host ports": {func(p *v1.Pod) {
			p.Spec.Containers = build.Pod("x").CPU("1").HostPort("", "", 80).Obj().Spec.Containers
		}},
		"its request":                       {func(p *v1.Pod) { p.Spec.Containers = cores("x", "5").Spec.Containers }},
		"a preference that can not be read": {func(p *v1.Pod) { p.Spec.Affinity = unreadable("x").Spec.Affinity }},
	} {
		t.Run(name, func(t *testing.T) {
			ports := func(name, node string) *v1.Pod {
				return build.Pod(name).UID(name).HostPort("", "", 80).Node(node).Obj()
			}
			runScenario(t, clusterOf(nodesOf("4", "n", "m"), ports("a", "n"), ports("b", "m")), nil, func(s *scenario) {
				p := cores("p", "1")
				x.wrong(p)
				s.deliver(objects.Added, p)
				s.wantBinds("as it is")
				s.update(p, "2", func(p *v1.Pod) { p.Spec = cores("p", "1").Spec })
				elapse(2 * time.Second)
				s.wantBinds("changed", "p@2 n")
			})
		})
	}
}

// unreadable is a pod with a preferred term that can not be parsed.
func unreadable(name string) *v1.Pod {
	p := cores(name, "1")
	p.Spec.Affinity = build.Pod("x").Preferred(1, build.Labels(build.Match("k", v1.NodeSelectorOpIn, "-1"))).Obj().Spec.Affinity
	return p
}

// TestAWaitingPodIsToldOfATaint: a pod that a full node has refused is told, within its backoff, that the node is out of
// bounds now, as by upstream.
func TestAWaitingPodIsToldOfATaint(t *testing.T) {
	taint := func(key string) func(*v1.Node) {
		return func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: key, Effect: v1.TaintEffectNoSchedule}} }
	}
	for _, c := range []struct {
		name   string
		change func(*v1.Node)
		want   string
	}{
		{"it gets a taint", taint("k"), "0/1 nodes are available: 1 node(s) had untolerated taint(s)."},
		{"it is cordoned", func(n *v1.Node) {
			n.Spec.Unschedulable = true
			taint(v1.TaintNodeUnschedulable)(n)
		}, "0/1 nodes are available: 1 node(s) were unschedulable."},
	} {
		t.Run(c.name, func(t *testing.T) {
			runScenario(t, clusterOf(nodesOf("4", "n"), build.Pod("there").UID("there").CPU("4").Node("n").Obj(),
				build.Pod("p").UID("p").CPU("2").Obj()), nil, func(x *scenario) {
				x.wantMessage("p", "0/1 nodes are available: 1 Insufficient cpu.")
				node := nodesOf("4", "n")[0]
				c.change(node)
				x.deliver(objects.Modified, node)
				time.Sleep(queue.DefaultInitialBackoff + time.Second) // synctest's clock: it takes no time
				synctest.Wait()
				if got := x.message("p"); got != c.want {
					t.Errorf("got message %q, want %q", got, c.want)
				}
			})
		})
	}
}
