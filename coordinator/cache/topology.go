package cache

import (
	"maps"
	"math/bits"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// topologies is an index of the label keys that nodes have. Node changes alone keep it, so that a
// key that no node has costs one look-up, and no pod can fill it with keys of its own.
type topologies struct {
	byKey map[string]*topology
	// version moves where the answer of Topology or Domains may have become another. It begins with 1.
	version uint64
	// appeared are the keys that the first node got since they were taken.
	appeared []string
}

// topology is one label key over all nodes.
type topology struct {
	nodes int // that have it
	// values is how many nodes have each value; nil: there were more than fewValues, and nobody has
	// asked for the key.
	values map[string]int
	asked  bool
}

// fewValues is up to how many values of a key are counted whether somebody asks for the key or not: most keys
// have fewer. Those that have more, as kubernetes.io/hostname, take an entry for each node, and are counted from
// the first time that somebody asks, by a pass over all nodes: a cluster has few, and no tenant makes them.
const fewValues = 4096

// Topology tells what the nodes make of a label key.
func (c *Cache) Topology(key string) compile.Topology {
	t := c.topologies.byKey[key]
	if t == nil {
		return compile.Absent
	}
	t.asked = true
	if t.values == nil {
		t.values = make(map[string]int, t.nodes)
		for _, n := range c.nodes {
			if n.object == nil {
				continue
			}
			if value, ok := n.object.Labels[key]; ok {
				t.values[value]++
			}
		}
	}
	return t.told()
}

// Domains is how many values a label key has that nodes have, rounded up to a power of two.
func (c *Cache) Domains(key string) int {
	if c.Topology(key) == compile.Absent {
		return 0
	}
	return c.topologies.byKey[key].domains()
}

// TopologyVersion moves where Topology or Domains may answer otherwise than before.
func (c *Cache) TopologyVersion() uint64 { return c.topologies.version }

// HasTopology tells whether any node has a label key.
func (c *Cache) HasTopology(key string) bool { return c.topologies.byKey[key] != nil }

// TakeTopologies are the keys that no node had before, and a node has got since the last call.
func (c *Cache) TakeTopologies() []string {
	list := c.topologies.appeared
	c.topologies.appeared = nil
	return list
}

// told is what was or would be answered for a key that nodes have; compile.Shared as well for one
// that nobody has asked for.
func (t *topology) told() compile.Topology {
	if t.asked && len(t.values) == t.nodes {
		return compile.Unique
	}
	return compile.Shared
}

// domains is what was or would be answered for Domains; 0 for a key that nobody has asked for.
func (t *topology) domains() int {
	if !t.asked {
		return 0
	}
	return 1 << bits.Len(uint(len(t.values)-1))
}

// replace moves the counts from a node's old labels to its new ones; nil stands for none. New labels
// are put in first, so that a key does not vanish in between.
func (x *topologies) replace(old, now *v1.Node) {
	var before, after map[string]string
	if old != nil {
		before = old.Labels
	}
	if now != nil {
		after = now.Labels
	}
	if maps.Equal(before, after) {
		return
	}
	for key, value := range after {
		if was, had := before[key]; !had || was != value {
			x.put(key, value)
		}
	}
	for key, value := range before {
		if is, has := after[key]; !has || is != value {
			x.take(key, value)
		}
	}
}

func (x *topologies) put(key, value string) {
	t := x.byKey[key]
	if t == nil {
		t = &topology{values: map[string]int{}}
		x.byKey[key] = t
		x.appeared = append(x.appeared, key)
		x.version++
	}
	told, domains := t.told(), t.domains()
	t.nodes++
	if t.values != nil {
		if t.values[value]++; len(t.values) > fewValues && !t.asked {
			t.values = nil
		}
	}
	x.moved(t, told, domains)
}

func (x *topologies) take(key, value string) {
	t := x.byKey[key]
	if t == nil {
		return // the old object was changed in place
	}
	if t.nodes == 1 {
		delete(x.byKey, key)
		x.version++
		return
	}
	told, domains := t.told(), t.domains()
	t.nodes--
	if t.values != nil {
		if t.values[value]--; t.values[value] == 0 {
			delete(t.values, value)
		}
	}
	x.moved(t, told, domains)
}

func (x *topologies) moved(t *topology, told compile.Topology, domains int) {
	if t.told() != told || t.domains() != domains {
		x.version++
	}
}
