package groups

import (
	"iter"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"
)

// Groups are all pod groups.
type Groups struct {
	gates  Gates
	byName map[types.NamespacedName]*Group
	tally  Tally
	// keepsNews: somebody takes news.
	keepsNews bool
	news      []*Group
	wholes    wholes
}

// New makes a Groups without any; nil where the gate Workload is off.
func New(gates Gates) *Groups {
	if !gates.Workload {
		return nil
	}
	return &Groups{gates: gates, byName: map[types.NamespacedName]*Group{}, wholes: newWholes()}
}

// Gates are which gates are on.
func (g *Groups) Gates() Gates {
	if g == nil {
		return Gates{}
	}
	return g.gates
}

// Set takes in a new or changed PodGroup.
func (g *Groups) Set(obj *v1alpha2.PodGroup) {
	if g == nil {
		return
	}
	x := g.made(types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name})
	if x.spec == nil || !Same(x.spec.Object, obj) {
		x.Resume()
	}
	if x.spec == nil || x.spec.UID != obj.UID {
		x.told = remembers(obj)
	}
	spec, err := SpecOf(obj)
	x.setSpec(spec)
	x.err = err
	g.count(x)
}

// Remove takes in that a PodGroup is deleted.
func (g *Groups) Remove(name types.NamespacedName) {
	if x := g.Get(name); x != nil {
		x.setSpec(nil)
		x.err = nil
		x.Resume()
		g.drop(x)
	}
}

// PodSet takes in a new or changed pod. Ours: it is one of this scheduler's; others are members only once they are bound.
func (g *Groups) PodSet(p *v1.Pod, ours bool) {
	name, ok := NameOf(p)
	if g == nil || !ok {
		return
	}
	if p.Spec.NodeName == "" && !ours {
		g.PodGone(p)
		return
	}
	x := g.made(name)
	was, known := x.members[p.UID]
	if !known {
		x.Resume()
	}
	now := Member{Pod: p, Node: p.Spec.NodeName, Leaving: was.Leaving || p.DeletionTimestamp != nil}
	if was.Assumed && now.Node == "" { // the change is older than the bind
		now.Node, now.Assumed = was.Node, true
	}
	x.put(p.UID, now)
	g.count(x)
}

// PodGone takes in that a pod is deleted or has ended.
func (g *Groups) PodGone(p *v1.Pod) {
	if x := g.Of(p); x != nil {
		x.remove(p.UID)
		g.drop(x)
	}
}

// Assumed takes in that a pod is assumed on a node. As upstream, nothing is counted of a pod that is no member any more.
func (g *Groups) Assumed(p *v1.Pod, node string) {
	if x := g.Of(p); x != nil {
		if m, ok := x.members[p.UID]; ok && m.Node == "" {
			x.put(p.UID, Member{Pod: m.Pod, Node: node, Assumed: true, Leaving: m.Leaving})
			g.count(x)
		}
	}
}

// Forgotten takes in that a pod is not assumed any more.
func (g *Groups) Forgotten(p *v1.Pod) {
	if x := g.Of(p); x != nil {
		if m := x.members[p.UID]; m.Assumed {
			x.put(p.UID, Member{Pod: m.Pod})
			g.count(x)
		}
	}
}

// Of is the pod group that a pod names; nil: none, or nothing is known of it.
func (g *Groups) Of(p *v1.Pod) *Group {
	if g == nil {
		return nil
	}
	name, ok := NameOf(p)
	if !ok {
		return nil
	}
	return g.byName[name]
}

// Get is a pod group by its name; nil: nothing is known of it.
func (g *Groups) Get(name types.NamespacedName) *Group {
	if g == nil {
		return nil
	}
	return g.byName[name]
}

// Len counts pod groups.
func (g *Groups) Len() int {
	if g == nil {
		return 0
	}
	return len(g.byName)
}

// All are all pod groups, in no order.
func (g *Groups) All() iter.Seq[*Group] {
	if g == nil {
		return func(func(*Group) bool) {}
	}
	return maps.Values(g.byName)
}

func (g *Groups) made(name types.NamespacedName) *Group {
	x := g.byName[name]
	if x == nil {
		x = &Group{name: name, all: g, gates: g.gates, members: map[types.UID]Member{}, nodes: map[string]int{}}
		g.byName[name] = x
	}
	return x
}

// drop forgets a pod group of which nothing is left; of another it counts what is left.
func (g *Groups) drop(x *Group) {
	if x.spec == nil && len(x.members) == 0 {
		delete(g.byName, x.name)
		g.uncount(x)
		return
	}
	g.count(x)
}
