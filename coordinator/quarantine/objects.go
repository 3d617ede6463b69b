package quarantine

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Objects are the objects in quarantine.
type Objects struct {
	why map[objects.Ref]error
	// met counts how often an object was put into quarantine.
	met uint64
	// nodes are the nodes that are left out. pods are bound pods whose requests are not known.
	nodes map[string]*v1.Node
	pods  map[types.UID]*v1.Pod
}

// NewObjects makes a list without an object.
func NewObjects() *Objects {
	return &Objects{why: map[objects.Ref]error{}, nodes: map[string]*v1.Node{}, pods: map[types.UID]*v1.Pod{}}
}

// Add puts an object into quarantine. first is false where it is there already.
func (o *Objects) Add(obj objects.Object, why error) (first bool) {
	ref := objects.RefOf(obj)
	o.met++
	_, told := o.why[ref]
	o.why[ref] = why
	return !told
}

// Met is how often an object was put into quarantine.
func (o *Objects) Met() uint64 { return o.met }

// Why is why each object is in quarantine. The caller must not change it.
func (o *Objects) Why() map[objects.Ref]error { return o.why }

// End ends the quarantine of an object that was taken in as a whole, or is gone; false: it was in none. on is the node that may
// have been left out because of the object, and is to be tried again; "": there is none.
func (o *Objects) End(obj objects.Object) (ended bool, on string) {
	ref := objects.RefOf(obj)
	if _, out := o.why[ref]; !out {
		return false, ""
	}
	delete(o.why, ref)
	switch obj := obj.(type) {
	case *v1.Node:
		delete(o.nodes, obj.Name)
	case *v1.Pod:
		delete(o.pods, obj.UID)
		on = obj.Spec.NodeName
	case *storagev1.CSINode:
		on = obj.Name
	}
	return true, on
}

// LeaveOut notes that a node is left out, and LeftOut gives a node that is; nil: it is not.
func (o *Objects) LeaveOut(n *v1.Node)          { o.nodes[n.Name] = n }
func (o *Objects) LeftOut(name string) *v1.Node { return o.nodes[name] }

// Unknown notes that nobody knows what a bound pod takes of its node.
func (o *Objects) Unknown(p *v1.Pod) { o.pods[p.UID] = p }

// KeepsOut tells whether a node has to stay out because of its CSINode or one of its pods.
func (o *Objects) KeepsOut(n *v1.Node) bool {
	if len(o.why) == 0 {
		return false
	}
	_, out := o.why[objects.Ref{Kind: objects.KindCSINode, Name: n.Name}]
	for _, p := range o.pods {
		out = out || p.Spec.NodeName == n.Name
	}
	return out
}

// Notes are what an explanation of a pod is to tell of objects that it could not look at.
func (o *Objects) Notes(p *v1.Pod) (notes []string) {
	if why := o.why[objects.RefOf(p)]; why != nil {
		notes = append(notes, "it could not be taken in as a whole: "+why.Error())
	}
	if len(o.nodes) > 0 {
		example := slices.Min(slices.Collect(maps.Keys(o.nodes)))
		why := o.why[objects.Ref{Kind: objects.KindNode, Name: example}]
		notes = append(notes, fmt.Sprintf("nodes that are left out: %d, one of them %s: %v", len(o.nodes), example, why))
	}
	return notes
}
