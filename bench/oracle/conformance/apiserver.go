package conformance

import (
	"fmt"
	"hash/fnv"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/shardsched/shardsched/bench/oracle"
)

// apiServer is what stands between a scenario and the two schedulers: it holds the objects
// as they are now, takes in what schedulers write, and does what the controllers of
// volumes do.
type apiServer struct {
	objects map[key]oracle.Object
	nodes   map[types.UID]string // of placed pods
	version int64
	// written are the volumes and claims that a scheduler has written since the last round.
	written []oracle.Object
	// unsettled are the claims that the controllers have to do with, and of the volumes that
	// a scheduler has chosen for one.
	unsettled []oracle.Object
}

type key struct{ kind, name string }

func newAPIServer() *apiServer {
	return &apiServer{objects: map[key]oracle.Object{}, nodes: map[types.UID]string{}}
}

func keyOf(obj oracle.Object) key {
	if pod, ok := obj.(*v1.Pod); ok {
		return key{"*v1.Pod", string(pod.UID)}
	}
	return key{fmt.Sprintf("%T", obj), obj.GetNamespace() + "/" + obj.GetName()}
}

// round is a round as schedulers hear of it: first of what they have written themselves.
func (a *apiServer) round(r Round) (out Round) {
	for _, obj := range a.written {
		if a.objects[keyOf(obj)] != nil { // not removed meanwhile
			out = append(out, a.put(obj))
			a.unsettled = append(a.unsettled, obj)
		}
	}
	a.written = nil
	for _, e := range r {
		switch e.Type {
		case Set:
			out = append(out, a.put(e.Object))
		case Removed:
			if obj := a.objects[keyOf(e.Object)]; obj != nil {
				delete(a.objects, keyOf(e.Object))
				out = append(out, Event{Type: Removed, Object: obj})
			}
		case Settled:
			out = append(out, a.settle(e.Fate)...)
		}
	}
	return out
}

// put stores an object under its next version, a placed pod on its node.
func (a *apiServer) put(obj oracle.Object) Event {
	obj = obj.DeepCopyObject().(oracle.Object)
	a.version++
	obj.SetResourceVersion(strconv.FormatInt(a.version, 10))
	if pod, ok := obj.(*v1.Pod); ok && pod.Spec.NodeName == "" {
		pod.Spec.NodeName = a.nodes[pod.UID]
	}
	a.objects[keyOf(obj)] = obj
	return Event{Type: Set, Object: obj}
}

// place notes a pod's node, and what was written for it.
func (a *apiServer) place(pod *v1.Pod, node string, written []oracle.Object) {
	a.nodes[pod.UID] = node
	a.written = append(a.written, written...)
}

// settle does the controllers' part for what schedulers have written. One in six claims
// is left alone for now, and of one in six the volume can't be made.
func (a *apiServer) settle(fate uint64) (out Round) {
	left := a.unsettled
	a.unsettled = nil
	for _, obj := range left {
		now := a.objects[keyOf(obj)]
		if now == nil {
			continue
		}
		h := fnv.New64a()
		fmt.Fprint(h, fate, obj.GetName())
		switch n := h.Sum64() % 6; {
		case n == 0:
			a.unsettled = append(a.unsettled, obj)
		default:
			switch now := now.(type) {
			case *v1.PersistentVolume:
				out = append(out, a.bind(now)...)
			case *v1.PersistentVolumeClaim:
				out = append(out, a.provision(now, n == 1)...)
			}
		}
	}
	return out
}

// bind binds a volume that a scheduler has chosen to its claim.
func (a *apiServer) bind(pv *v1.PersistentVolume) Round {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return nil
	}
	claim, ok := a.objects[key{"*v1.PersistentVolumeClaim", ref.Namespace + "/" + ref.Name}].(*v1.PersistentVolumeClaim)
	if !ok || claim.UID != ref.UID || claim.Spec.VolumeName != "" {
		return nil
	}
	pv = pv.DeepCopy()
	pv.Status.Phase = v1.VolumeBound
	return Round{a.put(pv), a.put(bound(claim, pv.Name))}
}

func bound(claim *v1.PersistentVolumeClaim, volume string) *v1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	claim.Spec.VolumeName = volume
	claim.Status.Phase = v1.ClaimBound
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[storagehelpers.AnnBindCompleted] = "yes"
	claim.Annotations[storagehelpers.AnnBoundByController] = "yes"
	return claim
}

// provision makes a volume on the node that a scheduler has chosen, or gives the
// claim back.
func (a *apiServer) provision(claim *v1.PersistentVolumeClaim, fail bool) Round {
	name := claim.Annotations[storagehelpers.AnnSelectedNode]
	if name == "" || claim.Spec.VolumeName != "" {
		return nil
	}
	node, _ := a.objects[key{"*v1.Node", "/" + name}].(*v1.Node)
	if fail || node == nil {
		claim = claim.DeepCopy()
		delete(claim.Annotations, storagehelpers.AnnSelectedNode)
		return Round{a.put(claim)}
	}
	pv := &v1.PersistentVolume{}
	pv.Name = "pvc-" + string(claim.UID)
	pv.UID = types.UID(pv.Name)
	pv.Spec = v1.PersistentVolumeSpec{
		Capacity: claim.Spec.Resources.Requests.DeepCopy(), AccessModes: claim.Spec.AccessModes,
		StorageClassName: storagehelpers.GetPersistentVolumeClaimClass(claim), VolumeMode: claim.Spec.VolumeMode,
		ClaimRef:               &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: provisioner(storagehelpers.GetPersistentVolumeClaimClass(claim)), VolumeHandle: pv.Name}},
	}
	if zone := node.Labels[v1.LabelTopologyZone]; zone != "" {
		pv.Spec.NodeAffinity = within(v1.LabelTopologyZone, zone)
	}
	pv.Status.Phase = v1.VolumeBound
	return Round{a.put(pv), a.put(bound(claim, pv.Name))}
}

// within is the affinity of a volume that is where a label has one of some values.
func within(label string, values ...string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: label, Operator: v1.NodeSelectorOpIn, Values: values}},
	}}}}
}
