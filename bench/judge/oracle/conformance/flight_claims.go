package conformance

import (
	"errors"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// inFlight is a claim of devices between a decision and the API.
type inFlight struct {
	claim *resourcev1.ResourceClaim // with its devices
	// made is the claim that was made for a pod's extended resources, once the flight goes on until the API tells of that.
	made types.UID
}

// depart has claims be in flight for a pod.
func (t *tracker) depart(pod types.UID, claims []*resourcev1.ResourceClaim) error {
	var failed []error
	for _, claim := range claims {
		t.flights[pod] = append(t.flights[pod], &inFlight{claim: claim})
		failed = append(failed, t.hold(claim))
	}
	return errors.Join(failed...)
}

// hold has the devices of a claim in flight be in use.
func (t *tracker) hold(claim *resourcev1.ResourceClaim) error {
	return errors.Join(t.upstream.Depart(claim), t.own.depart(claim))
}

// free ends that.
func (t *tracker) free(claim *resourcev1.ResourceClaim) error {
	t.upstream.Land(claim.UID)
	return t.own.arrive(claim)
}

// finish ends those flights for a pod that a function picks.
func (t *tracker) finish(pod types.UID, over func(*inFlight) bool) error {
	var failed []error
	t.flights[pod] = slices.DeleteFunc(t.flights[pod], func(f *inFlight) bool {
		if !over(f) {
			return false
		}
		failed = append(failed, t.free(f.claim))
		return true
	})
	if len(t.flights[pod]) == 0 {
		delete(t.flights, pod)
	}
	return errors.Join(failed...)
}

// arrive ends the flight of a claim that has devices by now, or is gone.
//
// The claim that was made for a pod's extended resources has them as long as it is there, though its flight lasts until the bind
// is over: they do not count twice.
func (t *tracker) arrive(claim *resourcev1.ResourceClaim, gone bool) error {
	var failed []error
	for pod := range t.flights {
		failed = append(failed, t.finish(pod, func(f *inFlight) bool { return f.claim.UID == claim.UID || f.made == claim.UID }))
	}
	if owner := metav1.GetControllerOf(claim); owner != nil && isSpecial(claim) {
		for _, f := range t.flights[owner.UID] {
			switch {
			case !isSpecial(f.claim):
			case gone:
				failed = append(failed, t.hold(f.claim))
			default:
				failed = append(failed, t.free(f.claim))
			}
		}
	}
	return errors.Join(failed...)
}

// written ends the flights for a pod whose bind is over, as claims count by then. One that was made for the pod, and of which
// the API has not told, stays in flight.
func (t *tracker) written(pod types.UID, latest []*resourcev1.ResourceClaim) error {
	for _, claim := range latest {
		now, _ := t.others[objects.RefOf(claim)].(*resourcev1.ResourceClaim)
		switch {
		case now == nil && isSpecial(claim):
			err := t.finish(pod, func(f *inFlight) bool { return f.made != "" }) // of an attempt before
			if err != nil {
				return err
			}
			for _, f := range t.flights[pod] {
				if isSpecial(f.claim) {
					f.made = claim.UID
				}
			}
		case now != nil && now.UID == claim.UID && !newer(now, claim):
			if err := t.claim(claim); err != nil {
				return err
			}
		}
	}
	return t.finish(pod, func(f *inFlight) bool { return f.made == "" })
}

// claim has a claim count.
func (t *tracker) claim(now *resourcev1.ResourceClaim) error {
	t.others[objects.RefOf(now)] = now
	if now.Status.Allocation != nil {
		if err := t.arrive(now, false); err != nil { // first: the mirror frees the devices then
			return err
		}
		t.own.meet(now)
	}
	return t.apply(set(now))
}

// newer tells whether a claim is of a later version than another. Versions of a test's API server are numbers, as Kubernetes' are.
func newer(claim, than *resourcev1.ResourceClaim) bool {
	a, errA := strconv.ParseUint(claim.ResourceVersion, 10, 64)
	b, errB := strconv.ParseUint(than.ResourceVersion, 10, 64)
	return errA != nil || errB != nil || a > b
}

// takeOut takes the claims of devices out of a list.
func takeOut(list []objects.Object) (claims []*resourcev1.ResourceClaim, others []objects.Object) {
	for _, obj := range list {
		if claim, ok := obj.(*resourcev1.ResourceClaim); ok {
			claims = append(claims, claim)
		} else {
			others = append(others, obj)
		}
	}
	return claims, others
}

// given compares what a decision gives to claims with what upstream does, with configuration, nodes and shares.
func (c *comparison) given(ours []*resourcev1.ResourceClaim) {
	differs(c, c.decision.Node, "number of allocations", len(ours), len(c.allocated))
	for i := range min(len(ours), len(c.allocated)) {
		a, b := &resourcev1.ResourceClaim{}, &resourcev1.ResourceClaim{}
		a.Status.Allocation, b.Status.Allocation = ours[i].Status.Allocation, c.allocated[i].Status.Allocation
		differs(c, c.decision.Node, "allocation", contentOf(a), contentOf(b))
	}
}

// depart has the devices of a claim in flight be in use: another claim stands for it.
func (m *mirror) depart(claim *resourcev1.ResourceClaim) error {
	m.flying[claim.UID] = claim
	return m.apply(set(standIn(claim)))
}

// arrive ends a flight.
func (m *mirror) arrive(claim *resourcev1.ResourceClaim) error {
	delete(m.flying, claim.UID)
	return m.apply(Event{Type: Removed, Object: standIn(claim)})
}

// meet notes that a claim has got a device, from somebody else, that another has in flight. To the mirror both are claims, and the
// device is free once one is gone: from then on it can not be asked.
func (m *mirror) meet(claim *resourcev1.ResourceClaim) {
	taken := map[string]bool{}
	for _, f := range m.flying {
		for _, r := range f.Status.Allocation.Devices.Results {
			taken[deviceOf(&r)] = true
		}
	}
	m.blurred = m.blurred || slices.ContainsFunc(claim.Status.Allocation.Devices.Results,
		func(r resourcev1.DeviceRequestAllocationResult) bool { return r.ShareID == nil && taken[deviceOf(&r)] })
}

// awaits tells whether a pod has a claim in flight.
func (m *mirror) awaits(pod *v1.Pod) bool {
	named := objects.PodClaims(pod)
	for _, claim := range m.flying {
		if slices.ContainsFunc(named, func(c objects.PodClaim) bool { return c.Namespace == claim.Namespace && c.Name == claim.Name }) {
			return true
		}
	}
	return false
}

func standIn(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	name := "in-flight-" + string(claim.UID)
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: name, UID: types.UID(name)},
		Spec:       claim.Spec, Status: resourcev1.ResourceClaimStatus{Allocation: claim.Status.Allocation},
	}
}
