package compile

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/shardsched/shardsched/coordinator/storage"
)

// podClaim is a volume of a pod that is a claim, as it stands in the spec. A pod may use
// a claim for several volumes.
type podClaim struct {
	name string
	// ephemeral: the claim is made for the pod, and must be its own.
	ephemeral bool
	// again: a volume before this one is the same claim.
	again bool
	// object is nil where there is no such claim.
	object *v1.PersistentVolumeClaim
}

// podClaims lists a pod's claims, volume by volume.
func podClaims(p *v1.Pod, s Storage) []podClaim {
	var out []podClaim
	first := DistinctVolumes(p)
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		again := len(first) == 0 || first[0] != v
		if !again {
			first = first[1:]
		}
		if name, made, ok := storage.ClaimName(p, v); ok {
			out = append(out, podClaim{name, made, again, s.Claim(p.Namespace, name)})
		}
	}
	return out
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

// isDelayed tells whether a claim waits for its first pod before it is bound.
func isDelayed(c *v1.PersistentVolumeClaim, s Storage) (bool, error) {
	name := storage.ClassOf(c)
	if name == "" {
		return false, nil
	}
	class := s.StorageClass(name)
	if class == nil {
		return false, nil
	}
	return storage.BindsLate(class)
}
