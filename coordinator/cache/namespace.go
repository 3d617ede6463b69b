package cache

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

// In yields the pods of a namespace that are seen or assumed on a node, in no order. Pods may come and go meanwhile:
// those that come are not yielded, and others at times twice.
func (c *Cache) In(namespace string) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		list := c.byNamespace[namespace]
		if list == nil {
			return
		}
		// The last takes the place of one that goes.
		for i := len(*list) - 1; i >= 0; i = min(i, len(*list)) - 1 {
			if !yield((*list)[i].object) {
				return
			}
		}
	}
}
