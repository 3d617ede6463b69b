package conformance

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// everAfter is a time that no clock comes to: what waits since then waits for ever.
const everAfter = 2_000_000_000

// allocated stores a claim that a scheduler has given devices. Whatever the clock says, it has not waited too
// long for them.
func (a *apiServer) allocated(claim *resourcev1.ResourceClaim) Event {
	claim = claim.DeepCopy()
	claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Unix(everAfter, 0)}
	return a.put(claim)
}

// claimsOfDevices are the claims that there are, sorted by name.
func (a *apiServer) claimsOfDevices() (out []*resourcev1.ResourceClaim) {
	for _, obj := range a.objects {
		if claim, ok := obj.(*resourcev1.ResourceClaim); ok {
			out = append(out, claim)
		}
	}
	slices.SortFunc(out, func(x, y *resourcev1.ResourceClaim) int {
		return strings.Compare(x.Namespace+"/"+x.Name, y.Namespace+"/"+y.Name)
	})
	return out
}

// reclaim does what the controller of claims and the garbage collector do: claims are reserved for pods
// that there are, lose their devices with the last of them, and go with their owner.
func (a *apiServer) reclaim() (out Round) {
	return a.reclaimFrom(func(uid types.UID) bool { return !a.runs(uid) })
}

// reclaimFrom does it for pods that are gone.
func (a *apiServer) reclaimFrom(gone func(types.UID) bool) (out Round) {
	for _, claim := range a.claimsOfDevices() {
		if owner := metav1.GetControllerOf(claim); owner != nil && owner.UID != "somebody" && gone(owner.UID) {
			delete(a.objects, keyOf(claim))
			out = append(out, Event{Type: Removed, Object: claim})
			continue
		}
		now := claim.DeepCopy()
		now.Status.ReservedFor = slices.DeleteFunc(now.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
			return r.Resource == "pods" && gone(r.UID)
		})
		switch {
		case len(now.Status.ReservedFor) == len(claim.Status.ReservedFor):
		case len(now.Status.ReservedFor) == 0:
			now.Status, now.Finalizers = resourcev1.ResourceClaimStatus{}, nil
			if now.DeletionTimestamp != nil {
				delete(a.objects, keyOf(claim))
				out = append(out, Event{Type: Removed, Object: claim})
				continue
			}
			fallthrough
		default:
			out = append(out, a.put(now))
		}
	}
	return out
}

// runs tells whether a pod is there and has not come to its end. One that has yet to come counts.
func (a *apiServer) runs(uid types.UID) bool {
	pod, ok := a.objects[keyOf(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})].(*v1.Pod)
	if !ok {
		return !a.seen[uid]
	}
	return pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed
}

// removeClaim deletes a claim, or, while it is in use, has it wait for that.
func (a *apiServer) removeClaim(claim *resourcev1.ResourceClaim) Round {
	if len(claim.Finalizers) == 0 {
		delete(a.objects, keyOf(claim))
		return Round{{Type: Removed, Object: claim}}
	}
	if claim.DeletionTimestamp != nil {
		return nil
	}
	claim = claim.DeepCopy()
	claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(epoch+100, 0)}
	return Round{a.put(claim)}
}

// isInTheWay tells whether an object is a claim, and another of its name has yet to go.
func (a *apiServer) isInTheWay(obj oracle.Object) bool {
	now, ok := a.objects[keyOf(obj)].(*resourcev1.ResourceClaim)
	return ok && now.UID != obj.GetUID()
}

// settleDevices lets drivers tell of devices that are to be made ready: one in three is left alone for now, and one
// in six fails.
func (a *apiServer) settleDevices(fate uint64) (out Round) {
	for _, claim := range a.claimsOfDevices() {
		if claim.Status.Allocation == nil || len(claim.Status.Devices) > 0 || !slices.ContainsFunc(claim.Status.Allocation.Devices.Results,
			func(r resourcev1.DeviceRequestAllocationResult) bool { return len(r.BindingConditions) > 0 }) {
			continue
		}
		h := fnv.New64a()
		fmt.Fprint(h, fate, claim.Name)
		n := h.Sum64() % 6
		if n < 2 {
			continue
		}
		claim = claim.DeepCopy()
		if n == 2 {
			report(claim, "failed")
		} else {
			report(claim, "ready")
		}
		out = append(out, a.put(claim))
	}
	return out
}

// report has drivers tell of all devices of a claim that a condition holds.
func report(claim *resourcev1.ResourceClaim, condition string) {
	for _, r := range claim.Status.Allocation.Devices.Results {
		claim.Status.Devices = append(claim.Status.Devices, resourcev1.AllocatedDeviceStatus{
			Driver: r.Driver, Pool: r.Pool, Device: r.Device,
			Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "Told", Message: "by the driver"}},
		})
	}
}

// freed takes in what PostFilter writes of claims, and deletes.
func (a *apiServer) freed(p *oracle.Preemption) (out Round) {
	for _, obj := range p.Written {
		out = append(out, a.put(obj))
	}
	for _, obj := range p.Deleted {
		if now := a.objects[keyOf(obj)]; now != nil {
			delete(a.objects, keyOf(obj))
			out = append(out, Event{Type: Removed, Object: now})
		}
	}
	return out
}
