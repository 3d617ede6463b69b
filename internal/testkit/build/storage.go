package build

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/storage"
)

// ClaimBuilder builds a PersistentVolumeClaim.
type ClaimBuilder struct{ claim v1.PersistentVolumeClaim }

// Claim starts a claim of 1Gi in the namespace default that one node may write to.
func Claim(name, class string) *ClaimBuilder {
	b := &ClaimBuilder{v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("claim-" + name), ResourceVersion: "1"},
		Spec:       v1.PersistentVolumeClaimSpec{StorageClassName: &class},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}}
	return b.Size("1Gi").Mode(v1.ReadWriteOnce)
}

// Obj is the claim.
func (b *ClaimBuilder) Obj() *v1.PersistentVolumeClaim { return &b.claim }

// Namespace sets the namespace.
func (b *ClaimBuilder) Namespace(name string) *ClaimBuilder {
	b.claim.Namespace = name
	return b
}

// Size sets how much is asked for.
func (b *ClaimBuilder) Size(quantity string) *ClaimBuilder {
	b.claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(quantity)}
	return b
}

// Mode sets the access mode.
func (b *ClaimBuilder) Mode(mode v1.PersistentVolumeAccessMode) *ClaimBuilder {
	b.claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{mode}
	return b
}

// Bound binds the claim to a volume.
func (b *ClaimBuilder) Bound(volume string) *ClaimBuilder {
	b.claim.Spec.VolumeName, b.claim.Status.Phase = volume, v1.ClaimBound
	metav1.SetMetaDataAnnotation(&b.claim.ObjectMeta, storage.AnnBindCompleted, "yes")
	return b
}

// VolumeBuilder builds a PersistentVolume.
type VolumeBuilder struct{ volume v1.PersistentVolume }

// Volume starts a volume of 1Gi that no claim has, and that can be used on every node, in
// each of the usual ways.
func Volume(name, class string) *VolumeBuilder {
	b := &VolumeBuilder{v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("volume-" + name), ResourceVersion: "1"},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: class,
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteMany, v1.ReadWriteOncePod},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}}
	return b.Size("1Gi")
}

// Obj is the volume.
func (b *VolumeBuilder) Obj() *v1.PersistentVolume { return &b.volume }

// Size sets how much there is.
func (b *VolumeBuilder) Size(quantity string) *VolumeBuilder {
	b.volume.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(quantity)}
	return b
}

// CSI makes it the volume of a driver.
func (b *VolumeBuilder) CSI(driver, handle string) *VolumeBuilder {
	b.volume.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	return b
}

// On says which nodes can use it: those with one of the values of a label.
func (b *VolumeBuilder) On(key string, values ...string) *VolumeBuilder {
	b.volume.Spec.NodeAffinity = &v1.VolumeNodeAffinity{
		Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{Labels(Match(key, v1.NodeSelectorOpIn, values...))}},
	}
	return b
}

// Label sets a label.
func (b *VolumeBuilder) Label(key, value string) *VolumeBuilder {
	if b.volume.Labels == nil {
		b.volume.Labels = map[string]string{}
	}
	b.volume.Labels[key] = value
	return b
}

// Bound binds the volume to a claim.
func (b *VolumeBuilder) Bound(c *v1.PersistentVolumeClaim) *VolumeBuilder {
	b.volume.Status.Phase = v1.VolumeBound
	b.volume.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name,
		UID: c.UID}
	return b
}

// StorageClass makes a class whose claims get their volumes at once.
func StorageClass(name, provisioner string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingImmediate
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

// WaitingClass makes a class whose claims wait for their first pod. Without a provisioner
// there are only the volumes that somebody has made.
func WaitingClass(name, provisioner string) *storagev1.StorageClass {
	if provisioner == "" {
		provisioner = storage.NoProvisioner
	}
	c := StorageClass(name, provisioner)
	*c.VolumeBindingMode = storagev1.VolumeBindingWaitForFirstConsumer
	return c
}

// CSINode says how many volumes a driver attaches to a node.
func CSINode(node, driver string, limit int32) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: driver, NodeID: node, Allocatable: &storagev1.VolumeNodeResources{Count: &limit}},
		}},
	}
}
