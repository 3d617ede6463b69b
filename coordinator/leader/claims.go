package leader

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
)

// claimWriter writes claims of devices under a term. It is a devices.Writer: its errors are those of an API server.
type claimWriter struct {
	store *store.Store
	fence lease.Fence
}

// asAPIError is an error of the store as an API server words it.
func asAPIError(err error, name string) error {
	switch resource := resourcev1.Resource("resourceclaims"); {
	case err == nil:
		return nil
	case errors.Is(err, objects.ErrUnknown), errors.Is(err, lease.ErrDeposed):
		return err
	case errors.Is(err, objects.ErrConflict):
		return apierrors.NewConflict(resource, name, err)
	case errors.Is(err, objects.ErrNotFound):
		return apierrors.NewNotFound(resource, name)
	}
	return err
}

// Get is part of devices.Writer.
func (c claimWriter) Get(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error) {
	item, _, err := c.store.Get(ctx, objects.Ref{Kind: objects.KindResourceClaim, Namespace: namespace, Name: name})
	if err != nil {
		return nil, asAPIError(err, name)
	}
	obj, err := objects.Decode(item.Raw)
	if err != nil {
		return nil, err
	}
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil, fmt.Errorf("%w: there is a %s under the key of ResourceClaim %s/%s",
			objects.ErrConflict, objects.KindOf(obj), namespace, name)
	}
	claim.ResourceVersion = strconv.FormatInt(item.Revision, 10)
	return claim, nil
}

// Create is part of devices.Writer.
func (c claimWriter) Create(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	now, err := c.store.CreateClaim(ctx, c.fence, claim)
	return now, asAPIError(err, claim.GenerateName)
}

// Update is part of devices.Writer.
func (c claimWriter) Update(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	now, err := c.store.UpdateClaim(ctx, c.fence, claim)
	return now, asAPIError(err, claim.Name)
}

// Unreserve is part of devices.Writer.
func (c claimWriter) Unreserve(ctx context.Context, claim *resourcev1.ResourceClaim, pod *v1.Pod) error {
	return asAPIError(c.store.UnreserveClaim(ctx, c.fence, claim, pod), claim.Name)
}

// Delete is part of devices.Writer.
func (c claimWriter) Delete(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	return asAPIError(c.store.DeleteClaim(ctx, c.fence, claim), claim.Name)
}
