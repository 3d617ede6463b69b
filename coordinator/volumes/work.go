package volumes

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
)

// Work is what a placement has to do about a pod's claims before the pod is bound. It is
// made by Reserve and ended by Unreserve, Complete or Binder.PreBind. Of the methods of a
// nil Work, PreBindNeeded says no.
//
// The scheduling goroutine makes it, hands it to one binding goroutine, and looks at it
// again only after that is done.
type Work struct {
	pod        *v1.Pod
	node       string
	matches    []match
	provisions []provision

	// wake tells the binding goroutine that something it waits for may have happened.
	wake chan struct{}
	// The rest is guarded by the lock of the view of the API.
	listed  bool // in the view of the API
	podGone bool
}

// match is an unbound claim with the volume that was found for it.
type match struct {
	volume *volume
	key    claimKey
	// pv and pvc are the objects as they were at Reserve, pv with its claimRef.
	pv         *v1.PersistentVolume
	pvc        *v1.PersistentVolumeClaim
	assumption *assumption[*v1.PersistentVolume]
	// version is the volume's resourceVersion once it is written.
	version string
}

// provision is a claim that waits for a volume to be made on the node.
type provision struct {
	claim *claim
	// pvc carries the selected node.
	pvc        *v1.PersistentVolumeClaim
	assumption *assumption[*v1.PersistentVolumeClaim]
	version    string
}

// PreBindNeeded tells whether there is something to write or to wait for.
func (w *Work) PreBindNeeded() bool { return w != nil }

// Assumed are the volumes and claims that the placement rests on, as they are assumed to be.
func (w *Work) Assumed() (out []objects.Object) {
	if w == nil {
		return nil
	}
	for i := range w.matches {
		out = append(out, w.matches[i].pv)
	}
	for i := range w.provisions {
		out = append(out, w.provisions[i].pvc)
	}
	return out
}

// Latest are the same volumes and claims as they count now, as far as they are there.
func (w *Work) Latest() (out []objects.Object) {
	if w == nil {
		return nil
	}
	for i := range w.matches {
		if pv := w.matches[i].volume.latest(); pv != nil {
			out = append(out, pv)
		}
	}
	for i := range w.provisions {
		if pvc := w.provisions[i].claim.latest(); pvc != nil {
			out = append(out, pvc)
		}
	}
	return out
}

// bindTo is a volume as bound to a claim by us, and whether that is anything new.
func bindTo(pv *v1.PersistentVolume, pvc *v1.PersistentVolumeClaim) (*v1.PersistentVolume, bool) {
	if storage.NamesClaim(pv, pvc) && pv.Spec.ClaimRef.UID == pvc.UID {
		return pv, false
	}
	byUs := !storage.NamesClaim(pv, pvc)
	pv = pv.DeepCopy()
	pv.Spec.ClaimRef = &v1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1",
		Namespace: pvc.Namespace, Name: pvc.Name, UID: pvc.UID, ResourceVersion: pvc.ResourceVersion,
	}
	if byUs {
		metav1.SetMetaDataAnnotation(&pv.ObjectMeta, storage.AnnBoundByController, "yes")
	}
	return pv, true
}

// bound completes a match as Kubernetes' volume controller does once a claim's volume is
// known.
func bound(p *match) (*v1.PersistentVolume, *v1.PersistentVolumeClaim) {
	pv, pvc := p.pv.DeepCopy(), p.pvc.DeepCopy()
	pv.Status.Phase = v1.VolumeBound
	pvc.Spec.VolumeName = pv.Name
	metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, storage.AnnBindCompleted, "yes")
	metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, storage.AnnBoundByController, "yes")
	pvc.Status.Phase = v1.ClaimBound
	pvc.Status.AccessModes = pv.Spec.AccessModes
	pvc.Status.Capacity = pv.Spec.Capacity
	pvc.Status.CurrentVolumeAttributesClassName = pv.Spec.VolumeAttributesClassName
	return pv, pvc
}
