package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Where things are below an API server's prefix.
const (
	registryNodes = "minions/"
	registryPods  = "pods/"
)

// Registry is a cluster as an API server keeps it, at a revision, and what was wrong on
// the way there.
//
// Schedulers of an API server see nodes a little later than they change, and nothing
// compares the two when a pod is bound. So a bind is held against what other pods take
// at that very revision, and against the node as it is or was within the lag before:
//
//	node    4 CPUs ──────────────┐ shrinks, is cordoned, deleted
//	                             └ 3 CPUs ───────────────────────
//	bind                    ok      ok, Late    fault, where 3 are not enough
//	                             |<── lag ──>|
type Registry struct {
	// Binds is how many pods were given a node, Late how many of them were right for the
	// node as it had been only, and Latest how long before the latest of these.
	Binds, Late int
	Latest      time.Duration

	lag    time.Duration
	nodes  map[string]*place
	pods   map[string]*pod // by namespace/name
	faults []Fault
}

// place is a node with its pods, and as it was before.
type place struct {
	node
	pods map[string]*pod
	past []version
}

// version is how a node was until then.
type version struct {
	object      *v1.Node
	allocatable amounts
	until       time.Time
}

// Claims are what was asked of the API server, and granted: pods as namespace/name, each
// name used once.
type Claims struct {
	Created []string
	// Deleted are those that somebody other than a scheduler took away, or tried to.
	Deleted map[string]bool
}

// JudgeRegistry replays a Follower's history and holds its end against the claims.
// Every fault comes back, those of the way before those of the end.
func JudgeRegistry(h *History, lag time.Duration, claims Claims) ([]Fault, *Registry) {
	r := NewRegistry(lag)
	for _, c := range h.Changes {
		r.Apply(c)
	}
	return slices.Concat(r.faults, r.Unsettled(claims)), r
}

// NewRegistry is an empty cluster.
func NewRegistry(lag time.Duration) *Registry {
	return &Registry{lag: lag, nodes: map[string]*place{}, pods: map[string]*pod{}}
}

func (r *Registry) fault(revision int64, subject, format string, a ...any) {
	r.faults = append(r.faults, Fault{Revision: revision, Subject: subject, Problem: fmt.Sprintf(format, a...)})
}

// Apply makes one change.
func (r *Registry) Apply(c Change) {
	if name, ok := strings.CutPrefix(c.Key, registryNodes); ok {
		r.applyNode(c, name)
	} else if name, ok := strings.CutPrefix(c.Key, registryPods); ok {
		r.applyPod(c, name)
	}
}

func (r *Registry) at(name string) *place {
	p := r.nodes[name]
	if p == nil {
		p = &place{node: *newNode(), pods: map[string]*pod{}}
		r.nodes[name] = p
	}
	return p
}

func (r *Registry) applyNode(c Change, name string) {
	n := r.at(name)
	n.past = append(n.past, version{n.object, n.allocatable, c.At})
	n.object, n.allocatable = nil, nil
	if c.Value == nil {
		return
	}
	obj, err := decode[*v1.Node](c.Value)
	if err != nil {
		r.fault(c.Revision, "node "+name, "can't be read: %v", err)
		return
	}
	n.object, n.allocatable = obj, amountsOf(obj.Status.Allocatable)
}

func (r *Registry) applyPod(c Change, name string) {
	before := r.pods[name]
	subject := "pod " + name
	var after *pod
	if c.Value != nil {
		obj, err := decode[*v1.Pod](c.Value)
		if err != nil {
			r.fault(c.Revision, subject, "can't be read: %v", err)
			return
		}
		after = &pod{object: obj, demand: demand(obj), ports: ports(obj)}
	}
	if before != nil && before.takes() {
		n := r.at(before.node())
		n.remove(name, before)
		delete(n.pods, name)
	}
	if after == nil {
		delete(r.pods, name)
		return
	}
	r.pods[name] = after
	again := before != nil && before.object.UID == after.object.UID
	if again {
		after.binds = before.binds
		r.follows(c.Revision, subject, before, after)
	}
	if after.node() != "" && (!again || before.node() != after.node()) {
		after.binds++
		r.Binds++
		r.judgeBind(&c, name, after)
	}
	if after.takes() {
		n := r.at(after.node())
		n.put(name, after)
		n.pods[name] = after
	}
}

// follows judges a write of a pod that was there.
func (r *Registry) follows(revision int64, subject string, before, after *pod) {
	switch from, to := before.node(), after.node(); {
	case from != "" && to == "":
		r.fault(revision, subject, "was on %s and is taken off it", from)
	case from != "" && from != to:
		r.fault(revision, subject, "bound twice: was on %s, now on %s", from, to)
	case to != "" && notScheduled(after.object) != nil && (from == "" || notScheduled(before.object) == nil):
		r.fault(revision, subject, "is on %s and its condition says that it is not: %s", to, notScheduled(after.object).Message)
	}
}

// notScheduled is the condition that says that the pod has no node; nil: there is none.
func notScheduled(p *v1.Pod) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c
		}
	}
	return nil
}

// judgeBind judges a pod's first appearance on a node, before it is counted there.
func (r *Registry) judgeBind(c *Change, name string, p *pod) {
	if !p.takes() {
		return
	}
	n := r.at(p.node())
	for _, w := range slices.Concat(n.conflicts(p), n.strangers(p)) {
		r.fault(c.Revision, "node "+p.node(), "%s, since %s is on it", w, name)
	}
	wrong := n.objections(p)
	if len(wrong) == 0 {
		return
	}
	for i := len(n.past) - 1; i >= 0 && c.At.Sub(n.past[i].until) < r.lag; i-- {
		was := n.node
		was.object, was.allocatable = n.past[i].object, n.past[i].allocatable
		if len(was.objections(p)) == 0 {
			r.Late++
			r.Latest = max(r.Latest, c.At.Sub(n.past[i].until))
			return
		}
	}
	for _, w := range wrong {
		r.fault(c.Revision, "node "+p.node(), "%s, since %s is bound to it", w, name)
	}
}

// objections are why the node may not have the pod beside those that are there, but for
// what these say themselves.
func (n *node) objections(p *pod) (wrong []string) {
	if why := n.admits(p.object); why != "" {
		return []string{why}
	}
	for name, wanted := range p.demand {
		if used, there := n.used[name]+wanted, n.allocatable[name]; wanted > 0 && used > there {
			wrong = append(wrong, fmt.Sprintf("%s: %d used of %d allocatable", name, used, there))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// strangers lists the pods of the node that don't want to be beside this one, or that
// it does not want beside it.
func (n *place) strangers(p *pod) (wrong []string) {
	for name, other := range n.pods {
		if shuns(p.object, other.object) || shuns(other.object, p.object) {
			wrong = append(wrong, name+" is on it, and they are to be on different nodes")
		}
	}
	return wrong
}

// shuns tells whether a pod's required anti-affinity keeps another one from its node.
func shuns(p, other *v1.Pod) bool {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil || p.Namespace != other.Namespace {
		return false
	}
	for _, term := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err == nil && term.TopologyKey == v1.LabelHostname && selector.Matches(labels.Set(other.Labels)) {
			return true
		}
	}
	return false
}

// Unsettled lists what keeps the pods from their end: each is bound, or waits for a
// stated reason while no node would take it, or was taken away.
func (r *Registry) Unsettled(claims Claims) []Fault {
	var out []Fault
	for _, name := range slices.Sorted(slices.Values(claims.Created)) {
		if claims.Deleted[name] {
			continue
		}
		switch p := r.pods[name]; {
		case p == nil:
			out = append(out, Fault{Subject: "pod " + name, Problem: "was created and is not there"})
		case p.node() != "" && p.binds != 1:
			out = append(out, Fault{Subject: "pod " + name, Problem: fmt.Sprintf("was bound %d times", p.binds)})
		case p.node() == "":
			if why := r.waiting(p); why != "" {
				out = append(out, Fault{Subject: "pod " + name, Problem: why})
			}
		}
	}
	return out
}

// waiting tells what is wrong with a pod that is not bound; empty: nothing.
func (r *Registry) waiting(p *pod) string {
	c := notScheduled(p.object)
	if c == nil || c.Message == "" {
		return "is not bound, and no condition says why"
	}
	if c.Reason != v1.PodReasonUnschedulable {
		return fmt.Sprintf("is not bound: %s (%s)", c.Reason, c.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		n := r.nodes[name]
		if len(n.objections(p)) == 0 && len(n.conflicts(p)) == 0 && len(n.strangers(p)) == 0 {
			return fmt.Sprintf("is not bound (%s), but would fit %s", c.Message, name)
		}
	}
	return ""
}

// Account sums up a cluster in a line.
func (r *Registry) Account() string {
	nodes, bound, used, there := 0, 0, amounts{}, amounts{}
	for _, n := range r.nodes {
		if n.object != nil {
			nodes++
			used.add(n.used, 1)
			there.add(n.allocatable, 1)
		}
	}
	for _, p := range r.pods {
		if p.node() != "" {
			bound++
		}
	}
	percent := func(name v1.ResourceName) int64 { return 100 * used[name] / max(there[name], 1) }
	return fmt.Sprintf("%d nodes (CPU %d%%, memory %d%%, pods %d%% in use), %d pods: %d bound, %d pending; %d binds, %d of them right "+
		"for a node as it had been (up to %v before)",
		nodes, percent(v1.ResourceCPU), percent(v1.ResourceMemory), percent(v1.ResourcePods), len(r.pods), bound, len(r.pods)-bound,
		r.Binds, r.Late, r.Latest.Round(time.Millisecond))
}
