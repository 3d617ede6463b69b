package count

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Counter is one number for each node.
type Counter struct {
	id   uint32
	spec string // what it counts; it is known by this
	what counted
	// used is the sweep in whose time the counter was last asked for.
	used uint64
	// asked is the registry's version then. postponed: no pod adds to it yet.
	asked     uint64
	postponed bool
	// matching is what one() gives.
	matching *pb.CounterValue
}

// one is what a pod adds that matches: all of them share it, and nobody writes to it.
func (c *Counter) one() *pb.CounterValue {
	if c.matching == nil {
		c.matching = &pb.CounterValue{Counter: c.id, Value: 1}
	}
	return c.matching
}

// counted is what a kind of counter counts of a pod.
type counted interface {
	// value is what one pod adds.
	value(p *v1.Pod) int64
	// within are the namespaces whose pods may add something, sorted; nil: all.
	within() []string
}

// ID names the counter in tables and queries.
func (c *Counter) ID() uint32 { return c.id }

// Value is what a pod adds.
func (c *Counter) Value(p *v1.Pod) int64 { return c.what.value(p) }

// Namespaces are those whose pods may add something, sorted; nil: all.
func (c *Counter) Namespaces() []string { return c.what.within() }

// OfTerm tells that the counter is of a term that pods carry.
func (c *Counter) OfTerm() bool {
	_, ok := c.what.(*Term)
	return ok
}

// Demands are the labels that the pods must have that may add something; none: any may.
func (c *Counter) Demands() []selector.Demand {
	if m, ok := c.what.(*matched); ok {
		return m.selector.Demands()
	}
	return nil
}

// OfDeparting tells that pods count for the counter only where they leave (Registry.Departing).
func (c *Counter) OfDeparting() bool {
	m, ok := c.what.(*matched)
	return ok && m.unselected()
}

// DepartingIn are the namespaces of the counters that are OfDeparting.
func (r *Registry) DepartingIn(ids []uint32) (namespaces []string) {
	for _, id := range ids {
		if c := r.counters[id]; c != nil && c.OfDeparting() {
			namespaces = append(namespaces, c.Namespaces()...)
		}
	}
	return namespaces
}

// Namespaces is a set of namespaces by name.
type Namespaces struct {
	// All includes namespaces that do not exist.
	All bool
	// Names are sorted, each once. Who makes many such sets of the same names gives them one list: it is kept.
	Names []string
}

// fewNamespaces is how many namespaces a counter is filed under, each by itself: a tenant's term of a few bytes may
// select thousands. One of more is filed once, and namespaces are looked up in its list.
const fewNamespaces = 32

func (n *Namespaces) many() bool { return !n.All && len(n.Names) > fewNamespaces }

// Has tells whether a namespace is in the set.
func (n *Namespaces) Has(name string) bool {
	if n.All {
		return true
	}
	_, found := slices.BinarySearch(n.Names, name)
	return found
}

// And is the set of the namespaces that are in both.
func (n *Namespaces) And(other *Namespaces) Namespaces {
	switch {
	case n.All:
		return *other
	case other.All, n.many() && len(n.Names) == len(other.Names) && &n.Names[0] == &other.Names[0]:
		return *n
	}
	return Namespaces{Names: slices.DeleteFunc(slices.Clone(n.Names), func(name string) bool { return !other.Has(name) })}
}

// matched counts pods that match a selector.
type matched struct {
	among    Namespaces
	selector *selector.Selector
	// staying leaves out pods that are being deleted; all pods, where the selector is empty.
	staying bool
}

// passes tells that the counter leaves out a pod that matches.
func (m *matched) passes(p *v1.Pod) bool {
	return m.staying && p.DeletionTimestamp != nil || m.unselected()
}

// unselected tells that the counter leaves out all pods.
func (m *matched) unselected() bool { return m.staying && m.selector.Empty() }

func (m *matched) value(p *v1.Pod) int64 {
	if m.passes(p) || !m.among.Has(p.Namespace) || !m.selector.Matches(p.Labels) {
		return 0
	}
	return 1
}

// maxWithin is how many namespaces' pods are looked for one namespace after the other; of more, all pods are gone through.
const maxWithin = 1024

func (m *matched) within() []string {
	if m.among.All || len(m.among.Names) > maxWithin {
		return nil
	}
	return m.among.Names
}

// reserved is a counter whose values somebody else keeps.
type reserved struct{}

func (reserved) value(*v1.Pod) int64 { return 0 }
func (reserved) within() []string    { return []string{} }
