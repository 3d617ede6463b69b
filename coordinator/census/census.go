package census

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxKeys is how many label keys are looked at, maxValues how many values are counted of each, beside those that pods name.
	maxKeys, maxValues = 256, 64
	// maxDemands is how many demands are held against each node: each takes some 100 ns.
	maxDemands = 64
	// maxTaints is how many taints are counted.
	maxTaints = 256
)

// Census is what nodes add up to. The zero value is not ready: see New.
type Census struct {
	nodes, cordoned int
	labels          map[string]*labelCount
	taints          map[v1.Taint]int // without the times
	largest         v1.ResourceList
	demands         map[string]*demand
	features        map[string]int
}

// labelCount is what nodes have of a label. named are values that pods name: they are counted however many others there are.
type labelCount struct {
	values  map[string]int
	having  int
	clipped bool // there are values that are not counted
}

type demand struct {
	requests v1.ResourceList
	large    int
	short    map[v1.ResourceName]int // nodes that have less of it
}

// New makes an empty census.
func New() *Census {
	return &Census{
		labels: map[string]*labelCount{}, taints: map[v1.Taint]int{}, largest: v1.ResourceList{}, demands: map[string]*demand{},
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
		if _, known := l.values[v]; !known && len(l.values) < 16*maxValues {
			l.values[v] = 0
		}
	}
}

// WatchRequests has the nodes counted that are large enough for a pod.
func (c *Census) WatchRequests(requests v1.ResourceList) {
	key := demandKey(requests)
	if c.demands[key] == nil && len(c.demands) < maxDemands {
		c.demands[key] = &demand{requests: requests, short: map[v1.ResourceName]int{}}
	}
}

func demandKey(list v1.ResourceList) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		fmt.Fprintf(&b, "%s=%s;", name, q.String())
	}
	return b.String()
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
		t := n.Spec.Taints[i]
		t.TimeAdded = nil
		if _, known := c.taints[t]; known || len(c.taints) < maxTaints {
			c.taints[t]++
		}
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

func (d *demand) add(n *v1.Node) {
	large := true
	for name, q := range d.requests {
		if q.Sign() > 0 && q.Cmp(n.Status.Allocatable[name]) > 0 {
			d.short[name]++
			large = false
		}
	}
	if large {
		d.large++
	}
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

// TaintCount is how many nodes have a taint.
type TaintCount struct {
	Taint v1.Taint
	Nodes int
}

// Taints are the taints of all nodes, that of most nodes first.
func (c *Census) Taints() []TaintCount {
	var out []TaintCount
	for t, n := range c.taints {
		out = append(out, TaintCount{t, n})
	}
	slices.SortFunc(out, func(a, b TaintCount) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Taint.ToString(), b.Taint.ToString()))
	})
	return out
}

// Largest is the most that a node has of a resource.
func (c *Census) Largest(name v1.ResourceName) resource.Quantity { return c.largest[name] }

// Large is how many nodes have, when they are empty, as much as a pod requests, and which resources some nodes have too little of.
// known is false where the requests were not watched.
func (c *Census) Large(requests v1.ResourceList) (nodes int, short map[v1.ResourceName]int, known bool) {
	d := c.demands[demandKey(requests)]
	if d == nil {
		return 0, nil, false
	}
	return d.large, d.short, true
}
