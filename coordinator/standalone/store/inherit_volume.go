package store

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
)

// bindingAnnotations are those by which scheduler and controllers of volumes tell each
// other how far a binding is. A manifest without one leaves it as it is.
func bindingAnnotations() []string {
	return []string{
		storage.AnnBindCompleted,
		storage.AnnBoundByController,
		"pv.kubernetes.io/provisioned-by",
		storage.AnnSelectedNode,
		"volume.kubernetes.io/storage-provisioner",
		"volume.beta.kubernetes.io/storage-provisioner",
	}
}

func keepBinding(obj, old metav1.Object) {
	annotations := obj.GetAnnotations()
	for key, value := range old.GetAnnotations() {
		if _, has := annotations[key]; has || !slices.Contains(bindingAnnotations(), key) {
			continue
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	obj.SetAnnotations(annotations)
}

// inheritVolume keeps the claim that a volume is bound to, and refuses to make another volume
// of it.
func inheritVolume(v, old *v1.PersistentVolume) field.ErrorList {
	keepBinding(v, old)
	if named, was := v.Spec.ClaimRef, old.Spec.ClaimRef; was != nil &&
		(named == nil || named.UID == "" && named.Namespace == was.Namespace && named.Name == was.Name) {
		v.Spec.ClaimRef, v.Status = was, old.Status
	}
	if !equality.Semantic.DeepEqual(v.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource) {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			"spec.persistentvolumesource is immutable after creation")}
	}
	return nil
}

// inheritClaim keeps the volume that a claim is bound to. The spec of a bound claim is what
// the volume was chosen for, so it stays but for its size and attributes; a pending
// claim's may change.
func inheritClaim(c, old *v1.PersistentVolumeClaim) field.ErrorList {
	keepBinding(c, old)
	if c.Spec.VolumeName == "" {
		c.Spec.VolumeName = old.Spec.VolumeName
	}
	if objects.NamesNoClass(c) {
		c.Spec.StorageClassName = old.Spec.StorageClassName
	}
	if c.Status.Phase == v1.ClaimPending { // a manifest has no status
		c.Status = old.Status
	}
	if old.Status.Phase != v1.ClaimBound {
		return nil
	}
	now, before := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	for _, s := range []*v1.PersistentVolumeClaimSpec{now, before} {
		delete(s.Resources.Requests, v1.ResourceStorage)
		s.VolumeAttributesClassName = nil
	}
	if equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"),
		"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims")}
}
