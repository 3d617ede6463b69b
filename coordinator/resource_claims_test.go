package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func claiming(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} }

// A pod with resource claims is refused whatever the nodes have, nobody leaves for it, it is told why and
// counted, and waits for nothing but an update of its own. The pod beside it, alike in all else, is placed.
func TestAPodWithResourceClaimsIsRefused(t *testing.T) {
	const refused = "0/1 nodes are available: pods with resource claims are not supported yet."
	r := prometheus.NewPedanticRegistry()
	a, g := &fakeEvictor{}, &recordingReporter{}
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		cfg.Profiles, cfg.Evictor, cfg.Reporter, cfg.Registerer = withPreemption(), a, g, r
	}, clusterOf(nodesOf("4", "n"), build.Pod("low").UID("low").CPU("3").Priority(1).Node("n").Obj()), nil, func(x *scenario) {
		p := build.Pod("p").UID("p").CPU("1").Priority(10).Obj()
		claiming(p)
		x.deliver(objects.Added, p)
		x.deliver(objects.Added, build.Pod("plain").UID("plain").CPU("1").Priority(10).Obj())
		g.want(t, "after both", "p@ Unschedulable: "+refused, "plain scheduled on n")
		if orders := a.orders(); len(orders) != 0 {
			t.Errorf("victims: got %q, want none", orders)
		}
		want := "scheduler_unschedulable_pods{plugin=DynamicResources,profile=default-scheduler} 1"
		if got := gathered(t, r, "scheduler_unschedulable_pods"); !slices.Contains(got, want) {
			t.Errorf("metrics: got %q, want %q", got, want)
		}
		// A node, room on one, and an update that leaves the claims are of no use.
		for _, n := range nodesOf("64", "m") {
			x.deliver(objects.Added, n)
		}
		x.deliver(objects.Deleted, build.Pod("low").UID("low").CPU("3").Node("n").Obj())
		x.update(p, "2", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
		elapse(time.Minute)
		if n := attemptsOf(t, x, p); n != 1 {
			t.Errorf("got %d attempts, want 1", n)
		}
		x.update(p, "3", func(p *v1.Pod) { p.Spec.ResourceClaims = nil })
		g.want(t, "without claims", "p@ Unschedulable: "+refused, "plain scheduled on n", "p scheduled on m")
	})
}

func attemptsOf(t *testing.T, x *scenario, p *v1.Pod) (n int) {
	if err := x.call(x.ctx, func() { n = x.queue.Get(p.UID).Attempts }); err != nil {
		t.Fatal(err)
	}
	return n
}

// Without DynamicResources in its profile a pod's claims are nobody's business, as under kube-scheduler.
func TestClaimsAreIgnoredWithoutDynamicResources(t *testing.T) {
	c := rules.DefaultConfig(v1.DefaultSchedulerName)
	c.PreFilters = slices.DeleteFunc(c.PreFilters, func(name string) bool { return name == compile.DynamicResources })
	prof, err := rules.NewProfile(c)
	if err != nil {
		t.Fatal(err)
	}
	runScenarioWith(t, func(cfg *SchedulerConfig) { cfg.Profiles = map[string]*compile.Profile{v1.DefaultSchedulerName: prof} },
		clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
			p := cores("p", "1")
			claiming(p)
			x.deliver(objects.Added, p)
			x.wantPods("under such a profile", "p promised n")
		})
}
