package cache

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

// NodeDump is what is known of a node.
type NodeDump struct {
	Name   string
	Object *v1.Node // nil: only its pods are known
	Pods   []*v1.Pod
}

// Dump lists all nodes and the pods that are seen or assumed on them, in no order.
func (c *Cache) Dump() iter.Seq[NodeDump] {
	return func(yield func(NodeDump) bool) {
		for _, n := range c.nodes {
			d := NodeDump{Name: n.name, Object: n.object, Pods: make([]*v1.Pod, 0, len(n.pods))}
			for _, p := range n.pods {
				d.Pods = append(d.Pods, p.object)
			}
			if !yield(d) {
				return
			}
		}
	}
}
