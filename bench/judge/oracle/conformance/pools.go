package conformance

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// poolFamily has nodes leave and come whose devices are alike, while pools that several nodes reach have names that a node's pool
// has, or had, or that stand between such names.
type poolFamily struct{ *deviceFamily }

func newPoolFamily(g *generator) poolFamily {
	f := poolFamily{newDeviceFamily(g)}
	f.style = deviceStyle{broken: g.chance(60)} // of claims: some ask for an attribute that few devices have
	return f
}

func (f poolFamily) first() (out Round) {
	for _, name := range []string{classGPU, classNIC, classAny, classBig, classLarge, classFast, classRare, classWrong} {
		out = append(out, set(f.class(name)))
	}
	for _, n := range f.g.cluster.Nodes {
		out = append(out, f.publish(n.Name, n.Name)...)
	}
	return append(out, f.share()...)
}

// publish publishes a pool of a node, one of two kinds.
func (f poolFamily) publish(node, name string) Round {
	driver := oneOf(f.g.strange, driverGPU, driverGPU, driverGPU, driverNIC)
	return f.pool(driver, name, 3+f.g.IntN(2), true, func(s *resourcev1.ResourceSlice) { s.Spec.NodeName = ptr.To(node) })
}

// share publishes a pool that several nodes reach.
func (f poolFamily) share() Round {
	g := f.g
	within := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
		build.Labels(build.Match(island, v1.NodeSelectorOpIn, oneOf(g.strange, "a", "b"))),
	}}
	driver := oneOf(g.strange, driverGPU, driverGPU, driverNIC)
	return f.pool(driver, f.name(), g.IntN(3), g.chance(30), func(s *resourcev1.ResourceSlice) {
		if g.chance(50) {
			s.Spec.AllNodes = ptr.To(true)
		} else {
			s.Spec.NodeSelector = within
		}
	})
}

// name is that of a node which is there, or was, or one that stands between those of nodes.
func (f poolFamily) name() string {
	g := f.g
	var names []string
	for _, n := range slices.Concat(g.nodes, g.gone, g.gone, g.cluster.Nodes) {
		names = append(names, n.Name)
	}
	name := oneOf(g.strange, append(names, "a", "z")...)
	if g.chance(20) {
		name += oneOf(g.strange, "-", "a", "0")
	}
	return name
}

// pool publishes a pool of so many devices, mostly in place of what it was before. rare: its devices have the attribute of that name.
func (f poolFamily) pool(driver, name string, devices int, rare bool, reach func(*resourcev1.ResourceSlice)) (out Round) {
	g := f.g
	generation := oneOf[int64](g.strange, 0, 0, 1, 5)
	for _, s := range f.slicesOf(driver, name) {
		generation = max(generation, s.Spec.Pool.Generation+g.Int64N(2))
		if g.chance(80) {
			out = append(out, f.withdraw(s)...)
		}
	}
	s := f.slice(driver, name)
	for i := range devices {
		d := resourcev1.Device{Name: fmt.Sprintf("dev-%d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"model": {StringValue: ptr.To([]string{"big", "small"}[i%2])}, "numa": {IntValue: ptr.To(int64(i))},
		}, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("8Gi")}}}
		if rare {
			d.Attributes["rare"] = resourcev1.DeviceAttribute{BoolValue: ptr.To(true)}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	reach(s)
	s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount = generation, 1
	f.slices = append(f.slices, s)
	return append(out, set(s))
}

// withdrawAll withdraws the slices of a node.
func (f poolFamily) withdrawAll(node string) (out Round) {
	for _, s := range slices.Clone(f.slices) {
		if ptr.Deref(s.Spec.NodeName, "") == node {
			out = append(out, f.withdraw(s)...)
		}
	}
	return out
}

// change has a node leave or come with its pools, or a pool come, go, or get another name.
func (f poolFamily) change() (out Round) {
	g := f.g
	if len(g.nodes) == 0 {
		return g.addNode()
	}
	node := oneOf(g.strange, g.nodes...).Name
	switch g.IntN(10) {
	case 0, 1:
		out = g.removeNode()
		return append(f.withdrawAll(out[0].Object.GetName()), out...)
	case 2, 3:
		out = g.addNode()
		return append(out, f.publish(g.nodes[len(g.nodes)-1].Name, g.nodes[len(g.nodes)-1].Name)...)
	case 4, 5, 6:
		return f.share()
	case 7:
		return f.withdrawAll(node)
	case 8:
		return append(f.withdrawAll(node), f.publish(node, oneOf(g.strange, node, f.name()))...)
	}
	if len(f.slices) > 0 {
		out = f.withdraw(oneOf(g.strange, f.slices...))
	}
	return append(out, g.addPod()...)
}
