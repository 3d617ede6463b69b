package cache

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

// Objects gives the nodes, by shard and row.
func (c *Cache) Objects() iter.Seq[*v1.Node] {
	return func(yield func(*v1.Node) bool) {
		for _, s := range c.shards {
			for row := range s.table.All() {
				if n := c.nodes[s.table.Name(row)]; n != nil && n.object != nil && !yield(n.object) {
					return
				}
			}
		}
	}
}
