package decide

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/bench/oracle"
)

const (
	driver       = "disk.csi.example.com"
	storageClass = "wait"
	// attachable is how many disks a node takes, of 110 pods.
	attachable = 39
)

// storage is the class of all claims.
func storage() []oracle.Object {
	return []oracle.Object{
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: storageClass}, Provisioner: driver,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		},
	}
}

// attaches says how many disks a node takes.
func attaches(node string) []oracle.Object {
	return []oracle.Object{&storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: driver, NodeID: node, TopologyKeys: []string{v1.LabelTopologyZone},
			Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To[int32](attachable)},
		}}},
	}}
}

// claimed gives a pod a claim: with its volume where the pod is on a node, else without.
func claimed(p *v1.Pod, _ string, on *v1.Node) []oracle.Object {
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name},
	}}}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: meta(p.Name)}
	claim.UID = types.UID("claim-" + p.Name)
	claim.Spec = v1.PersistentVolumeClaimSpec{
		AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		StorageClassName: ptr.To(storageClass),
		Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")}},
	}
	claim.Status.Phase = v1.ClaimPending
	if on == nil {
		return []oracle.Object{claim}
	}
	volume := volumeOf(claim, on.Labels[v1.LabelTopologyZone])
	claim.Spec.VolumeName, claim.Status.Phase = volume.Name, v1.ClaimBound
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
	return []oracle.Object{volume, claim}
}

// volumeOf is a claim's volume, in a zone.
func volumeOf(claim *v1.PersistentVolumeClaim, zone string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "volume-" + claim.Name, UID: types.UID("volume-" + claim.Name)},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, StorageClassName: storageClass,
			Capacity:               claim.Spec.Resources.Requests,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: claim.Name}},
			ClaimRef:               &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{zone}}},
			}}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
	}
}
