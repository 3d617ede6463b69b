package compile

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// unfit is a PreFilter's answer that is not success.
type unfit struct {
	// message is why the pod fits nowhere, whatever is done about other pods.
	message string
	// err is an error of the plugin, in place of message.
	err error
}

func refused(message string) *unfit { return &unfit{message: message} }

// claimsForOne are the names of the claims that one pod alone may use, sorted: the
// PreFilter of VolumeRestrictions. It looks at no ephemeral volumes.
func claimsForOne(claims []podClaim) ([]string, *unfit) {
	var out []string
	for i := range claims {
		c := &claims[i]
		if c.ephemeral || c.again {
			continue
		}
		if c.object == nil {
			return nil, refused(noSuchClaim(c.name))
		}
		if slices.Contains(c.object.Spec.AccessModes, v1.ReadWriteOncePod) {
			out = append(out, c.name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// checkClaims is the first half of VolumeBinding's PreFilter: the claims are there, and
// the pod's.
func checkClaims(p *v1.Pod, claims []podClaim) *unfit {
	for i := range claims {
		c := &claims[i]
		switch {
		case c.again:
			continue
		case c.object == nil && c.ephemeral:
			return refused(fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", c.name))
		case c.object == nil:
			return refused(noSuchClaim(c.name))
		case c.object.Status.Phase == v1.ClaimLost:
			return refused(fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", c.name,
				c.object.Spec.VolumeName))
		case c.object.DeletionTimestamp != nil:
			return refused(fmt.Sprintf("persistentvolumeclaim %q is being deleted", c.name))
		}
		if err := c.notOwned(p); err != nil {
			return refused(err.Error())
		}
	}
	return nil
}

// boundAndUnbound is the second half: which claims are bound, and which are to be bound
// where the pod goes.
func boundAndUnbound(claims []podClaim, s Storage) (bound, unbound []*v1.PersistentVolumeClaim, no *unfit) {
	immediate := false
	for i := range claims {
		c := &claims[i]
		if storage.IsBound(c.object) {
			if !c.again {
				bound = append(bound, c.object)
			}
			continue
		}
		delayed, err := isDelayed(c.object, s)
		if err != nil {
			return nil, nil, &unfit{err: err}
		}
		// A claim that names a volume is somebody else's to bind.
		if delayed && c.object.Spec.VolumeName == "" {
			unbound = append(unbound, c.object)
		} else {
			immediate = true
		}
	}
	if immediate {
		return nil, nil, refused("pod has unbound immediate PersistentVolumeClaims")
	}
	return bound, unbound, nil
}

// zoneRequirements is the PreFilter of VolumeZone. It looks at no ephemeral volumes.
func zoneRequirements(claims []podClaim, s Storage) ([]*pb.ZoneRequirement, *unfit) {
	var out []*pb.ZoneRequirement
	for i := range claims {
		c := &claims[i]
		switch {
		case c.ephemeral || c.again:
			continue
		case c.name == "":
			return nil, refused("PersistentVolumeClaim had no name")
		case c.object == nil:
			return nil, refused(noSuchClaim(c.name))
		}
		name := c.object.Spec.VolumeName
		if name == "" {
			if no := awaitsPod(c.object, s); no != nil {
				return nil, no
			}
			continue
		}
		pv := s.Volume(name)
		if pv == nil {
			return nil, refused(noSuchVolume(name))
		}
		out = append(out, zonesOf(pv)...)
	}
	return out, nil
}

// awaitsPod is what VolumeZone has against a claim without a volume; nil: it waits for
// its first pod.
func awaitsPod(c *v1.PersistentVolumeClaim, s Storage) *unfit {
	name := storage.ClassOf(c)
	if name == "" {
		return refused("PersistentVolumeClaim had no pv name and storageClass name")
	}
	class := s.StorageClass(name)
	if class == nil {
		return refused(noSuchClass(name))
	}
	switch late, err := storage.BindsLate(class); {
	case err != nil:
		return refused(err.Error())
	case !late:
		return refused("PersistentVolume had no name")
	}
	return nil
}

// zonesOf are the zone and region labels of a volume. A value is one zone or several; one
// that upstream cannot read counts as none.
func zonesOf(pv *v1.PersistentVolume) []*pb.ZoneRequirement {
	var out []*pb.ZoneRequirement
	for _, l := range [...]struct{ key, fallback string }{
		{v1.LabelFailureDomainBetaZone, v1.LabelTopologyZone},
		{v1.LabelFailureDomainBetaRegion, v1.LabelTopologyRegion},
		{v1.LabelTopologyZone, ""},
		{v1.LabelTopologyRegion, ""},
	} {
		text, ok := pv.Labels[l.key]
		if !ok || !usable(text) {
			continue
		}
		if values := storage.Zones(text); len(values) > 0 {
			out = append(out, &pb.ZoneRequirement{Key: l.key, FallbackKey: l.fallback, Values: values})
		}
	}
	return out
}
