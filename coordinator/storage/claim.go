package storage

import (
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Annotations by which claims, volumes and those who bind them talk to each other. They are
// those of k8s.io/component-helpers/storage/volume, which would bring client-go along.
const (
	AnnBindCompleted     = "pv.kubernetes.io/bind-completed"
	AnnBoundByController = "pv.kubernetes.io/bound-by-controller"
	AnnSelectedNode      = "volume.kubernetes.io/selected-node"
)

// ClaimName is the claim that a pod's volume is, and whether it is made for the pod and has
// to be its own: that of a generic ephemeral volume. ok is false where the volume is
// something else.
func ClaimName(p *v1.Pod, v *v1.Volume) (name string, made, ok bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, false, true
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(p, v), true, true
	}
	return "", false, false
}

// HasClaims tells whether one of a pod's volumes is a claim.
func HasClaims(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	})
}

// ClassOf is the name of the class that a claim asks for, or "".
func ClassOf(c *v1.PersistentVolumeClaim) string {
	if name, ok := c.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return or(c.Spec.StorageClassName, "")
}

// IsBound tells whether a claim has its volume and the binding is complete.
func IsBound(c *v1.PersistentVolumeClaim) bool {
	_, complete := c.Annotations[AnnBindCompleted]
	return complete && c.Spec.VolumeName != ""
}

// RequestOf is the size that a claim asks for, 0 without one.
func RequestOf(c *v1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[v1.ResourceStorage]
}

// SortBySize puts what is about claims in the order in which they look for volumes: the
// smallest first. The sort is not stable, so that equal ones come in the order that
// upstream's sort.Sort leaves them in.
func SortBySize[T any](list []T, claim func(T) *v1.PersistentVolumeClaim) {
	sort.Sort(bySize[T]{list, claim})
}

type bySize[T any] struct {
	list  []T
	claim func(T) *v1.PersistentVolumeClaim
}

func (s bySize[T]) Len() int      { return len(s.list) }
func (s bySize[T]) Swap(i, j int) { s.list[i], s.list[j] = s.list[j], s.list[i] }
func (s bySize[T]) Less(i, j int) bool {
	a, b := RequestOf(s.claim(s.list[i])), RequestOf(s.claim(s.list[j]))
	return a.Cmp(b) < 0
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
