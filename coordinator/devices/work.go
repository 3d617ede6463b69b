package devices

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Work is what a placement has to do about a pod's claims before the pod is bound. It is made by Reserve and
// ended by Settle or Unreserve. A nil Work has nothing to do.
//
// The scheduling goroutine makes it, hands it to one binding goroutine, and looks at it again only after that
// is done.
type Work struct {
	pod    *v1.Pod
	node   string
	claims []*claimWork
	// podStatus is what the bind is to write into the pod's status; nil: nothing.
	podStatus *v1.PodExtendedResourceClaimStatus

	// wake tells the binding goroutine that a claim is another.
	wake chan struct{}
	// watched are the claims that the API view has it for; guarded by the API view's lock.
	watched []types.NamespacedName
}

// claimWork is a claim of a Work.
type claimWork struct {
	// claim is as the attempt saw it, and then as PreBind has written it. The claim for extended resources has no name
	// of its own until PreBind has made it.
	claim *resourcev1.ResourceClaim
	// allocation is what the claim gets; nil: it has one.
	allocation *resourcev1.AllocationResult
	flight     *flight
	// consumer is whom the claim is reserved for. joint: other pods of its PodGroup may share the allocation. shared: it is one that another
	// of them has got.
	consumer      resourcev1.ResourceClaimConsumerReference
	joint, shared bool
	// mappings are of the claim for extended resources.
	special  bool
	mappings []v1.ContainerExtendedResourceRequest

	// written: PreBind has written claim. open: it can not tell whether a write has come to pass. deleted: the claim, made by
	// PreBind, is deleted again.
	written, open, deleted bool
}

// PreBindNeeded tells whether there is something to do: upstream's PreFlight says so of each pod with claims.
func (w *Work) PreBindNeeded() bool { return w != nil }

// PodStatus is what the bind is to write into the pod's status, after PreBind; nil: nothing.
func (w *Work) PodStatus() *v1.PodExtendedResourceClaimStatus {
	if w == nil {
		return nil
	}
	return w.podStatus
}

// Allocated are the claims that get devices with the placement, in the pod's order, the one for extended resources last, without a name.
func (w *Work) Allocated() (out []*pb.ClaimDevices) {
	if w == nil {
		return nil
	}
	for _, x := range w.claims {
		if x.allocation == nil || x.shared {
			continue
		}
		c := &pb.ClaimDevices{}
		if !x.special {
			c.Claim = keyOf(x.claim).String()
		}
		for i := range x.allocation.Devices.Results {
			r := &x.allocation.Devices.Results[i]
			c.Devices = append(c.Devices, r.Request+"/"+r.Driver+"/"+r.Pool+"/"+r.Device)
		}
		out = append(out, c)
	}
	return out
}

// InFlight are the claims that get devices with the placement, with those.
func (w *Work) InFlight() (out []objects.Object) {
	if w == nil {
		return nil
	}
	for _, x := range w.claims {
		if x.allocation != nil && !x.shared {
			claim := *x.claim
			claim.Status.Allocation = x.allocation
			out = append(out, &claim)
		}
	}
	return out
}

// Written are the claims that PreBind has written, as they are kept, but for those that are deleted again.
func (w *Work) Written() (out []objects.Object) {
	if w == nil {
		return nil
	}
	for _, x := range w.claims {
		if x.stays() {
			out = append(out, x.claim)
		}
	}
	return out
}

// stays tells whether a claim is kept as PreBind has written it.
func (x *claimWork) stays() bool { return x.written && !x.deleted }

// isReserved tells whether a pod or PodGroup is among those that a claim is reserved for.
func isReserved(claim *resourcev1.ResourceClaim, consumer types.UID) bool {
	for i := range claim.Status.ReservedFor {
		if claim.Status.ReservedFor[i].UID == consumer {
			return true
		}
	}
	return false
}

func consumer(pod *v1.Pod) resourcev1.ResourceClaimConsumerReference {
	return resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
}
