package conformance

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// apiServer is what stands between a scenario and the two schedulers: it holds the objects
// as they are now, takes in what schedulers write, and does what the controllers of
// volumes do. A volume that a scheduler has chosen for a claim is bound to it at once, as
// our scheduler does where it has nowhere to write to; one that is to be made is
// made, or not, when the scenario has it so.
type apiServer struct {
	objects map[key]oracle.Object
	nodes   map[types.UID]string // of placed pods
	version int64
	// nominated are pods whose nominated node a scheduler has written, or taken back.
	nominated []*v1.Pod
	// unsettled are the claims whose volumes are to be made.
	unsettled []*v1.PersistentVolumeClaim
	// seen are the pods that there have been.
	seen map[types.UID]bool
}

type key struct{ kind, name string }

func newAPIServer() *apiServer {
	return &apiServer{objects: map[key]oracle.Object{}, nodes: map[types.UID]string{}, seen: map[types.UID]bool{}}
}

func keyOf(obj oracle.Object) key {
	if pod, ok := obj.(*v1.Pod); ok {
		return key{"*v1.Pod", string(pod.UID)}
	}
	return key{fmt.Sprintf("%T", obj), obj.GetNamespace() + "/" + obj.GetName()}
}

// round is a round as schedulers hear of it.
func (a *apiServer) round(r Round) (out Round) {
	for _, pod := range a.nominated {
		if now, ok := a.objects[keyOf(pod)].(*v1.Pod); ok {
			now = now.DeepCopy()
			now.Status.NominatedNodeName = pod.Status.NominatedNodeName
			out = append(out, a.put(now))
		}
	}
	a.nominated = nil
	for _, e := range r {
		switch e.Type {
		case Set:
			if !a.isInTheWay(e.Object) {
				out = append(out, a.put(e.Object))
			}
		case Removed:
			out = append(out, a.remove(e.Object)...)
		case Settled:
			out = append(out, a.settle(e.Fate)...)
			out = append(out, a.settleDevices(e.Fate)...)
		}
	}
	return append(out, a.reclaim()...)
}

// remove deletes an object, where it is there.
func (a *apiServer) remove(obj oracle.Object) Round {
	now := a.objects[keyOf(obj)]
	if now == nil {
		return nil
	}
	if claim, ok := now.(*resourcev1.ResourceClaim); ok {
		return a.removeClaim(claim)
	}
	delete(a.objects, keyOf(obj))
	return Round{{Type: Removed, Object: now}}
}

// put stores an object under its next version, a placed pod on its node.
func (a *apiServer) put(obj oracle.Object) Event {
	obj = obj.DeepCopyObject().(oracle.Object)
	a.version++
	obj.SetResourceVersion(strconv.FormatInt(a.version, 10))
	if pod, ok := obj.(*v1.Pod); ok {
		a.seen[pod.UID] = true
		if pod.Spec.NodeName == "" {
			pod.Spec.NodeName = a.nodes[pod.UID]
		}
	}
	a.objects[keyOf(obj)] = obj
	return Event{Type: Set, Object: obj}
}

// place notes a pod's node and takes in what was written for it. It returns what comes of
// that.
func (a *apiServer) place(pod *v1.Pod, node string, written []oracle.Object) (out Round) {
	a.nodes[pod.UID] = node
	for _, obj := range written {
		switch obj := obj.(type) {
		case *v1.PersistentVolume:
			out = append(out, a.bind(obj)...)
		case *v1.PersistentVolumeClaim:
			out = append(out, a.put(obj))
			a.unsettled = append(a.unsettled, obj)
		case *resourcev1.ResourceClaim:
			out = append(out, a.allocated(obj))
		}
	}
	return out
}

// nominate takes in what a scheduler writes of a pod's nomination; "": there is none any more. The last write of a round counts.
func (a *apiServer) nominate(pod *v1.Pod, node string) {
	writes := len(a.nominated)
	a.nominated = slices.DeleteFunc(a.nominated, func(p *v1.Pod) bool { return p.UID == pod.UID })
	now, ok := a.objects[keyOf(pod)].(*v1.Pod)
	if !ok || now.Status.NominatedNodeName == node && len(a.nominated) == writes {
		return
	}
	now = now.DeepCopy()
	now.Status.NominatedNodeName = node
	a.nominated = append(a.nominated, now)
}

// bind binds a volume that a scheduler has chosen to its claim.
func (a *apiServer) bind(pv *v1.PersistentVolume) Round {
	ref := pv.Spec.ClaimRef
	claim := a.objects[key{"*v1.PersistentVolumeClaim", ref.Namespace + "/" + ref.Name}].(*v1.PersistentVolumeClaim)
	pv.Status.Phase = v1.VolumeBound
	return Round{a.put(pv), a.put(bound(claim, pv.Name))}
}

// settle makes the volumes of claims, or not. One in six is left alone for now, and one in
// six can't be made.
func (a *apiServer) settle(fate uint64) (out Round) {
	left := a.unsettled
	a.unsettled = nil
	for _, claim := range left {
		now, _ := a.objects[keyOf(claim)].(*v1.PersistentVolumeClaim)
		if now == nil {
			continue
		}
		h := fnv.New64a()
		fmt.Fprint(h, fate, claim.Name)
		switch n := h.Sum64() % 6; n {
		case 0:
			a.unsettled = append(a.unsettled, claim)
		default:
			out = append(out, a.provision(now, n == 1)...)
		}
	}
	return out
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
		ClaimRef: &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace,
			Name: claim.Name, UID: claim.UID},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
			Driver: provisioner(storagehelpers.GetPersistentVolumeClaimClass(claim)), VolumeHandle: pv.Name,
		}},
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
