package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// workload is a kind of pods.
type workload struct {
	name, about string
	// ask has a pod of an app ask for it.
	ask func(p *build.PodBuilder, app string)
	// check tells what is wrong with where the pods of one app are.
	check func(pods []*v1.Pod, c *cluster) error
}

func workloads() []workload {
	return []workload{
		{name: "basic", about: "resources only", ask: func(*build.PodBuilder, string) {}},
		{
			name: "spread", about: "DoNotSchedule over zones, maxSkew 1",
			ask:   func(p *build.PodBuilder, app string) { p.Spread(build.Hard(v1.LabelTopologyZone, 1, "app="+app)) },
			check: evenly,
		},
		{
			name: "anti-affinity", about: "no two of an app on a host",
			ask:   func(p *build.PodBuilder, app string) { p.Apart(term(v1.LabelHostname, app)) },
			check: apart,
		},
		{
			name: "preferred-affinity", about: "rather in the zone of the app's pods",
			ask: func(p *build.PodBuilder, app string) { p.PreferNear(100, term(v1.LabelTopologyZone, app)) },
		},
	}
}

// mixed is the workload of which every app is of the next kind.
const mixed = "mixed"

func workloadNames() (names words) {
	for _, w := range workloads() {
		names = append(names, w.name)
	}
	return append(names, mixed)
}

// workloadOf are the kinds of a workload's apps, in turn.
func workloadOf(name string) ([]workload, error) {
	all := workloads()
	if name == mixed {
		return all, nil
	}
	i := slices.IndexFunc(all, func(w workload) bool { return w.name == name })
	if i < 0 {
		return nil, fmt.Errorf("got %q, want one of %v", name, workloadNames())
	}
	return all[i : i+1], nil
}

func term(topologyKey, app string) build.PodTerm {
	return build.PodTerm{TopologyKey: topologyKey, LabelSelector: build.Selector("app=" + app)}
}

// cluster is what pods are placed on.
type cluster struct {
	objects []runtime.Object
	zones   map[string]string // of each node
	nodes   map[string]*v1.Node
}

// newCluster makes nodes of three sizes.
func newCluster(o *options) *cluster {
	r := rand.New(rand.NewPCG(o.seed, 1))
	sizes := [][2]string{{"4", "32Gi"}, {"8", "32Gi"}, {"16", "64Gi"}}
	c := &cluster{zones: map[string]string{}, nodes: map[string]*v1.Node{}}
	for i := range o.nodes {
		name, zone := fmt.Sprintf("node-%05d", i), fmt.Sprintf("zone-%d", i%o.zones)
		size := sizes[r.IntN(len(sizes))]
		n := build.Node(name).CPU(size[0]).Memory(size[1]).Label(v1.LabelHostname, name).Zone(zone).Obj()
		c.objects, c.nodes[name], c.zones[name] = append(c.objects, n), n, zone
	}
	return c
}

// pods makes n pods, in an order that the seed gives.
func (o *options) pods(kinds []workload, n int) (pods []*v1.Pod) {
	r := rand.New(rand.NewPCG(o.seed, 2))
	requests := []string{"50m", "100m", "200m"}
	for i := range n {
		app := i % o.apps
		name := fmt.Sprintf("app-%02d", app)
		p := build.Pod(fmt.Sprintf("pod-%05d", i)).Label("app", name).CPU(requests[app%len(requests)]).Memory("200Mi")
		kinds[app%len(kinds)].ask(p, name)
		pods = append(pods, p.Obj())
	}
	r.Shuffle(n, func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	return pods
}

// check tells what is wrong with where all pods are.
func (o *options) check(kinds []workload, pods []*v1.Pod, c *cluster) error {
	cpu, byApp := map[string]int64{}, map[string][]*v1.Pod{}
	for _, p := range pods {
		cpu[p.Spec.NodeName] += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		byApp[p.Labels["app"]] = append(byApp[p.Labels["app"]], p)
	}
	for node, used := range cpu {
		n := c.nodes[node]
		if n == nil {
			return fmt.Errorf("pods are on node %q, which is not there", node)
		}
		if has := n.Status.Allocatable.Cpu().MilliValue(); used > has {
			return fmt.Errorf("node %s has %d mCPU, pods on it request %d", node, has, used)
		}
	}
	for app := range o.apps {
		name := fmt.Sprintf("app-%02d", app)
		if f := kinds[app%len(kinds)].check; f != nil {
			if err := f(byApp[name], c); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// apart is anti-affinity's check.
func apart(pods []*v1.Pod, _ *cluster) error {
	on := map[string]string{}
	for _, p := range pods {
		if other := on[p.Spec.NodeName]; other != "" {
			return fmt.Errorf("pods %s and %s are both on %s", other, p.Name, p.Spec.NodeName)
		}
		on[p.Spec.NodeName] = p.Name
	}
	return nil
}

// evenly is spread's check.
func evenly(pods []*v1.Pod, c *cluster) error {
	zones := map[string]int{}
	for _, zone := range c.zones {
		zones[zone] = 0
	}
	for _, p := range pods {
		zones[c.zones[p.Spec.NodeName]]++
	}
	least, most := len(pods), 0
	for _, n := range zones {
		least, most = min(least, n), max(most, n)
	}
	if most-least > 1 {
		return fmt.Errorf("zones have %v pods, which is a skew of more than 1", zones)
	}
	return nil
}
