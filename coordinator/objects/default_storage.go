package objects

import (
	"cmp"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	defaultRBDPool = "rbd"
	// The annotations that make a storage class the default one.
	defaultClassAnnotation     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultClassAnnotation = "storageclass.beta.kubernetes.io/is-default-class"
)

// defaultVolumes completes the volumes of a pod: one that names no source is an empty
// directory.
func defaultVolumes(volumes []v1.Volume) {
	for i := range volumes {
		v := &volumes[i]
		if len(sources(v.VolumeSource)) == 0 {
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		}
		if v.RBD != nil && v.RBD.RBDPool == "" {
			v.RBD.RBDPool = defaultRBDPool
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			setIfNil(&v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
		}
	}
}

// defaultPersistentVolume also gives the volume the phase that the controller of volumes
// would: nobody else does where there is no Kubernetes.
func defaultPersistentVolume(v *v1.PersistentVolume) {
	v.Spec.PersistentVolumeReclaimPolicy = cmp.Or(v.Spec.PersistentVolumeReclaimPolicy, v1.PersistentVolumeReclaimRetain)
	setIfNil(&v.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
	if v.Spec.RBD != nil && v.Spec.RBD.RBDPool == "" {
		v.Spec.RBD.RBDPool = defaultRBDPool
	}
	if v.Status.Phase != "" && v.Status.Phase != v1.VolumePending {
		return
	}
	v.Status.Phase = v1.VolumeAvailable
	if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != "" {
		v.Status.Phase = v1.VolumeBound
	}
}

func defaultPersistentVolumeClaim(c *v1.PersistentVolumeClaim) {
	c.Namespace = cmp.Or(c.Namespace, v1.NamespaceDefault)
	setIfNil(&c.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
	c.Status.Phase = cmp.Or(c.Status.Phase, v1.ClaimPending)
}

func defaultStorageClass(c *storagev1.StorageClass) {
	setIfNil(&c.ReclaimPolicy, v1.PersistentVolumeReclaimDelete)
	setIfNil(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func defaultCSIDriver(d *storagev1.CSIDriver) {
	setIfNil(&d.Spec.AttachRequired, true)
	setIfNil(&d.Spec.PodInfoOnMount, false)
	setIfNil(&d.Spec.StorageCapacity, false)
	setIfNil(&d.Spec.RequiresRepublish, false)
	setIfNil(&d.Spec.SELinuxMount, false)
	setIfNil(&d.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(d.Spec.VolumeLifecycleModes) == 0 {
		d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func defaultService(s *v1.Service) {
	s.Namespace = cmp.Or(s.Namespace, v1.NamespaceDefault)
	s.Spec.Type = cmp.Or(s.Spec.Type, v1.ServiceTypeClusterIP)
}

func defaultReplicationController(c *v1.ReplicationController) {
	c.Namespace = cmp.Or(c.Namespace, v1.NamespaceDefault)
	setIfNil(&c.Spec.Replicas, 1)
	if c.Spec.Template == nil {
		return
	}
	if len(c.Spec.Selector) == 0 {
		c.Spec.Selector = maps.Clone(c.Spec.Template.Labels)
	}
	if len(c.Labels) == 0 {
		c.Labels = maps.Clone(c.Spec.Template.Labels)
	}
}

func defaultReplicaSet(s *appsv1.ReplicaSet) {
	s.Namespace = cmp.Or(s.Namespace, v1.NamespaceDefault)
	setIfNil(&s.Spec.Replicas, 1)
}

func defaultStatefulSet(s *appsv1.StatefulSet) {
	s.Namespace = cmp.Or(s.Namespace, v1.NamespaceDefault)
	setIfNil(&s.Spec.Replicas, 1)
	setIfNil(&s.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	retain := s.Spec.PersistentVolumeClaimRetentionPolicy
	retain.WhenDeleted = cmp.Or(retain.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	retain.WhenScaled = cmp.Or(retain.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
}

// DefaultStorageClass is the class that a claim gets which names none: of those that are
// marked the newest, then the first by name; nil: none is marked (the DefaultStorageClass
// admission plugin).
func DefaultStorageClass(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	marked := slices.DeleteFunc(slices.Clone(classes), func(c *storagev1.StorageClass) bool {
		return c.Annotations[defaultClassAnnotation] != "true" && c.Annotations[betaDefaultClassAnnotation] != "true"
	})
	if len(marked) == 0 {
		return nil
	}
	return slices.MinFunc(marked, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(newerFirst(a.CreationTimestamp, b.CreationTimestamp), cmp.Compare(a.Name, b.Name))
	})
}

func newerFirst(a, b metav1.Time) int { return b.Time.Compare(a.Time) }

// NamesNoClass tells whether a claim leaves the storage class to the cluster. An empty name
// is a word too: it wants none.
func NamesNoClass(c *v1.PersistentVolumeClaim) bool {
	_, annotated := c.Annotations[v1.BetaStorageClassAnnotation]
	return c.Spec.StorageClassName == nil && !annotated
}
