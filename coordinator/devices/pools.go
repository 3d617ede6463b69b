package devices

import (
	"cmp"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

type poolKey struct{ driver, name string }

func (k poolKey) compare(o poolKey) int {
	return cmp.Or(strings.Compare(k.driver, o.driver), strings.Compare(k.name, o.name))
}

// pool is the slices of a pool, of all generations, and what of its devices is in use.
type pool struct {
	key    poolKey
	slices map[string]*resourcev1.ResourceSlice
	// onNode counts the slices that name a node, by node; others is how many name none.
	onNode map[string]int
	others int
	// tallies are of the generations with counters; nil: there are none.
	tallies map[int64]*tally
	place   place
	// uses are those of devices, by name. A device may be in use whose slice is not known, or gone.
	uses map[string]*usage
}

// place is where a pool's slices are told of.
type place struct {
	kind placeKind
	node string
}

type placeKind uint8

const (
	nowhere placeKind = iota // the pool has no slices
	local                    // all slices name one node, and no other node need know of them
	shared                   // any other: all nodes know of the slices
)

func (p *pool) usage(device string) *usage {
	u := p.uses[device]
	if u == nil {
		if p.uses == nil {
			p.uses = map[string]*usage{}
		}
		u = &usage{}
		p.uses[device] = u
	}
	return u
}

// poolOf finds or makes a pool.
func (c *Cache) poolOf(k poolKey) *pool {
	p := c.pools[k]
	if p == nil {
		p = &pool{key: k}
		c.pools[k] = p
	}
	return p
}

// prune forgets a pool of which nothing is left.
func (c *Cache) prune(p *pool) {
	if len(p.slices) == 0 && len(p.uses) == 0 {
		delete(c.pools, p.key)
	}
}

func nodeOf(s *resourcev1.ResourceSlice) string {
	if s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}

func keyOfPool(s *resourcev1.ResourceSlice) poolKey { return poolKey{s.Spec.Driver, s.Spec.Pool.Name} }

// setSlice takes in a slice that is new or changed. A slice keeps its pool and its node: where the API has
// another under its name, that is a new one.
func (c *Cache) setSlice(now *resourcev1.ResourceSlice, told *Changes) {
	if old := c.slices[now.Name]; old != nil {
		if keyOfPool(old) != keyOfPool(now) || nodeOf(old) != nodeOf(now) {
			c.deleteSlice(now.Name, told)
		}
	}
	p := c.poolOf(keyOfPool(now))
	if p.slices == nil {
		p.slices, p.onNode = map[string]*resourcev1.ResourceSlice{}, map[string]int{}
	}
	if old := p.slices[now.Name]; old != nil {
		if equality.Semantic.DeepEqual(old.Spec, now.Spec) {
			return
		}
		p.count(old, -1)
	}
	p.count(now, 1)
	c.slices[now.Name], p.slices[now.Name] = now, now
	c.moved(p, now.Name, told)
}

func (c *Cache) deleteSlice(name string, told *Changes) {
	s := c.slices[name]
	if s == nil {
		return
	}
	delete(c.slices, name)
	p := c.pools[keyOfPool(s)]
	delete(p.slices, name)
	p.count(s, -1)
	c.moved(p, name, told)
	c.prune(p)
}

func (p *pool) count(s *resourcev1.ResourceSlice, by int) {
	p.tally(s, by)
	node := nodeOf(s)
	if node == "" {
		p.others += by
		return
	}
	if p.onNode[node] += by; p.onNode[node] == 0 {
		delete(p.onNode, node)
	}
}

// placed is where the pool belongs as its slices are now.
func (p *pool) placed() place {
	switch {
	case len(p.slices) == 0:
		return place{}
	case p.others == 0 && len(p.onNode) == 1 && !p.troublesOthers():
		for node := range p.onNode {
			return place{local, node}
		}
	}
	return place{kind: shared}
}

// moved tells of a slice of a pool that is new, changed or gone, and of all that is the pool's where it
// belongs to another place now.
func (c *Cache) moved(p *pool, slice string, told *Changes) {
	from, to := p.place, p.placed()
	told.slice(from, p.key, slice)
	if from == to {
		return
	}
	p.place = to
	told.slice(to, p.key, slice)
	for name := range p.slices {
		told.slice(from, p.key, name)
		told.slice(to, p.key, name)
	}
	for name := range p.uses {
		d := Device{p.key.driver, p.key.name, name}
		told.use(from, d)
		told.use(to, d)
	}
}
