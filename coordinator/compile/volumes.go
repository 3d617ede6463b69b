package compile

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Volumes is the cluster's storage, with what placements have assumed of it. Objects
// are shared: nobody writes to them.
type Volumes interface {
	Storage
	VolumeCounters
	// Version moves whenever an answer of any of these methods may have changed, but for what no rule reads of a claim.
	Version() uint64
}

// Storage finds storage objects. An object is nil where there is none.
type Storage interface {
	// Claim is a claim with the annotations that were assumed of it.
	Claim(namespace, name string) *v1.PersistentVolumeClaim
	// Volume is a volume with the claimRef that was assumed of it.
	Volume(name string) *v1.PersistentVolume
	// VolumesOf yields the volumes of a storage class, as assumed: the smallest
	// spec.capacity[storage] first, then by name. The class of a volume is its
	// volume.beta.kubernetes.io/storage-class annotation or its spec.storageClassName,
	// possibly "". A volume keeps its pointer until it changes.
	VolumesOf(class string) iter.Seq[*v1.PersistentVolume]
	StorageClass(name string) *storagev1.StorageClass
	CSIDriver(name string) *storagev1.CSIDriver
	// CapacitiesOf yields the CSIStorageCapacities of a storage class, in any namespace.
	CapacitiesOf(class string) iter.Seq[*storagev1.CSIStorageCapacity]
}

// VolumeCounters finds the counters that NodeVolumeLimits compares.
type VolumeCounters interface {
	// AttachedCounter counts, on each row, the distinct volumes of a driver that the row's
	// pods use, together with the VolumeAttachments of its node (by spec.attacher) whose
	// volumes none of those pods uses; 0: no row has any.
	AttachedCounter(driver string) uint32
	// UseCounter counts, on each row, the pods that use a volume; 0: no pod does. A
	// VolumeAttachment does not count: as upstream, a volume that is attached without a
	// pod is counted once more for the pod that comes to use it.
	UseCounter(Attachment) uint32
	// NamespacesOf are those whose pods, on any row, name a claim so, sorted. Nothing is compiled
	// anew when they change.
	NamespacesOf(claim string) []string
}

// Attachment is a volume as NodeVolumeLimits tells volumes apart.
type Attachment struct {
	// Driver is the CSI driver's name: the one that stands in for the in-tree plugin, for a volume of that.
	Driver string
	// Handle is the volume's handle. That of a claim without a volume is made up from the claim's name.
	Handle string
}

// claimHandle is the handle that stands for the volume which a claim will have. No driver
// gives a volume such a one.
func claimHandle(c *v1.PersistentVolumeClaim) string { return " " + c.Namespace + "/" + c.Name }

// noVolumes is the storage of a cluster that has none.
type noVolumes struct{}

func (noVolumes) Claim(string, string) *v1.PersistentVolumeClaim { return nil }
func (noVolumes) Volume(string) *v1.PersistentVolume             { return nil }
func (noVolumes) VolumesOf(string) iter.Seq[*v1.PersistentVolume] {
	return nothing[*v1.PersistentVolume]
}
func (noVolumes) StorageClass(string) *storagev1.StorageClass { return nil }
func (noVolumes) CSIDriver(string) *storagev1.CSIDriver       { return nil }
func (noVolumes) CapacitiesOf(string) iter.Seq[*storagev1.CSIStorageCapacity] {
	return nothing[*storagev1.CSIStorageCapacity]
}
func (noVolumes) AttachedCounter(string) uint32 { return 0 }
func (noVolumes) UseCounter(Attachment) uint32  { return 0 }
func (noVolumes) NamespacesOf(string) []string  { return nil }
func (noVolumes) Version() uint64               { return 0 }

func nothing[T any](func(T) bool) {}
