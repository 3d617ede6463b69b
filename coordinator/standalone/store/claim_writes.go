package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// mostOfGeneratedName is how much of a generateName stands in a name, as in Kubernetes.
const mostOfGeneratedName = 58

// CreateClaim makes a claim with a name of its own, and returns it as it is stored.
func (s *Store) CreateClaim(ctx context.Context, f lease.Fence, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	c := claim.DeepCopy()
	c.UID, c.CreationTimestamp = s.uid(), metav1.NewTime(s.now())
	end := string(c.UID)
	c.Name = c.GenerateName[:min(len(c.GenerateName), mostOfGeneratedName)] + end[:min(len(end), 8)]
	c.GenerateName, c.ResourceVersion = "", ""
	objects.Default(c)
	ref := objects.RefOf(c)
	raw, err := encode(c)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", ref, err)
	}
	o := s.commitAll(ctx, opUpdate, f, []write{{key: s.keys.object(ref), value: raw}})[0]
	switch {
	case o.conflict:
		return nil, fmt.Errorf("create %s: %w: it is there", ref, objects.ErrConflict)
	case o.err != nil:
		return nil, fmt.Errorf("create %s: %w", ref, o.err)
	}
	c.ResourceVersion = strconv.FormatInt(o.revision, 10)
	return c, nil
}

// UpdateClaim replaces a claim that was read, and returns it as it is stored.
func (s *Store) UpdateClaim(ctx context.Context, f lease.Fence, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	revision, err := s.Update(ctx, f, []objects.Object{claim})
	if err != nil {
		return nil, err
	}
	c := *claim
	c.ResourceVersion = strconv.FormatInt(revision, 10)
	return &c, nil
}

// UnreserveClaim takes a pod from those that a claim is reserved for. A claim that is gone is no error.
func (s *Store) UnreserveClaim(ctx context.Context, f lease.Fence, claim *resourcev1.ResourceClaim, pod *v1.Pod) error {
	return s.settleClaim(ctx, f, claim, func(c *resourcev1.ResourceClaim, current *mvccpb.KeyValue) (*write, error) {
		list := slices.DeleteFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
		if len(list) == len(c.Status.ReservedFor) {
			return nil, nil
		}
		c.Status.ReservedFor = list
		raw, err := encode(c)
		return &write{key: string(current.Key), value: raw, seen: current.ModRevision}, err
	})
}

// DeleteClaim deletes a claim, whoever uses it. A claim that is gone is no error.
func (s *Store) DeleteClaim(ctx context.Context, f lease.Fence, claim *resourcev1.ResourceClaim) error {
	return s.settleClaim(ctx, f, claim, func(_ *resourcev1.ResourceClaim, current *mvccpb.KeyValue) (*write, error) {
		return &write{key: string(current.Key), seen: current.ModRevision}, nil
	})
}

// settleClaim commits what decide makes of a claim, if it is still there.
func (s *Store) settleClaim(ctx context.Context, f lease.Fence, claim *resourcev1.ResourceClaim,
	decide func(*resourcev1.ResourceClaim, *mvccpb.KeyValue) (*write, error)) error {
	_, err := s.settle(ctx, opUpdate, f, []objects.Ref{objects.RefOf(claim)}, func(_ int, current *mvccpb.KeyValue) (*write, error) {
		if current == nil {
			return nil, nil
		}
		obj, err := decode(current)
		if err != nil {
			return nil, err
		}
		if c, ok := obj.(*resourcev1.ResourceClaim); ok && c.UID == claim.UID {
			return decide(c, current)
		}
		return nil, nil
	})
	return err
}
