package cache

import v1 "k8s.io/api/core/v1"

// topology is one label key over all nodes: how many nodes have each value.
type topology struct {
	values map[string]int
	nodes  int
}

// followedTopologies bounds the keys that are followed: each costs a little with every node
// that changes, and pods name what keys they like.
const followedTopologies = 1024

// Topology tells how many distinct values a label has, and how many nodes carry it. A key
// is followed from the first time that it is asked for; where that makes too many, the
// others are counted anew when they are asked for again.
func (c *Cache) Topology(key string) (distinct, nodes int) {
	t := c.topologies[key]
	if t == nil {
		if len(c.topologies) >= followedTopologies {
			clear(c.topologies)
		}
		t = &topology{values: map[string]int{}}
		c.topologies[key] = t
		for _, n := range c.nodes {
			t.count(key, n.object, 1)
		}
	}
	return len(t.values), t.nodes
}

func (t *topology) count(key string, n *v1.Node, by int) {
	if n == nil {
		return
	}
	value, ok := n.Labels[key]
	if !ok {
		return
	}
	t.nodes += by
	if t.values[value] += by; t.values[value] == 0 {
		delete(t.values, value)
	}
}

// countTopologies moves the counts from a node's old labels to its new ones; nil stands
// for none.
func (c *Cache) countTopologies(old, now *v1.Node) {
	for key, t := range c.topologies {
		t.count(key, old, -1)
		t.count(key, now, 1)
	}
}
