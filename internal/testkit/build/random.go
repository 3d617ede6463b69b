package build

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Cluster is a random cluster, and pods for it.
type Cluster struct {
	Nodes []*v1.Node
	// Present are pods that are on a node already.
	Present []*v1.Pod
	// Pending are pods to schedule.
	Pending []*v1.Pod
	// Others are what is neither node nor pod.
	Others []objects.Object
}

// Random makes a cluster that reaches every rule and operator: nodes without some
// of the labels, odd quantities, taints of every effect, images, extended
// resources, host ports, priorities, and pods that fit nowhere. Equal sources give equal
// clusters.
func Random(r *rand.Rand, nodes, present, pending int) Cluster {
	var c Cluster
	for i := range nodes {
		c.Nodes = append(c.Nodes, randomNode(r, i))
	}
	for i := range present {
		p := randomPod(r, fmt.Sprintf("present-%d", i))
		p.Spec.NodeName = c.Nodes[r.IntN(nodes)].Name
		c.Present = append(c.Present, p)
	}
	for i := range pending {
		c.Pending = append(c.Pending, randomPod(r, fmt.Sprintf("pod-%d", i)))
	}
	return c
}

func oneOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

var (
	zones  = []string{"a", "b", "c"}
	tiers  = []string{"1", "2", "03", "40", "-7", "many"}
	taints = []string{
		"dedicated=db:NoSchedule", "dedicated=web:NoSchedule", "spot:PreferNoSchedule",
		"old=yes:PreferNoSchedule", "broken:NoExecute",
	}
	images = []string{"registry/app:v1", "registry/app:v2", "registry/db", "registry/huge:latest"}
)

func randomNode(r *rand.Rand, i int) *v1.Node {
	name := fmt.Sprintf("node-%d", i)
	b := Node(name).
		CPU(oneOf(r, "1", "2", "3900m", "8", "64")).
		Memory(oneOf(r, "1Gi", "4Gi", "7917Mi", "64Gi", "1000000007")).
		Pods(oneOf(r, "3", "10", "110")).
		Label(v1.LabelHostname, name)
	if chance(r, 70) {
		b.Label("zone", oneOf(r, zones...))
	}
	if chance(r, 50) {
		b.Label("disk", oneOf(r, "ssd", "hdd"))
	}
	if chance(r, 50) {
		b.Label("tier", oneOf(r, tiers...))
	}
	if chance(r, 30) {
		b.Resource("nvidia.com/gpu", oneOf(r, "1", "2", "8"))
	}
	if chance(r, 20) {
		b.Resource("hugepages-2Mi", oneOf(r, "0", "64Mi"))
	}
	if chance(r, 40) {
		b.EphemeralStorage(oneOf(r, "10Gi", "1Ti"))
	}
	for _, t := range taints {
		if chance(r, 12) {
			b.Taint(t)
		}
	}
	if chance(r, 4) {
		b.Unschedulable()
	}
	for i, image := range images {
		if chance(r, 30) {
			b.Image(int64(i*i+1)*150<<20, image)
		}
	}
	return b.Obj()
}

func randomPod(r *rand.Rand, name string) *v1.Pod {
	b := Pod(name).Priority(int32(oneOf(r, 0, 0, 0, 10, 1000)))
	for i := range r.IntN(3) {
		b.Container(fmt.Sprintf("c%d", i))
		randomContainer(r, b)
	}
	if chance(r, 15) {
		b.Init("init", "cpu", oneOf(r, "1", "2500m"))
	}
	if chance(r, 10) {
		b.Sidecar("side", "memory", "100Mi")
	}
	if chance(r, 5) {
		b.Overhead("cpu", "250m")
	}
	randomConstraints(r, b)
	return b.Obj()
}

func randomContainer(r *rand.Rand, b *PodBuilder) {
	if chance(r, 70) {
		b.CPU(oneOf(r, "0", "1m", "100m", "333m", "2", "50"))
	}
	if chance(r, 70) {
		b.Memory(oneOf(r, "0", "1", "64Mi", "200Mi", "3Gi"))
	}
	if chance(r, 10) {
		b.Request("ephemeral-storage", "2Gi")
	}
	if chance(r, 15) {
		b.Request("nvidia.com/gpu", oneOf(r, "1", "2"))
	}
	if chance(r, 5) {
		b.Request("hugepages-2Mi", "2Mi")
	}
	if chance(r, 50) {
		b.Image(oneOf(r, "registry/app:v1", "registry/app:v2", "registry/db", "registry/huge", "registry/none"))
	}
	if chance(r, 8) {
		b.HostPort(oneOf(r, "", "0.0.0.0", "10.0.0.1"), oneOf(r, v1.ProtocolTCP, v1.ProtocolUDP), int32(oneOf(r, 80, 443)))
	}
}

func randomConstraints(r *rand.Rand, b *PodBuilder) {
	for _, t := range append(taints, "node.kubernetes.io/unschedulable:NoSchedule") {
		if chance(r, 25) {
			b.Toleration(t)
		}
	}
	if chance(r, 15) {
		b.NodeSelector("disk", oneOf(r, "ssd", "hdd", "tape"))
	}
	for range r.IntN(3) {
		if chance(r, 20) {
			b.Required(randomTerm(r))
		}
	}
	for range r.IntN(4) {
		if chance(r, 40) {
			b.Preferred(int32(1+r.IntN(100)), randomTerm(r))
		}
	}
	if chance(r, 3) {
		b.Required(Names(fmt.Sprintf("node-%d", r.IntN(8))))
	}
}

func randomTerm(r *rand.Rand) Term {
	var all []v1.NodeSelectorRequirement
	for range 1 + r.IntN(2) {
		all = append(all, oneOf(r,
			Match("zone", v1.NodeSelectorOpIn, oneOf(r, zones...), oneOf(r, zones...)),
			Match("zone", v1.NodeSelectorOpNotIn, oneOf(r, zones...)),
			Match("disk", v1.NodeSelectorOpExists),
			Match("disk", v1.NodeSelectorOpDoesNotExist),
			Match("tier", v1.NodeSelectorOpGt, oneOf(r, "1", "2", "-10")),
			Match("tier", v1.NodeSelectorOpLt, oneOf(r, "3", "50")),
			Match(v1.LabelHostname, v1.NodeSelectorOpNotIn, "node-1", "node-2"),
		))
	}
	return Labels(all...)
}
