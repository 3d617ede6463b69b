// Package storage is how upstream reads claims, volumes, storage classes and what drivers
// say of them: what a field or an annotation means, whatever else there is in the cluster.
// The filters (package compile), those who bind claims (package volumes) and the queue's
// hints read them the same way, for they read them here.
//
//	claim     a PersistentVolumeClaim
//	volume    a PersistentVolume
//	class     a StorageClass
//	capacity  a CSIStorageCapacity
//
// All of it is functions of the objects, which are never changed.
package storage
