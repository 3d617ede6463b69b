package devices

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func keyOf(c *resourcev1.ResourceClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// newer tells whether a resourceVersion stands for more than another. One that is no number is taken for new.
func newer(version, than string) bool {
	a, errA := strconv.ParseInt(version, 10, 64)
	b, errB := strconv.ParseInt(than, 10, 64)
	return errA != nil || errB != nil || a > b
}

// setClaim takes in the API's claim. What PreBind has written counts already, so that its echo, and what was
// written before it, change nothing.
func (c *Cache) setClaim(now *resourcev1.ResourceClaim, told *Changes) {
	if old := c.claims[keyOf(now)]; old != nil && old.UID == now.UID && !newer(now.ResourceVersion, old.ResourceVersion) {
		return
	}
	c.replace(now, told)
}

// assume has a claim count as it was written, unless the API has told of a newer version, or that it is gone.
func (c *Cache) assume(written *resourcev1.ResourceClaim, told *Changes) {
	old := c.claims[keyOf(written)]
	if old == nil || old.UID != written.UID || newer(old.ResourceVersion, written.ResourceVersion) {
		return
	}
	c.replace(written, told)
}

// replace has a claim count in place of the one of its name. A claim that is replaced by another of its name
// frees what that one had.
//
// Differs from upstream: there, devices of a claim that is deleted and made again unseen stay taken.
func (c *Cache) replace(now *resourcev1.ResourceClaim, told *Changes) {
	key := keyOf(now)
	old := c.claims[key]
	change := ClaimChange{Old: old, Now: now}
	if old != nil && old.UID != now.UID {
		c.forget(old, told)
		old = nil
	}
	c.claims[key] = now
	if old == nil {
		c.special.add(now)
	}
	had, has := old != nil && old.Status.Allocation != nil, now.Status.Allocation != nil
	if !had && has {
		c.take(usesOf(now.Status.Allocation), key, false, told)
	}
	if had && !has {
		c.give(usesOf(old.Status.Allocation), false, told)
	}
	if has {
		c.land(now, told)
	}
	c.apiView.set(now)
	told.Claims = append(told.Claims, change)
}

func (c *Cache) deleteClaim(key types.NamespacedName, told *Changes) {
	if old := c.claims[key]; old != nil {
		c.forget(old, told)
		told.Claims = append(told.Claims, ClaimChange{Old: old})
	}
}

// forget drops a claim.
func (c *Cache) forget(old *resourcev1.ResourceClaim, told *Changes) {
	delete(c.claims, keyOf(old))
	c.special.remove(old)
	c.give(usesOf(old.Status.Allocation), false, told)
	c.land(old, told)
	c.apiView.delete(keyOf(old))
}

// special finds the claims for extended resources by the pod that controls them, sorted by name.
//
// Differs from upstream: a claim of another namespace than the pod's is none of the pod's. There it keeps the pod from being
// scheduled, whoever has made it.
type special map[podKey][]string

type podKey struct {
	types.NamespacedName
	uid types.UID
}

// ownerOf is the pod that a claim for extended resources is for; false: the claim is another.
func ownerOf(c *resourcev1.ResourceClaim) (podKey, bool) {
	if c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return podKey{}, false
	}
	o := metav1.GetControllerOfNoCopy(c)
	if o == nil {
		return podKey{}, false
	}
	return podKey{types.NamespacedName{Namespace: c.Namespace, Name: o.Name}, o.UID}, true
}

func podKeyOf(p *v1.Pod) podKey {
	return podKey{types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p.UID}
}

func (s special) add(c *resourcev1.ResourceClaim) {
	if pod, is := ownerOf(c); is {
		if i, found := slices.BinarySearch(s[pod], c.Name); !found {
			s[pod] = slices.Insert(s[pod], i, c.Name)
		}
	}
}

func (s special) remove(c *resourcev1.ResourceClaim) {
	pod, is := ownerOf(c)
	if !is {
		return
	}
	if i, found := slices.BinarySearch(s[pod], c.Name); found {
		if s[pod] = slices.Delete(s[pod], i, i+1); len(s[pod]) == 0 {
			delete(s, pod)
		}
	}
}
