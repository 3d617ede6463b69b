package groups

import (
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// maxWholeChanges is how many changes of whole pod groups are told one by one: more than come between two preemptors.
const maxWholeChanges = 1024

// wholes are the whole pod groups that have pods on nodes.
type wholes struct {
	groups map[*Group]struct{}
	on     map[string]int // by node: how many of them have pods there
	// priorities counts them by priority.
	priorities map[int32]int
	// version counts changes, and log are the last of them.
	version uint64
	log     []WholeChange
}

// WholeChange is a change of a pod group that is whole, or was.
type WholeChange struct {
	Group *Group
	// Minor: pods came, went, started or ended, or other budgets count them.
	Minor bool
}

func newWholes() wholes {
	return wholes{groups: map[*Group]struct{}{}, on: map[string]int{}, priorities: map[int32]int{}}
}

// Wholes are the whole pod groups that have pods on nodes, in no order.
func (g *Groups) Wholes() iter.Seq[*Group] {
	if g == nil {
		return func(func(*Group) bool) {}
	}
	return maps.Keys(g.wholes.groups)
}

// WholeNodes are the nodes with pods of whole pod groups, in no order.
func (g *Groups) WholeNodes() iter.Seq[string] {
	if g == nil {
		return func(func(string) bool) {}
	}
	return maps.Keys(g.wholes.on)
}

// EachNode are the nodes of scheduled members, in no order.
func (x *Group) EachNode() iter.Seq[string] { return maps.Keys(x.nodes) }

// WholeOn tells whether a node has pods of a whole pod group.
func (g *Groups) WholeOn(node string) bool { return g != nil && g.wholes.on[node] > 0 }

// WholeBelow tells whether a whole pod group that has pods on nodes has less than a priority.
func (g *Groups) WholeBelow(priority int32) bool {
	if g != nil {
		for p := range g.wholes.priorities {
			if p < priority {
				return true
			}
		}
	}
	return false
}

// WholeVersion counts the changes of whole pod groups.
func (g *Groups) WholeVersion() uint64 {
	if g == nil {
		return 0
	}
	return g.wholes.version
}

// WholesSince are the changes after a version, in order; false: there were too many. A pod group may be among them several times.
func (g *Groups) WholesSince(version uint64) (changes []WholeChange, ok bool) {
	if g == nil {
		return nil, true
	}
	n := g.wholes.version - version
	if n > uint64(len(g.wholes.log)) {
		return nil, false
	}
	return g.wholes.log[uint64(len(g.wholes.log))-n:], true
}

// Whole tells whether the PodGroup has the disruptionMode PodGroup.
func (x *Group) Whole() bool { return x != nil && x.spec != nil && x.spec.Whole }

// Leave takes in that pods of whole pod groups are told to leave their nodes, or with false that nobody has told them. Others it passes
// over.
func (g *Groups) Leave(pods []*v1.Pod, leave bool) {
	changed := map[*Group]struct{}{}
	for _, p := range pods {
		x := g.Of(p)
		if !x.Whole() {
			continue
		}
		m, ok := x.members[p.UID]
		if !ok {
			continue
		}
		if now := leave || m.Pod.DeletionTimestamp != nil; m.Leaving != now {
			m.Leaving = now
			x.members[p.UID] = m
			changed[x] = struct{}{}
		}
	}
	for x := range changed {
		g.wholes.note(x, false)
	}
}

// Recounted takes in that other budgets count a pod.
func (g *Groups) Recounted(p *v1.Pod) {
	if x := g.Of(p); x.Whole() && x.members[p.UID].Node != "" {
		g.wholes.note(x, true)
	}
}

func (w *wholes) note(x *Group, minor bool) {
	w.version++
	w.log = append(w.log, WholeChange{x, minor})
	if len(w.log) >= 2*maxWholeChanges {
		w.log = slices.Delete(w.log, 0, maxWholeChanges)
	}
}

// setSpec gives a pod group another PodGroup, or none.
func (x *Group) setSpec(spec *Spec) {
	w, was := &x.all.wholes, x.spec
	if x.Whole() {
		w.leave(x)
	}
	x.spec = spec
	if x.Whole() {
		w.join(x)
	}
	if whole := x.Whole(); x.placed > 0 && (whole != (was != nil && was.Whole) || whole && was.Priority != spec.Priority) {
		w.note(x, false)
	}
}

// join takes in the nodes of a pod group that is whole.
func (w *wholes) join(x *Group) {
	for node := range x.nodes {
		w.on[node]++
	}
	if x.placed > 0 {
		w.groups[x] = struct{}{}
		w.priorities[x.spec.Priority]++
	}
}

// leave takes back what join took in.
func (w *wholes) leave(x *Group) {
	for node := range x.nodes {
		w.off(node)
	}
	if x.placed > 0 {
		w.forget(x)
	}
}

func (w *wholes) off(node string) {
	if w.on[node]--; w.on[node] == 0 {
		delete(w.on, node)
	}
}

func (w *wholes) forget(x *Group) {
	delete(w.groups, x)
	if w.priorities[x.spec.Priority]--; w.priorities[x.spec.Priority] == 0 {
		delete(w.priorities, x.spec.Priority)
	}
}

// weighsAs tells whether two states of a pod are the same to preemption.
func (m Member) weighsAs(o Member) bool {
	if m.Node != o.Node || m.Node == "" {
		return m.Node == o.Node
	}
	return m.Leaving == o.Leaving && m.Pod.Status.StartTime.Equal(o.Pod.Status.StartTime) && maps.Equal(m.Pod.Labels, o.Pod.Labels)
}
