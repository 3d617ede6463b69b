package queue

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/count"
)

// VolumeRestrictions waits for pods that use the same claim or disk to go, and for the claim
// to be there.
func VolumeRestrictions(Profiles) Plugin {
	return Plugin{
		Alike: VolumeLikeness,
		Events: []Registration{
			{Resource: AnyPod, Actions: Delete, If: hadClaimOrDisk, Helps: freesVolume},
			{Resource: Node, Actions: Add},
			{Resource: PersistentVolumeClaim, Actions: Add, Helps: NamesGivenClaim},
		},
	}
}

// hadClaimOrDisk: the pod that is gone had a volume that may keep others out. As upstream,
// whether it was on a node is not asked.
func hadClaimOrDisk(e *Event) bool {
	return slices.ContainsFunc(e.oldPod.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil || isDisk(&v)
	})
}

// isDisk tells whether a volume is one that pods of one node may not be able to share.
func isDisk(v *v1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil
}

// freesVolume: the pod that is gone was of this one's namespace, and had a claim that this
// one names or a disk that they could not both have.
func freesVolume(p *Pod, e *Event) bool {
	return e.oldPod.Namespace == p.Obj.Namespace &&
		slices.ContainsFunc(p.held(), func(k count.Key) bool { return e.oldPodHeld()[k] })
}
