package build

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeBuilder builds a node.
type NodeBuilder struct{ node v1.Node }

// Node starts a node that may hold 110 pods and has nothing else.
func Node(name string) *NodeBuilder {
	b := &NodeBuilder{node: v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}}
	return b.Pods("110")
}

// Obj is the node.
func (b *NodeBuilder) Obj() *v1.Node { return &b.node }

// Resource sets how much of a resource there is, capacity and allocatable.
func (b *NodeBuilder) Resource(name, quantity string) *NodeBuilder {
	set(&b.node.Status.Capacity, name, quantity)
	set(&b.node.Status.Allocatable, name, quantity)
	return b
}

// CPU sets the allocatable CPU.
func (b *NodeBuilder) CPU(quantity string) *NodeBuilder {
	return b.Resource(string(v1.ResourceCPU), quantity)
}

// Memory sets the allocatable memory.
func (b *NodeBuilder) Memory(quantity string) *NodeBuilder {
	return b.Resource(string(v1.ResourceMemory), quantity)
}

// EphemeralStorage sets the allocatable local storage.
func (b *NodeBuilder) EphemeralStorage(quantity string) *NodeBuilder {
	return b.Resource(string(v1.ResourceEphemeralStorage), quantity)
}

// Pods sets how many pods the node may hold.
func (b *NodeBuilder) Pods(quantity string) *NodeBuilder {
	return b.Resource(string(v1.ResourcePods), quantity)
}

// Label sets a label.
func (b *NodeBuilder) Label(key, value string) *NodeBuilder {
	if b.node.Labels == nil {
		b.node.Labels = map[string]string{}
	}
	b.node.Labels[key] = value
	return b
}

// Zone sets the label of the zone.
func (b *NodeBuilder) Zone(name string) *NodeBuilder {
	return b.Label(v1.LabelTopologyZone, name)
}

// Taint adds a taint, written key=value:Effect or key:Effect.
func (b *NodeBuilder) Taint(taint string) *NodeBuilder {
	key, value, effect := split(taint)
	b.node.Spec.Taints = append(b.node.Spec.Taints, v1.Taint{Key: key, Value: value, Effect: effect})
	return b
}

// Unschedulable cordons the node.
func (b *NodeBuilder) Unschedulable() *NodeBuilder {
	b.node.Spec.Unschedulable = true
	return b
}

// Image adds an image with its names.
func (b *NodeBuilder) Image(sizeBytes int64, names ...string) *NodeBuilder {
	b.node.Status.Images = append(b.node.Status.Images, v1.ContainerImage{Names: names, SizeBytes: sizeBytes})
	return b
}

// set puts a quantity into a list that may not be there yet.
func set(list *v1.ResourceList, name, quantity string) {
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[v1.ResourceName(name)] = resource.MustParse(quantity)
}

// split reads key=value:Effect, each of value and effect with its sign or not at
// all.
func split(word string) (key, value string, effect v1.TaintEffect) {
	rest, e, _ := strings.Cut(word, ":")
	key, value, _ = strings.Cut(rest, "=")
	return key, value, v1.TaintEffect(e)
}
