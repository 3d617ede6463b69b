package cache

import (
	"maps"
	"slices"
)

// priorities counts pods by priority.
type priorities struct {
	pods map[int32]int
	// lowest is the lowest there is, unless stale.
	lowest int32
	stale  bool
}

func (x *priorities) add(p int32) {
	if x.pods == nil {
		x.pods = map[int32]int{}
	}
	if !x.stale && (len(x.pods) == 0 || p < x.lowest) {
		x.lowest = p
	}
	x.pods[p]++
}

func (x *priorities) remove(p int32) {
	if x.pods[p]--; x.pods[p] > 0 {
		return
	}
	delete(x.pods, p)
	x.stale = len(x.pods) > 0 && (x.stale || p == x.lowest)
}

// below tells whether there is a pod of less than a priority.
func (x *priorities) below(p int32) bool {
	if len(x.pods) == 0 {
		return false
	}
	if x.stale {
		x.lowest, x.stale = slices.Min(slices.Collect(maps.Keys(x.pods))), false
	}
	return x.lowest < p
}

// HasBelow tells whether a pod that is seen or assumed on a node has less than a priority.
func (c *Cache) HasBelow(priority int32) bool { return c.priorities.below(priority) }
