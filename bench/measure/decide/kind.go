package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/internal/workload"
	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Kind is a kind of pods, and of clusters where that belongs to it.
type Kind struct {
	Name string
	// About says what its pods ask for.
	About string
	// Named says that it is only measured where it is named: it is no workload of its own, or upstream
	// takes minutes for a pod.
	Named bool
	// apps is how many workloads the pods are of, in turn; 0: 10.
	apps int
	// alone says that a node takes one pod of a workload: there are as many workloads as it needs.
	alone bool
	// pods is how many are decided unless a flag says so; 0: as many as with the others. perNode
	// bounds them by the nodes; 0: it does not.
	pods, perNode int
	// cluster makes nodes and the pods that are on them; nil: those of the inventory, with pods like
	// those that wait.
	cluster func(m *maker) error
	// shared makes objects of the cluster, app those of a workload, node those of a node; nil:
	// there are none.
	shared func() []oracle.Object
	app    func(name string) []oracle.Object
	node   func(n *v1.Node) []oracle.Object
	// pod makes the ith pod that waits, or where on is a node, the ith that is there. It returns the
	// pod's own objects.
	pod func(m *maker, p *build.PodBuilder, i int, on *v1.Node) []oracle.Object
	// placed is what a placement makes of other objects that other pods' verdicts rest on; nil:
	// nothing.
	placed func(p *v1.Pod, d *decision) ([]oracle.Object, error)
	// fill is how many pods are on a cluster's nodes, whatever a flag says; nil: the flag says it.
	fill func(nodes int) int
	// leave is how many pods come at a time, and leave with their claims before others come; 0: all come at once, and stay.
	leave int
	// gang is how many pods are decided together; 0: each by itself. domain is the label of the nodes that they share; "": none.
	// waiting is how many members of gangs wait that fit nowhere.
	gang    int
	domain  string
	waiting int
}

const (
	namespace = workload.Namespace
	teams     = 10 // namespaces of the kinds that select some
	groups    = 3  // that they are in
	hostPort  = 8000
)

// Kinds are all of them.
func Kinds() []Kind {
	return append([]Kind{
		{Name: "basic", About: "identical pods that ask for nothing but CPU and memory", apps: 1, pod: modest},
		{
			Name: "deployment", About: "pods of 100 ReplicaSets behind Services in turn: soft spread over hosts and zones, the system's " +
				"default",
			apps: 100, app: deployed, pod: owned,
		},
		{Name: "classes-100", About: "as basic, of 100 sizes in turn", apps: 100, pod: sized},
		{Name: "classes-10000", About: "as basic, of 10,000 sizes in turn", apps: 10000, pods: 20000, pod: sized},
		{Name: "distinct", About: "as basic, every pod of a size of its own", apps: 1, pod: distinct},
		{
			Name: "zone-spread", About: "DoNotSchedule over zones, maxSkew 1",
			pod: asks(func(b *build.PodBuilder, app string) { b.Spread(build.Hard(v1.LabelTopologyZone, 1, "app="+app)) }),
		},
		{
			Name: "anti-affinity", About: "no two pods of a workload on a host", alone: true,
			pod: asks(func(b *build.PodBuilder, app string) { b.Apart(build.Around(v1.LabelHostname, "app="+app)) }),
		},
		{
			Name: "preferred-affinity", About: "rather in the zone of the workload's pods, rather not on their hosts",
			pod: asks(func(b *build.PodBuilder, app string) {
				b.PreferNear(50, build.Around(v1.LabelTopologyZone, "app="+app)).PreferApart(100,
					build.Around(v1.LabelHostname, "app="+app))
			}),
		},
		{
			Name: "preferred-affinity-ns", About: "the same, of the pods in the namespaces that a namespaceSelector selects",
			shared: namespaces,
			pod: amongTeams(func(b *build.PodBuilder, app string, group string) {
				b.PreferNear(50, across(v1.LabelTopologyZone, app, group)).PreferApart(100, across(v1.LabelHostname, app, group))
			}),
		},
		{
			Name: "required-affinity", About: "only in a zone with pods of the workload",
			pod: asks(func(b *build.PodBuilder, app string) { b.Near(build.Around(v1.LabelTopologyZone, "app="+app)) }),
		},
		{
			Name: "required-affinity-ns", About: "the same, of the pods in the namespaces that a namespaceSelector selects",
			shared: namespaces,
			pod:    amongTeams(func(b *build.PodBuilder, app string, group string) { b.Near(across(v1.LabelTopologyZone, app, group)) }),
		},
		{
			Name: "node-affinity", About: "only in two of the zones, rather on one type of machine",
			pod: asks(func(b *build.PodBuilder, app string) {
				b.Required(build.Labels(build.Match(v1.LabelTopologyZone, v1.NodeSelectorOpIn, workload.Zone(0), workload.Zone(1))))
				b.Preferred(20, build.Labels(build.Match(v1.LabelInstanceTypeStable, v1.NodeSelectorOpIn, "type-32")))
			}),
		},
		{Name: "host-ports", About: "a port of the host, the same for all pods of a workload", alone: true, pod: withPort},
		{Name: "best-effort", About: "no requests at all", pod: bestEffort},
		{Name: "daemon", About: "a DaemonSet's pods, each for a node by name (matchFields)", apps: 1, pod: daemon},
		{Name: "openb", About: "nodes and pods of the openb trace, with its GPUs and lists of models", apps: 1, perNode: 4,
			cluster: openbCluster, pod: openbPod},
		{Name: "nearly-full", About: "three in ten nodes have room for a few pods, the others for none", apps: 1, perNode: 2,
			cluster: fullCluster, pod: whole},
		{Name: "backlog", About: "every second pod, at random, asks for more than any node has, of 20 sizes; the others are as basic",
			apps: 1, pod: tooLarge},
		{
			Name: "hard-spread", Named: true, About: "DoNotSchedule, maxSkew 1, over hosts and zones",
			pod: asks(func(b *build.PodBuilder, app string) {
				b.Spread(build.Hard(v1.LabelTopologyZone, 1, "app="+app), build.Hard(v1.LabelHostname, 1, "app="+app))
			}),
		},
		{
			Name: "chart", Named: true, About: "what many charts make: spread by default, rather not two on a host", app: deployed,
			pod: func(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
				b.PreferApart(100, build.Around(v1.LabelHostname, "app="+m.app(i)))
				return owned(m, b, i, on)
			},
		},
		{
			Name: "volumes", Named: true, About: "a claim of its own each, WaitForFirstConsumer, provisioned in the pod's zone",
			shared: storage, node: attaches, pod: claimed,
		},
		{
			Name: "local-volumes", Named: true, About: "a claim of its own each, WaitForFirstConsumer, for one of the free volumes: one " +
				"on each node",
			shared: localStorage, node: localVolume, pod: locallyClaimed, placed: takesLocal,
		},
	}, append(deviceKinds(), gangKinds()...)...)
}

// modest is a pod of the usual size with its workload's name.
func modest(m *maker, b *build.PodBuilder, i int, _ *v1.Node) []oracle.Object {
	b.Label("app", m.app(i)).CPU("100m").Memory("200Mi")
	return nil
}

// asks has modest pods ask for something more.
func asks(more func(b *build.PodBuilder, app string)) func(*maker, *build.PodBuilder, int, *v1.Node) []oracle.Object {
	return func(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
		more(b, m.app(i))
		return modest(m, b, i, on)
	}
}

// sized pods differ from workload to workload in what they request.
func sized(m *maker, b *build.PodBuilder, i int, _ *v1.Node) []oracle.Object {
	n := i % m.apps
	b.Label("app", m.app(i)).CPU(fmt.Sprintf("%dm", 100+n%100)).Memory(fmt.Sprintf("%dMi", 100+n/100))
	return nil
}

// distinct pods all differ in what they request, those that are on nodes from those that wait, too.
func distinct(_ *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
	workload.Distinct(b, i, on != nil)
	return nil
}

// team is the namespace of a workload's pods, and group what a selector of some namespaces asks for.
func team(n int) string  { return fmt.Sprintf("team-%d", n%teams) }
func group(n int) string { return fmt.Sprintf("group-%d", n%teams%groups) }

func namespaces() (out []oracle.Object) {
	for i := range teams {
		out = append(out, build.Namespace(team(i), "group", group(i)))
	}
	return out
}

// amongTeams puts a workload's pods into one of the teams' namespaces.
func amongTeams(more func(b *build.PodBuilder, app, group string)) func(*maker, *build.PodBuilder, int, *v1.Node) []oracle.Object {
	return func(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
		n := i % m.apps
		b.Namespace(team(n))
		more(b, m.app(i), group(n))
		return modest(m, b, i, on)
	}
}

// across is a term about a workload's pods in the namespaces of a group.
func across(key, app, group string) v1.PodAffinityTerm {
	t := build.Around(key, "app="+app)
	t.NamespaceSelector = build.Selector("group=" + group)
	return t
}

func withPort(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
	b.HostPort("", v1.ProtocolTCP, int32(hostPort+i%m.apps))
	return modest(m, b, i, on)
}

func bestEffort(m *maker, b *build.PodBuilder, i int, _ *v1.Node) []oracle.Object {
	b.Label("app", m.app(i)).Image("base:1")
	return nil
}

// daemon is of one DaemonSet after the other, each with a pod on every node; those on nodes are of
// another.
func daemon(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
	nodes := m.workload.Nodes
	name, node := fmt.Sprintf("daemon-%d", i/len(nodes)), nodes[m.order[i%len(nodes)]].Name
	if on != nil {
		name, node = "daemon-before", on.Name
	}
	b.Label("app", name).Owner("apps/v1", "DaemonSet", name).CPU("100m").Memory("200Mi").Required(build.Names(node))
	for _, taint := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		b.Toleration(taint + ":" + string(v1.TaintEffectNoExecute))
	}
	for _, taint := range []string{v1.TaintNodeDiskPressure, v1.TaintNodeMemoryPressure, v1.TaintNodePIDPressure,
		v1.TaintNodeUnschedulable} {
		b.Toleration(taint + ":" + string(v1.TaintEffectNoSchedule))
	}
	return nil
}

// whole pods ask for a whole CPU.
func whole(m *maker, b *build.PodBuilder, i int, _ *v1.Node) []oracle.Object {
	b.Label("app", m.app(i)).CPU("1").Memory("1Gi")
	return nil
}

// tooLarge is what the backlog is mixed in with: half of the pods that wait.
func tooLarge(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
	if on == nil && m.IntN(2) == 0 {
		b.Label("app", "large").CPU(fmt.Sprint(1000 + i%20)).Memory("1Gi")
		return nil
	}
	return modest(m, b, i, on)
}

// deployed makes the Service and the ReplicaSet that a Deployment's pods belong to: they spread
// by default.
func deployed(app string) []oracle.Object {
	selector := build.Selector("app=" + app)
	set := &appsv1.ReplicaSet{ObjectMeta: meta(app), Spec: appsv1.ReplicaSetSpec{Selector: selector}}
	return []oracle.Object{set, &v1.Service{ObjectMeta: meta(app), Spec: v1.ServiceSpec{Selector: selector.MatchLabels}}}
}

// owned pods are of the workload's ReplicaSet.
func owned(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
	b.Label("pod-template-hash", m.app(i)).Owner("apps/v1", "ReplicaSet", m.app(i)).Image("base:1")
	return modest(m, b, i, on)
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace}
}
