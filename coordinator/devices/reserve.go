package devices

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reserve gives the devices that the table has found on the chosen node to the pod's claims: found has those of the claims
// without devices, in the order of the query, and extended those of the claim for extended resources, nil where the
// query has none or the node has nothing of them from devices. The allocations are in flight then: nobody else gets the
// devices. It returns nil where the pod has no claims. An error leaves everything as it was.
//
// Differs from upstream: where a node serves all extended resources by itself, a pod with claims of its own gets no
// claim for them. There, such a claim without requests is made, and the pod is never bound.
func (c *Cache) Reserve(pod *v1.Pod, node string, found []Found, extended *FoundExtended) (*Work, Changes, error) {
	var told Changes
	r, err := c.resolve(pod)
	if err == nil && r.isNone() {
		return nil, told, nil
	}
	var w *Work
	if err == nil {
		w, err = c.plan(pod, node, r, found)
	}
	if err == nil && extended != nil && len(extended.Requests) > 0 {
		err = c.planExtended(w, r, extended)
	}
	if err != nil {
		return nil, told, fmt.Errorf("reserve devices of pod %s/%s on node %s: %w", pod.Namespace, pod.Name, node, err)
	}
	for _, x := range w.claims {
		switch {
		case x.allocation == nil:
		case x.shared:
			x.flight = c.flights[x.claim.UID]
			x.flight.holders++
		default:
			x.flight = c.launch(x.claim, x.allocation, &told)
			x.flight.shareWith(c.matesOf(pod), x.consumer, x.allocation)
		}
	}
	c.apiView.open(w)
	return w, told, nil
}

// plan finds what each claim that the pod names gets.
func (c *Cache) plan(pod *v1.Pod, node string, r *resolved, found []Found) (*Work, error) {
	w := &Work{pod: pod, node: node, wake: make(chan struct{}, 1)}
	want := 0
	for i, claim := range r.claims {
		x := &claimWork{claim: claim, consumer: r.consumers[i], joint: r.consumers[i].Resource == podGroups || c.matesOf(pod) != ""}
		w.claims = append(w.claims, x)
		if known := c.claims[keyOf(claim)]; known != claim { // it has what is in flight
			x.claim, x.allocation, x.shared = known, claim.Status.Allocation, true
		}
		if claim.Status.Allocation != nil {
			continue
		}
		if want++; want > len(found) {
			continue
		}
		var err error
		if x.allocation, err = c.result(claim, node, &found[want-1]); err != nil {
			return nil, err
		}
	}
	if want != len(found) {
		return nil, fmt.Errorf("internal error, have %d allocations, %d claims to allocate", len(found), want)
	}
	return w, nil
}

// planExtended adds the claim for extended resources.
func (c *Cache) planExtended(w *Work, r *resolved, f *FoundExtended) error {
	if r.extended == nil || r.extended.stale != nil {
		return errors.New("internal error, have devices for extended resources that nobody asks for")
	}
	claim, mappings := nodeClaim(w.pod, c.cfg.NewUID(), f)
	a, err := c.result(claim, w.node, &f.Found)
	if err != nil {
		return err
	}
	w.claims = append(w.claims, &claimWork{claim: claim, consumer: consumer(w.pod), allocation: a, special: true, mappings: mappings})
	return nil
}

// Settle ends the work of a pod that is bound: what PreBind has written counts at once, before the API tells of it.
func (c *Cache) Settle(w *Work) (told Changes) {
	c.finish(w, &told)
	return told
}

// Unreserve ends the work of a pod that is not bound. It comes after Binder.Undo. What was written stays: the claim keeps its
// devices. Devices whose allocation was not written are free again.
//
// Differs from upstream: it tells of such a claim as one that has lost its devices, so that pods which wait for one are
// tried at once. Upstream's wait until something else happens to a claim.
func (c *Cache) Unreserve(w *Work) (told Changes) {
	for _, x := range c.finish(w, &told) {
		if x.stays() {
			continue
		}
		had := x.claim.DeepCopy()
		had.Status.Allocation = x.allocation
		now := x.claim.DeepCopy()
		now.Status.Allocation = nil
		told.Claims = append(told.Claims, ClaimChange{Old: had, Now: now})
	}
	return told
}

// finish ends a work, and returns those claims of it whose flight has ended with it.
func (c *Cache) finish(w *Work, told *Changes) (landed []*claimWork) {
	if w == nil {
		return nil
	}
	c.apiView.close(w)
	for _, x := range w.claims {
		if x.stays() {
			c.assume(x.claim, told)
		}
		switch {
		case x.flight == nil || c.flights[x.flight.uid] != x.flight:
		case x.special && x.stays() && c.claims[keyOf(x.claim)] == nil:
			c.await(x.flight, w.pod.UID, x.claim.UID, told)
		default:
			c.drop(x.flight, told)
			landed = append(landed, x)
		}
	}
	goesOn := func(x *claimWork) bool { return c.flights[x.flight.uid] == x.flight } // a mate has it still
	return slices.DeleteFunc(landed, goesOn)
}

// Complete does the work of a placement in memory, where there is nowhere to write it. It returns the claims that changed,
// for those who keep them, and what the pod's status is to say of the claim for its extended resources; nil: it has none.
func (c *Cache) Complete(w *Work) (claims []*resourcev1.ResourceClaim, status *v1.PodExtendedResourceClaimStatus, told Changes) {
	if w == nil {
		return nil, nil, told
	}
	for _, x := range w.claims {
		if x.joint {
			if now := c.claims[keyOf(x.claim)]; now != nil && now.UID == x.claim.UID {
				x.claim = now // another pod of the PodGroup may have completed it
			}
		}
		if isReserved(x.claim, x.consumer.UID) {
			continue
		}
		claim := x.claim.DeepCopy()
		if x.special {
			claim.UID = c.cfg.NewUID()
			claim.Name = claim.GenerateName + string(claim.UID)
			status = &v1.PodExtendedResourceClaimStatus{RequestMappings: x.mappings, ResourceClaimName: claim.Name}
		}
		complete(claim, x.allocation, x.consumer, c.cfg.Now())
		claims = append(claims, claim)
		c.replace(claim, &told)
	}
	c.finish(w, &told)
	return claims, status, told
}

// complete writes what PreBind writes into a claim.
func complete(claim *resourcev1.ResourceClaim, a *resourcev1.AllocationResult, by resourcev1.ResourceClaimConsumerReference,
	now time.Time) {
	if a != nil && claim.Status.Allocation == nil {
		claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
		slices.Sort(claim.Finalizers)
		claim.Finalizers = slices.Compact(claim.Finalizers)
		claim.Status.Allocation = a.DeepCopy()
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, by)
	if at := &claim.Status.Allocation.AllocationTimestamp; *at == nil {
		*at = &metav1.Time{Time: now}
	}
}
