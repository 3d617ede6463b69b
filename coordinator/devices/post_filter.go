package devices

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Plan is what PostFilter makes of an attempt that has found no node.
type Plan struct {
	// Text is the status' text.
	Text string
	// failed makes the status an error.
	failed bool
	// deallocate is a claim as it is to be written, with fewer users or without its devices; remove one to be deleted.
	deallocate, remove *resourcev1.ResourceClaim
}

// NoPlan is the plan for a pod that a PreFilter has refused. Where its own has, PostFilter knows of no claims; where an earlier one
// has, its own has not run, and PostFilter fails for want of its state.
func NoPlan(own bool) Plan {
	if own {
		return Plan{Text: nothingToFree}
	}
	return Plan{Text: stateMissing, failed: true}
}

// Status is what PostFilter says: Unschedulable unless it fails, so DefaultPreemption is asked, too.
func (p *Plan) Status() *fwk.Status {
	if p.failed {
		return fwk.NewStatus(fwk.Error, p.Text)
	}
	return fwk.NewStatus(fwk.Unschedulable, p.Text)
}

// IsNone tells whether there is nothing to carry out.
func (p *Plan) IsNone() bool { return p.deallocate == nil && p.remove == nil }

// The texts of a plan.
const (
	nothingToFree = "no new claims to deallocate"
	freed         = "deallocation of ResourceClaim completed"
	removed       = "deletion of ResourceClaim completed"
	notHelped     = "still not schedulable"
	stateMissing  = "not found"
)

// Plan says which claim of a pod is to give its devices back: one that some node which passed all filters before was
// refused for, and that nobody uses. unavailable are those claims, as the query's list of allocated claims counts them.
//
// Differs from upstream: of several claims the first is taken, where upstream takes any. The status says that it is done,
// while it is carried out behind the loop.
func (c *Cache) Plan(pod *v1.Pod, unavailable []int) Plan {
	r, err := c.resolve(pod)
	if err != nil || r.isNone() {
		return Plan{Text: nothingToFree}
	}
	n := 0
	for _, claim := range r.claims {
		if claim.Status.Allocation == nil {
			continue
		}
		if slices.Contains(unavailable, n) && isUsedByNobodyElse(claim, pod) && c.flights[claim.UID] == nil { // else a mate is to use it
			return Plan{Text: freed, deallocate: deallocated(claim)}
		}
		n++
	}
	if r.extended != nil && r.extended.stale != nil {
		return Plan{Text: removed, remove: r.extended.stale}
	}
	if p, ok := c.unreserved(pod); ok {
		return p
	}
	return Plan{Text: notHelped}
}

func isUsedByNobodyElse(claim *resourcev1.ResourceClaim, pod *v1.Pod) bool {
	list := claim.Status.ReservedFor
	return len(list) == 0 || len(list) == 1 && list[0].UID == pod.UID
}

func deallocated(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	claim = claim.DeepCopy()
	claim.Status = resourcev1.ResourceClaimStatus{}
	return claim
}

// CarryOut does what a plan says. It may be called on any goroutine.
func (b *Binder) CarryOut(ctx context.Context, p Plan) error {
	switch {
	case p.deallocate != nil:
		_, err := b.updateStatus(ctx, p.deallocate)
		return err
	case p.remove != nil:
		return b.Delete(ctx, p.remove)
	}
	return nil
}

// FreedBy are the plans for the claims of a pod that is gone, where there is no controller that frees them.
func (c *Cache) FreedBy(pod *v1.Pod) (plans []Plan) {
	for _, x := range objects.PodClaims(pod) {
		plans = c.freedBy(pod.UID, x.Ref, plans)
	}
	return plans
}

// FreedByPodGroup is FreedBy for a PodGroup.
func (c *Cache) FreedByPodGroup(g *v1alpha2.PodGroup) (plans []Plan) {
	for _, x := range objects.PodGroupClaims(g) {
		plans = c.freedBy(g.UID, x, plans)
	}
	return plans
}

// freedBy adds the plan for a claim of which a user is gone.
func (c *Cache) freedBy(user types.UID, of objects.Ref, plans []Plan) []Plan {
	claim := c.Claim(of.Namespace, of.Name)
	if claim == nil {
		return plans
	}
	switch now, over := objects.FreeClaim(claim, func(uid types.UID) bool { return uid == user }); {
	case over:
		return append(plans, Plan{remove: claim})
	case now != claim:
		return append(plans, Plan{deallocate: now})
	}
	return plans
}

// LeftBehind are the plans for the claims that were made for a pod's extended resources, and that its status does not name.
func (c *Cache) LeftBehind(pod *v1.Pod) (plans []Plan) {
	for _, name := range c.special[podKeyOf(pod)] {
		if told := pod.Status.ExtendedResourceClaimStatus; told == nil || told.ResourceClaimName != name {
			plans = append(plans, Plan{remove: c.Claim(pod.Namespace, name)})
		}
	}
	return plans
}

// CompletePlan does in memory what a plan says, where there is nowhere to write it. It returns the claim that has changed, or
// the one that is gone, for those who keep them.
func (c *Cache) CompletePlan(p Plan) (now, gone *resourcev1.ResourceClaim, told Changes) {
	switch {
	case p.deallocate != nil:
		c.replace(p.deallocate, &told)
	case p.remove != nil:
		c.deleteClaim(keyOf(p.remove), &told)
	}
	return p.deallocate, p.remove, told
}
