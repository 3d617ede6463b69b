package compile

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// What claims and those who bind them tell each other; k8s.io/component-helpers/storage
// defines it.
const (
	annBindCompleted = "pv.kubernetes.io/bind-completed"
	annSelectedNode  = "volume.kubernetes.io/selected-node"
	// noProvisioner is the provisioner of classes whose volumes are made by hand.
	noProvisioner = "kubernetes.io/no-provisioner"
)

// podClaim is a volume of a pod that is a claim, as it stands in the spec. A pod may use
// a claim for several volumes.
type podClaim struct {
	name string
	// ephemeral: the claim is made for the pod, and must be its own.
	ephemeral bool
	// object is nil where there is no such claim.
	object *v1.PersistentVolumeClaim
}

// podClaims lists a pod's claims, volume by volume.
func podClaims(p *v1.Pod, s Storage) []podClaim {
	var out []podClaim
	for i := range p.Spec.Volumes {
		if name, generated, ok := claimName(p, &p.Spec.Volumes[i]); ok {
			out = append(out, podClaim{name, generated, s.Claim(p.Namespace, name)})
		}
	}
	return out
}

// claimName is the claim of a pod's volume; false where it is something else.
func claimName(p *v1.Pod, v *v1.Volume) (name string, generated, ok bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, false, true
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(p, v), true, true
	}
	return "", false, false
}

// The texts of the API server's errors for objects that are not there.
func noSuchClaim(name string) string  { return fmt.Sprintf("persistentvolumeclaim %q not found", name) }
func noSuchVolume(name string) string { return fmt.Sprintf("persistentvolume %q not found", name) }
func noSuchClass(name string) string {
	return fmt.Sprintf("storageclass.storage.k8s.io %q not found", name)
}

// notOwned is upstream's error for a claim that bears the name of an ephemeral volume of
// the pod and was made for something else; nil: it is the pod's.
func (c *podClaim) notOwned(p *v1.Pod) error {
	if !c.ephemeral {
		return nil
	}
	return ephemeral.VolumeIsForPod(p, c.object)
}

// isBound tells whether the claim has its volume and the binding is complete.
func (c *podClaim) isBound() bool {
	_, complete := c.object.Annotations[annBindCompleted]
	return complete && c.object.Spec.VolumeName != ""
}

// isDelayed tells whether a claim waits for its first pod before it is bound.
func isDelayed(c *v1.PersistentVolumeClaim, s Storage) (bool, error) {
	name := classOf(c)
	if name == "" {
		return false, nil
	}
	class := s.StorageClass(name)
	if class == nil {
		return false, nil
	}
	if class.VolumeBindingMode == nil {
		return false, noBindingMode(name)
	}
	return *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer, nil
}

func noBindingMode(class string) error {
	return fmt.Errorf("VolumeBindingMode not set for StorageClass %q", class)
}

// classOf is the storage class that a claim asks for, or "".
func classOf(c *v1.PersistentVolumeClaim) string {
	if name, ok := c.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return orEmpty(c.Spec.StorageClassName)
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// namesClaim tells whether a volume is a claim's, or is meant for it.
func namesClaim(pv *v1.PersistentVolume, c *v1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Name == c.Name && ref.Namespace == c.Namespace && (ref.UID == "" || ref.UID == c.UID)
}
