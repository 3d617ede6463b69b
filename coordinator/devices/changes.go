package devices

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Changes is what has changed by one object, placement or outcome: for the tables and for the queue.
type Changes struct {
	// Claims are those that count another way from now on. Each is an event of the queue.
	Claims []ClaimChange

	slices map[placedSlice]bool
	uses   map[placedDevice]bool
	// flights tells that a flight has begun or ended: with admin access it uses no device.
	flights bool
}

// ClaimChange is a claim before and after: Old is nil where it is new, Now where it is gone. Where a claim was deleted and made
// again unseen, they have different uids.
type ClaimChange struct{ Old, Now *resourcev1.ResourceClaim }

// SpecialFor is the pod whose extended resources the claim was for that is gone; empty: it was another claim.
func (x *ClaimChange) SpecialFor() types.UID {
	pod, _ := ownerOf(x.Old)
	return pod.uid
}

type placedSlice struct {
	place place
	pool  poolKey
	name  string
}

type placedDevice struct {
	place  place
	device Device
}

// slice notes that a slice is new, another, or gone, at a place.
func (t *Changes) slice(at place, pool poolKey, name string) {
	if at.kind != nowhere {
		t.slices = noted(t.slices, placedSlice{at, pool, name})
	}
}

// use notes that another part of a device than before is in use, at a place.
func (t *Changes) use(at place, d Device) {
	if at.kind != nowhere {
		t.uses = noted(t.uses, placedDevice{at, d})
	}
}

func noted[K comparable](in map[K]bool, key K) map[K]bool {
	if in == nil {
		in = map[K]bool{}
	}
	in[key] = true
	return in
}

// PlacedSlice is a slice as the tables have to have it.
type PlacedSlice struct {
	// Node is whose own the slice is; "": it is shared.
	Node, Driver, Pool, Name string
	// Message is nil where the slice is gone, or belongs elsewhere now.
	Message *pb.DeviceSlice
}

// Slices are those that the tables have to be told of, those that are gone first, each list ordered by node and name.
// One that no message can be made of, for it is larger than Kubernetes lets in, is told as gone, with an error.
func (t *Changes) Slices(c *Cache) (out []PlacedSlice, err error) {
	keys := slices.SortedFunc(maps.Keys(t.slices), func(a, b placedSlice) int {
		return cmp.Or(strings.Compare(a.place.node, b.place.node), a.pool.compare(b.pool), strings.Compare(a.name, b.name))
	})
	var there []PlacedSlice
	for _, k := range keys {
		x := PlacedSlice{Node: k.place.node, Driver: k.pool.driver, Pool: k.pool.name, Name: k.name}
		if p := c.pools[k.pool]; p != nil && p.place == k.place && p.slices[k.name] != nil {
			m := sliceMessage(p.slices[k.name], k.place.kind == local)
			if bad := m.Validate(); bad != nil {
				err = errors.Join(err, fmt.Errorf("ResourceSlice %s: %w", k.name, bad))
			} else {
				x.Message = m
				there = append(there, x)
				continue
			}
		}
		out = append(out, x)
	}
	return append(out, there...), err
}

// PlacedUse is what is in use of a device now, on its node; "": the device is shared.
type PlacedUse struct {
	Node string
	*pb.DeviceUse
}

// Uses are the devices of which another part is in use, ordered by node and name.
func (t *Changes) Uses(c *Cache) (out []PlacedUse) {
	keys := slices.SortedFunc(maps.Keys(t.uses), func(a, b placedDevice) int {
		return cmp.Or(strings.Compare(a.place.node, b.place.node),
			a.device.pool().compare(b.device.pool()), strings.Compare(a.device.Name, b.device.Name))
	})
	for _, k := range keys {
		var u *usage
		if p := c.pools[k.device.pool()]; p != nil && p.place == k.place {
			u = p.uses[k.device.Name]
		}
		out = append(out, PlacedUse{k.place.node, k.device.message(u)})
	}
	return out
}

// IsNone tells whether nothing has changed.
func (t *Changes) IsNone() bool {
	return len(t.Claims)+len(t.slices)+len(t.uses) == 0 && !t.flights
}
