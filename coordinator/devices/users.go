package devices

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxUsers is how many claims of a device, and pods of a claim, are named.
const maxUsers = 3

// PoolUse is how many devices a pool has at its newest generation, and how many of its devices are in use.
type PoolUse struct {
	Driver         string
	Devices, InUse int
}

// Pools yields every pool.
func (c *Cache) Pools(yield func(PoolUse) bool) {
	for key, p := range c.pools {
		newest, n := int64(math.MinInt64), 0
		for _, s := range p.slices {
			switch g := s.Spec.Pool.Generation; {
			case g > newest:
				newest, n = g, len(s.Spec.Devices)
			case g == newest:
				n += len(s.Spec.Devices)
			}
		}
		if !yield(PoolUse{key.driver, n, len(p.uses)}) {
			return
		}
	}
}

// HasDevices yields of every claim whether it has its devices, or is about to be given them.
func (c *Cache) HasDevices(yield func(bool) bool) {
	for _, claim := range c.claims {
		if !yield(claim.Status.Allocation != nil || c.flights[claim.UID] != nil) {
			return
		}
	}
}

// Slices yields every slice.
func (c *Cache) Slices(yield func(*resourcev1.ResourceSlice) bool) {
	for _, s := range c.slices {
		if !yield(s) {
			return
		}
	}
}

// Holding is the devices that a claim has, or is about to be given.
type Holding struct {
	Claim   types.NamespacedName
	Devices []resourcev1.DeviceRequestAllocationResult
}

// Holdings yields the devices of every claim. Those in flight come first: a flight that lands meanwhile is found among the claims.
func (c *Cache) Holdings(yield func(Holding) bool) {
	for _, f := range c.flights {
		if !yield(f.Holding) {
			return
		}
	}
	for key, claim := range c.claims {
		if a := claim.Status.Allocation; a != nil && !yield(Holding{key, a.Devices.Results}) {
			return
		}
	}
}

// Users words who has a device, or shares of it: the claims, and the pods that these are reserved for; "": nobody.
func (c *Cache) Users(d Device) string {
	holders := c.Holders(d)
	slices.SortFunc(holders, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var list []string
	for _, key := range slices.Compact(holders) {
		list = append(list, "claim "+key.String()+" ("+podsOf(c.claims[key])+")")
	}
	if len(list) == 0 {
		return ""
	}
	return "in use by " + some(list, ", ")
}

// podsOf words who has a claim.
func podsOf(claim *resourcev1.ResourceClaim) string {
	if claim == nil || claim.Status.Allocation == nil {
		return "its pod is being bound"
	}
	var list []string
	for _, r := range claim.Status.ReservedFor {
		if r.Resource == "pods" {
			list = append(list, "pod "+claim.Namespace+"/"+r.Name)
		} else {
			list = append(list, r.Resource+" "+r.Name)
		}
	}
	if len(list) == 0 {
		return "no pod uses it"
	}
	return some(list, ", ")
}

// some joins the first of a list, and says how many follow.
func some(list []string, by string) string {
	if n := len(list) - maxUsers; n > 0 {
		list = append(list[:maxUsers:maxUsers], fmt.Sprintf("%d more", n))
	}
	return strings.Join(list, by)
}
