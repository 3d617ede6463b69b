package devices

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// flight is an allocation between the decision and the API: Reserve has made it, and no claim has it yet.
type flight struct {
	Holding
	uid  types.UID // of the claim; of one that is in memory only, a made-up one
	uses []Use
	// holders is how many entries of the pod are for the claim.
	holders int
	// result is what the claim gets. mates are the PodGroup whose pods share it, as namespace/name, and group is its uid, where the claim is
	// its own; empty: nobody shares it.
	result *resourcev1.AllocationResult
	mates  string
	group  types.UID
	// made is the uid of the claim that PreBind has made, where the flight waits for the API to tell of it.
	made types.UID
}

// launch begins a flight, or joins the one that the claim has: a pod may name a claim twice.
func (c *Cache) launch(claim *resourcev1.ResourceClaim, a *resourcev1.AllocationResult, told *Changes) *flight {
	f := c.flights[claim.UID]
	if f == nil {
		f = &flight{uid: claim.UID, Holding: Holding{Claim: keyOf(claim)}}
		c.flights[claim.UID] = f
		told.flights = true
	}
	f.holders++
	uses := usesOf(a)
	f.uses, f.Devices = append(f.uses, uses...), append(f.Devices, a.Devices.Results...)
	c.take(uses, keyOf(claim), true, told)
	return f
}

// shareWith has the pods of a PodGroup share the flight: the mates of the pod whose it is, or all of the PodGroup that is the consumer of
// the claim.
func (f *flight) shareWith(mates string, by resourcev1.ResourceClaimConsumerReference, a *resourcev1.AllocationResult) {
	if f.result, f.mates = a, mates; by.Resource == podGroups {
		f.group = by.UID
	}
}

// drop ends a flight, once its last holder has; nil: there is none. One that has ended stays so.
func (c *Cache) drop(f *flight, told *Changes) {
	if f == nil || c.flights[f.uid] != f {
		return
	}
	if f.holders--; f.holders == 0 {
		c.end(f, told)
	}
}

func (c *Cache) end(f *flight, told *Changes) {
	delete(c.flights, f.uid)
	told.flights = true
	c.give(f.uses, true, told)
}

// await has a flight go on until the API tells of the claim that PreBind has made for a pod, or of the pod's end.
//
// Differs from upstream: there, PreBind waits for that, up to two minutes, and then gives up on it.
func (c *Cache) await(f *flight, pod, made types.UID, told *Changes) {
	if f == nil || c.flights[f.uid] != f {
		return
	}
	c.podGone(pod, told) // of an attempt before
	f.made = made
	c.landing[pod] = f
}

// land ends the flight of a claim that the API has told of: that it is allocated, or gone.
func (c *Cache) land(claim *resourcev1.ResourceClaim, told *Changes) {
	if f := c.flights[claim.UID]; f != nil {
		c.end(f, told)
	}
	if pod, is := ownerOf(claim); is {
		if f := c.landing[pod.uid]; f != nil && f.made == claim.UID {
			c.podGone(pod.uid, told)
		}
	}
}

// podGone ends the flight of the claim that was made for a pod.
func (c *Cache) podGone(pod types.UID, told *Changes) {
	if f := c.landing[pod]; f != nil {
		delete(c.landing, pod)
		c.drop(f, told)
	}
}
