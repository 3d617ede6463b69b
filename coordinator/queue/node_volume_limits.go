package queue

import (
	storagev1 "k8s.io/api/storage/v1"
)

// NodeVolumeLimits waits for room for volumes on a node. It does not wait for nodes: those
// without a CSINode have no limit.
func NodeVolumeLimits(Profiles) Plugin {
	return Plugin{
		Alike: VolumeLikeness,
		Events: []Registration{
			{Resource: CSINode, Actions: Add},
			{Resource: CSINode, Actions: Update, If: raisesLimit},
			{Resource: AnyPod, Actions: Delete, If: hadAttachable},
			{Resource: PersistentVolumeClaim, Actions: Add, Helps: NamesClaim},
			{Resource: VolumeAttachment, Actions: Delete, Helps: attachesAlike},
		},
	}
}

// raisesLimit: the node can attach more volumes of a driver than before. Without a limit
// counts as none.
func raisesLimit(e *Event) bool {
	old, now := e.oldObj.(*storagev1.CSINode), e.obj.(*storagev1.CSINode)
	was := make(map[string]int32, len(old.Spec.Drivers))
	for i := range old.Spec.Drivers {
		was[old.Spec.Drivers[i].Name] = limit(&old.Spec.Drivers[i])
	}
	for i := range now.Spec.Drivers {
		if limit(&now.Spec.Drivers[i]) > was[now.Spec.Drivers[i].Name] {
			return true
		}
	}
	return false
}

func limit(d *storagev1.CSINodeDriver) int32 {
	if d.Allocatable == nil || d.Allocatable.Count == nil {
		return 0
	}
	return *d.Allocatable.Count
}

// hadAttachable: the pod that is gone was on a node, or nominated to one, and had a volume
// that counts against a limit.
func hadAttachable(e *Event) bool {
	if !hadNode(e.oldPod) {
		return false
	}
	for i := range e.oldPod.Spec.Volumes {
		v := &e.oldPod.Spec.Volumes[i]
		if driver, _ := migrated(v); driver != "" || v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

// attachesAlike: the attachment that is gone was the work of a driver that may attach one of
// the pod's volumes; that of a claim it may always.
func attachesAlike(p *Pod, e *Event) bool {
	attacher := e.oldObj.(*storagev1.VolumeAttachment).Spec.Attacher
	for i := range p.Obj.Spec.Volumes {
		v := &p.Obj.Spec.Volumes[i]
		if driver, odd := migrated(v); v.PersistentVolumeClaim != nil || odd || driver != "" && driver == attacher {
			return true
		}
	}
	return false
}
