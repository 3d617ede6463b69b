// Package objects knows the Kubernetes objects that a standalone scheduler keeps. It reads
// and writes them, fills in what the API server would, and refuses what the API server
// would refuse, as far as the scheduler depends on it.
//
//	nodes and pods     Node, Pod
//	who pods belong to Namespace, Service, ReplicationController, ReplicaSet, StatefulSet
//	volumes            PersistentVolume, PersistentVolumeClaim, StorageClass,
//	                   CSINode, CSIDriver, CSIStorageCapacity, VolumeAttachment
//	which pods may go  PodDisruptionBudget
//	devices            DeviceClass, ResourceSlice, ResourceClaim, ResourceClaimTemplate
//	pods that start together PodGroup
//	how pods are made  PriorityClass, LimitRange, RuntimeClass
//
//	bytes ──Decode──> object ──Default──> ──Validate──> field errors
//	bytes <──Encode── object
//
// What else happens to a pod when it is created stands apart, for it happens once:
// MergeLabelKeys writes its label keys into its selectors, and EphemeralClaims makes the
// claims that its ephemeral volumes stand for.
//
// What the store and the API server tell of objects, and what they are asked to do, has the same form for both: a Snapshot, Events
// after it, Bindings, and the errors of a write that was refused.
//
// Bytes are Kubernetes protobuf or JSON. The stored form is Kubernetes protobuf and
// canonical: equal objects give equal bytes, so "unchanged" is a comparison of bytes.
//
//	"k8s\0"  envelope { 1: type { 1: "v1"  2: "Pod" }  2: the object  3: ""  4: "" }
//
// Errors name the field as kubectl does (spec.containers[0].resources.requests[cpu]) and
// never repeat a long value: a label of 10 MB gives a short error.
//
// Differs from upstream: Validate is laxer where nothing depends on it. An image may
// be missing, an extended resource needs no limit, priority classes other than the
// two system ones are not looked up, the template of a workload is looked at when pods are
// made of it, CEL selectors of single claims are compiled where they are used. It is stricter on quantities of nodes and pods:
// above 2^53 they are refused, so that no sum or score can overflow; on topology keys, which have to be label names; and on requests for
// devices, which may have the 16 tolerations that the API documents.
//
// Differs from upstream: a PersistentVolume that has no phase yet is Available, or Bound where
// it names its claim's uid. There a controller says so, and here is none.
//
// Differs from upstream: a device's taint without a time gets none. Nobody evicts by it.
package objects
