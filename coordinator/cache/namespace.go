package cache

import v1 "k8s.io/api/core/v1"

// EachIn calls f for the pods of a namespace that are on a node or promised to one, in no order.
func (c *Cache) EachIn(namespace string, f func(*v1.Pod)) {
	list := c.byNamespace[namespace]
	if list == nil {
		return
	}
	for _, p := range *list {
		f(p.object)
	}
}
