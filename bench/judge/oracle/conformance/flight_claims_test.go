package conformance

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// claimWriter is the cluster as the scheduler writes claims of devices to it.
type claimWriter struct {
	*cluster
	// whole says that it has statuses written with the claims, as it is without Kubernetes.
	whole bool
}

var resourceClaims = resourcev1.Resource("resourceclaims")

// now is a claim as it is kept.
func (c claimWriter) now(namespace, name string) (*resourcev1.ResourceClaim, error) {
	claim, _ := c.api.objects[key{"*v1.ResourceClaim", namespace + "/" + name}].(*resourcev1.ResourceClaim)
	if claim == nil {
		return nil, apierrors.NewNotFound(resourceClaims, name)
	}
	return claim, nil
}

// Get is part of devices.Writer.
func (c claimWriter) Get(_ context.Context, namespace, name string) (*resourcev1.ResourceClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now(namespace, name)
}

// Create is part of devices.Writer.
func (c claimWriter) Create(_ context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chance(10) {
		return nil, apierrors.NewForbidden(resourceClaims, claim.GenerateName, nil)
	}
	claim = claim.DeepCopy()
	claim.Name = fmt.Sprint(claim.GenerateName, c.api.version)
	claim.UID = types.UID(claim.Name)
	return c.keep(claim), nil
}

// Update is part of devices.Writer.
func (c claimWriter) Update(_ context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	return c.write(claim, func(now *resourcev1.ResourceClaim) {
		if now.Finalizers = claim.Finalizers; c.whole {
			now.Status = claim.Status
		}
	})
}

// UpdateStatus is part of devices.StatusWriter.
func (c claimWriter) UpdateStatus(_ context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	return c.write(claim, func(now *resourcev1.ResourceClaim) {
		now.Status = claim.Status
	})
}

// write writes a claim. A write may be refused, or be lost in the one direction or the other, or somebody else may be quicker.
func (c claimWriter) write(claim *resourcev1.ResourceClaim, change func(*resourcev1.ResourceClaim)) (*resourcev1.ResourceClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.now(claim.Namespace, claim.Name)
	if err != nil {
		return nil, err
	}
	if c.chance(10) {
		c.keep(now)
	}
	if now, err = c.now(claim.Namespace, claim.Name); err != nil {
		return nil, err
	}
	switch {
	case now.UID != claim.UID || now.ResourceVersion != claim.ResourceVersion:
		return nil, apierrors.NewConflict(resourceClaims, claim.Name, nil)
	case c.chance(4):
		return nil, apierrors.NewForbidden(resourceClaims, claim.Name, nil)
	case c.chance(3):
		return nil, fmt.Errorf("%w: no connection", objects.ErrUnknown)
	}
	now = now.DeepCopy()
	change(now)
	now = c.keep(now)
	if c.chance(3) {
		return nil, fmt.Errorf("%w: no answer", objects.ErrUnknown)
	}
	return now, nil
}

// keep keeps a claim, and tells of it. One that waits for its end goes with its last finalizer.
func (c claimWriter) keep(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	if claim.DeletionTimestamp != nil && len(claim.Finalizers) == 0 {
		delete(c.api.objects, keyOf(claim))
		c.deliver(Round{{Type: Removed, Object: claim}})
		return claim
	}
	var e Event
	if claim.Status.Allocation != nil {
		e = c.api.allocated(claim)
	} else {
		e = c.api.put(claim)
	}
	c.deliver(Round{e})
	return e.Object.(*resourcev1.ResourceClaim)
}

// Unreserve is part of devices.Writer.
func (c claimWriter) Unreserve(_ context.Context, claim *resourcev1.ResourceClaim, pod *v1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.now(claim.Namespace, claim.Name)
	switch {
	case err != nil:
		return err
	case now.UID != claim.UID || c.chance(10):
		return apierrors.NewConflict(resourceClaims, claim.Name, nil)
	}
	now = now.DeepCopy()
	now.Status.ReservedFor = slices.DeleteFunc(now.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.UID == pod.UID
	})
	c.keep(now)
	return nil
}

// Delete is part of devices.Writer.
func (c claimWriter) Delete(_ context.Context, claim *resourcev1.ResourceClaim) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.now(claim.Namespace, claim.Name)
	if err != nil || now.UID != claim.UID {
		return err
	}
	c.deliver(c.api.removeClaim(now))
	return nil
}

// TellPod is part of devices.StatusWriter.
func (c claimWriter) TellPod(_ context.Context, pod *v1.Pod, status *v1.PodExtendedResourceClaimStatus) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, _ := c.api.objects[keyOf(pod)].(*v1.Pod)
	if now == nil || c.chance(10) {
		return apierrors.NewNotFound(v1.Resource("pods"), pod.Name)
	}
	now = now.DeepCopy()
	now.Status.ExtendedResourceClaimStatus = status
	c.deliver(Round{c.api.put(now)})
	return nil
}
