package census

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxKeys is how many label keys are looked at, maxValues how many values are counted of each, beside those that pods name.
	maxKeys, maxValues = 256, 64
	// MaxNamed is how many values are counted of a key because pods name them.
	MaxNamed = 16 * maxValues
	// maxDemands is how many demands are held against each node, and maxParts how many parts they have, all of them together: each part
	// takes some 50 ns.
	maxDemands, maxParts = 64, 1024
	// MaxDemandParts is how many parts a demand may have: resources, requirements, tolerations.
	MaxDemandParts = 64
	// maxTaints is how many taints are counted.
	maxTaints = 256
)

// Census is what nodes add up to. The zero value is not ready: see New.
type Census struct {
	nodes, cordoned int
	labels          map[string]*labelCount
	taints          map[v1.Taint]*TaintCount // without the times
	largest         v1.ResourceList
	demands         map[string]*Demand
	parts           int // of all demands
	features        map[string]int
}

// labelCount is what nodes have of a label. named are values that pods name: they are counted however many others there are.
type labelCount struct {
	values  map[string]int
	having  int
	clipped bool // there are values that are not counted
}

// Obstacles are what keeps a pod off a node, whichever pods are there.
type Obstacles uint8

// What keeps a pod off a node.
const (
	Cordoned  Obstacles = 1 << iota
	Tainted             // a taint that the pod does not tolerate
	Unmatched           // the pod's selector or affinity
	Enforced            // its profile's affinity
	Small               // the node has less than the pod requests when it is empty
	allSets             // how many sets of obstacles there are
)

// Len is how many obstacles there are.
func (o Obstacles) Len() int { return bits.OnesCount8(uint8(o)) }

// Demand is what pods want of nodes that are empty, with how many nodes have which obstacles for them.
type Demand struct {
	requests v1.ResourceList
	refuses  func(*v1.Node) Obstacles
	nodes    [allSets]int
	short    map[v1.ResourceName]int // nodes that have less of it
	largest  v1.ResourceList         // of nodes without another obstacle than Small
}

// New makes an empty census.
func New() *Census {
	return &Census{
		labels: map[string]*labelCount{}, taints: map[v1.Taint]*TaintCount{}, largest: v1.ResourceList{}, demands: map[string]*Demand{},
		features: map[string]int{},
	}
}

// WatchLabel has a label counted, and of its values those that are named at any rate.
func (c *Census) WatchLabel(key string, named ...string) {
	l := c.labels[key]
	if l == nil {
		if len(c.labels) >= maxKeys {
			return
		}
		l = &labelCount{values: map[string]int{}}
		c.labels[key] = l
	}
	for _, v := range named {
		if _, known := l.values[v]; !known && len(l.values) < MaxNamed {
			l.values[v] = 0
		}
	}
}

// WatchDemand has the nodes counted by what keeps pods off them that request so much: refuses tells of all but Small. Pods of one key
// have the same demand, of so many parts. One that has too many is not watched.
func (c *Census) WatchDemand(key string, parts int, requests v1.ResourceList, refuses func(*v1.Node) Obstacles) {
	if c.demands[key] == nil && len(c.demands) < maxDemands && parts <= MaxDemandParts && c.parts+parts <= maxParts {
		c.parts += parts
		c.demands[key] = &Demand{requests: requests, refuses: refuses, short: map[v1.ResourceName]int{}, largest: v1.ResourceList{}}
	}
}

// Add counts a node.
func (c *Census) Add(n *v1.Node) {
	c.nodes++
	if n.Spec.Unschedulable {
		c.cordoned++
	}
	for key, l := range c.labels {
		l.add(n.Labels, key)
	}
	for i := range n.Spec.Taints {
		c.addTaint(n.Spec.Taints[i], n.Spec.Unschedulable)
	}
	for name, q := range n.Status.Allocatable {
		if most, known := c.largest[name]; !known || q.Cmp(most) > 0 {
			c.largest[name] = q
		}
	}
	for _, d := range c.demands {
		d.add(n)
	}
	for _, f := range n.Status.DeclaredFeatures {
		c.features[f]++
	}
}

func (c *Census) addTaint(t v1.Taint, cordoned bool) {
	t.TimeAdded = nil
	x := c.taints[t]
	if x == nil && len(c.taints) >= maxTaints {
		return
	}
	if x == nil {
		x = &TaintCount{Taint: t}
		c.taints[t] = x
	}
	if x.Nodes++; cordoned {
		x.Cordoned++
	}
}

func (l *labelCount) add(labels map[string]string, key string) {
	value, has := labels[key]
	if !has {
		return
	}
	l.having++
	if _, known := l.values[value]; known || len(l.values) < maxValues {
		l.values[value]++
	} else {
		l.clipped = true
	}
}

func (d *Demand) add(n *v1.Node) {
	o := d.refuses(n)
	others := o
	for name, q := range d.requests {
		has := n.Status.Allocatable[name]
		if q.Sign() > 0 && q.Cmp(has) > 0 {
			d.short[name]++
			o |= Small
		}
		if most, known := d.largest[name]; others == 0 && (!known || has.Cmp(most) > 0) {
			d.largest[name] = has
		}
	}
	d.nodes[o]++
}

// Nodes is how many nodes were added, and Cordoned how many of them are cordoned.
func (c *Census) Nodes() int    { return c.nodes }
func (c *Census) Cordoned() int { return c.cordoned }

// Declaring is how many nodes declare a feature.
func (c *Census) Declaring(feature string) int { return c.features[feature] }

// ValueCount is how many nodes have a value of a label.
type ValueCount struct {
	Value string
	Nodes int
}

// Label tells the values of a label that nodes have, that of most nodes first, and how many nodes have the label. all: no value is
// left out. A label that is not watched has none.
func (c *Census) Label(key string) (values []ValueCount, having int, all bool) {
	l := c.labels[key]
	if l == nil {
		return nil, 0, false
	}
	for v, n := range l.values {
		if n > 0 {
			values = append(values, ValueCount{v, n})
		}
	}
	slices.SortFunc(values, func(a, b ValueCount) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Value, b.Value))
	})
	return values, l.having, !l.clipped
}

// TaintCount is how many nodes have a taint, and how many of them are cordoned besides.
type TaintCount struct {
	Taint           v1.Taint
	Nodes, Cordoned int
}

// Taints are the taints of all nodes, that of most nodes first.
func (c *Census) Taints() []TaintCount {
	var out []TaintCount
	for _, t := range c.taints {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b TaintCount) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Taint.ToString(), b.Taint.ToString()))
	})
	return out
}

// Largest is the most that a node has of a resource.
func (c *Census) Largest(name v1.ResourceName) resource.Quantity { return c.largest[name] }

// Demand is what was counted for the pods of a key; nil, of which all is 0: the key is not watched.
func (c *Census) Demand(key string) *Demand { return c.demands[key] }

// Nodes is how many nodes have these obstacles and no others.
func (d *Demand) Nodes(o Obstacles) int {
	if d == nil {
		return 0
	}
	return d.nodes[o]
}

// Large is how many nodes have, when they are empty, as much as the pods request, whatever else keeps them off.
func (d *Demand) Large() (nodes int) {
	for o := range allSets {
		if o&Small == 0 {
			nodes += d.Nodes(o)
		}
	}
	return nodes
}

// Short are the resources that some nodes have too little of, with how many do; nil: it is not known.
func (d *Demand) Short() map[v1.ResourceName]int {
	if d == nil {
		return nil
	}
	return d.short
}

// Largest is the most of a resource that a node has which nothing but its size keeps the pods off; false: there is none.
func (d *Demand) Largest(name v1.ResourceName) (q resource.Quantity, known bool) {
	if d != nil {
		q, known = d.largest[name]
	}
	return q, known
}

// Fewest are the obstacles of the nodes that have the fewest, among those with the obstacles o; false: there are no such nodes.
func (d *Demand) Fewest(o Obstacles) (fewest Obstacles, found bool) {
	for set := range allSets {
		if d.Nodes(set) > 0 && set&o == o && (!found || set.Len() < fewest.Len()) {
			fewest, found = set, true
		}
	}
	return fewest, found
}
