package shadow

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Why pods are left out of what is compared.
const (
	leftOnNode    = "on a node when they were first seen"
	leftUndecided = "gone before both had a node for them"
	leftEnded     = "ended by themselves soon after their bind: they fail, or are that short"
	leftTheirs    = "preempted in the real cluster"
	leftOurs      = "preempted in the own world"
	leftScaled    = "on nodes that came or went"
)

// What has narrowed the choice that ours had.
const (
	pinnedClaims = "pods with claims, which ours has decided once theirs had bound these to volumes or devices"
	pinnedDaemon = "pods of DaemonSets and static pods, which are where they really are"
)

// soon is within how long after its bind a pod that ends by itself is not compared: its workload makes it again and again.
const soon = 30 * time.Second

// maxSchedulers bounds how many schedulers are told of by name; the others are counted together, as otherSchedulers.
const (
	maxSchedulers   = 20
	otherSchedulers = "(others)"
)

// books keep where each pod is, really and in the own world, and make of the real cluster's events what the own world is told:
//
//	real event ──> books ──> the own world's scheduler ── bind, evict ──> books ──> the own world's scheduler
//
// A pod of a judged profile comes into the own world without a node, gets the one that its scheduler binds it to, and keeps it. What
// really becomes of it is taken over, but for the node:
//
//	          real: without a node           own: bind
//	(unknown) ─────────────────────> pending ─────────> placed
//	    │                              │                  │  own: victim, or its node is gone ──> lost: nothing is told of it any more
//	    │ real: on a node              └────────┬─────────┘
//	    v                                       v  real: gone, at its end
//	  fixed ────────────────────────────────> forgotten
//
// A pod with claims that are bound to nothing is held until they really are: which volumes and devices it has is decided with its node,
// and once only.
//
// Fixed pods are where they really are: pods of other schedulers and of DaemonSets, static pods, and pods that had a node when they
// were first seen. They can be victims, too. It has no clock, and no goroutine: its caller has a lock.
type books struct {
	judged map[string]bool // by schedulerName
	// notAsked names who has a say in a pod's node and is not asked; nil: nobody.
	notAsked func(*v1.Pod) string
	// begun: what comes is new, and not what was there at the beginning.
	begun bool
	pods  map[types.UID]*pod
	// nodes are those that are there: true if they have come since the beginning.
	nodes  map[string]bool
	bound  map[objects.Ref]bool              // claims of volumes and devices that are bound to some
	held   map[objects.Ref]map[*pod]struct{} // the pods that are held, by the claims that they have
	places *resources
	theirs *layout
	ours   *layout
	// came counts the pods of judged profiles that came since the beginning, left those of them that are left out, by why, and pinned
	// those that are told of besides.
	came         int
	left, pinned map[string]int
	schedulers   map[string]int // pods that came since the beginning
	// decided and found count the pods that ours and theirs have found a node for.
	decided, found int
	latency        latencies
}

// pod is one that is really there.
type pod struct {
	obj          *v1.Pod // as it really is
	needs        amounts
	theirs, ours string
	// fixed: it is where it really is. lost: the own world has it no more. told: the own world knows of it.
	fixed, lost, told bool
	// daemon: it goes where its node is.
	daemon bool
	// held: it has claims that are bound to nothing.
	held bool
	// judged: it came since the beginning, and counts. early: it has waited for something else before it was seen to be schedulable.
	judged, early bool
	gated         bool // it was, once
	// seen is when it was first seen to be schedulable, while so many others were; zero: it was not yet.
	seen           time.Time
	waiting        int
	bound, decided time.Time
	left           string // why it is left out
}

func newBooks(judged []string, now time.Time) *books {
	b := &books{
		judged: map[string]bool{}, pods: map[types.UID]*pod{}, nodes: map[string]bool{}, bound: map[objects.Ref]bool{},
		held: map[objects.Ref]map[*pod]struct{}{}, places: newResources(),
		theirs: newLayout(now), ours: newLayout(now), left: map[string]int{}, pinned: map[string]int{}, schedulers: map[string]int{},
	}
	for _, name := range judged {
		b.judged[name] = true
	}
	return b
}

// load takes in what is there at the beginning, and returns what the own world begins with.
func (b *books) load(all *objects.Snapshot, now time.Time) *objects.Snapshot {
	out := *all
	out.Pods = nil
	for _, n := range all.Nodes {
		b.setNode(n)
	}
	for _, obj := range all.Cluster {
		b.setClaim(obj, false, now)
	}
	for _, p := range all.Pods {
		for _, e := range b.setPod(p, now) {
			out.Pods = append(out.Pods, e.Pod)
		}
	}
	b.begun = true
	return &out
}

// event takes in what really happened, and returns what happens in the own world.
func (b *books) event(e *objects.Event, now time.Time) []objects.Event {
	gone := e.Type == objects.Deleted
	switch {
	case e.Node != nil && gone:
		return append(b.removeNode(e.Node.Name, now), *e)
	case e.Node != nil:
		b.setNode(e.Node)
	case e.Pod != nil && (gone || objects.IsTerminal(e.Pod)):
		return b.removePod(e.Pod, now)
	case e.Pod != nil:
		return b.setPod(e.Pod, now)
	default:
		return append([]objects.Event{*e}, b.setClaim(e.Object, gone, now)...)
	}
	return []objects.Event{*e}
}

func (b *books) setNode(n *v1.Node) {
	if _, known := b.nodes[n.Name]; !known {
		b.nodes[n.Name] = b.begun
	}
	has := b.places.of(n.Status.Allocatable)
	b.theirs.setNode(n, has)
	b.ours.setNode(n, has)
}

// removeNode takes in that a node is gone. Its real pods are deleted, and the own world is told of that in their turn; pods that only the
// own world has there are lost.
func (b *books) removeNode(name string, now time.Time) (out []objects.Event) {
	delete(b.nodes, name)
	if n := b.theirs.nodes[name]; n != nil {
		for p := range n.pods {
			b.leave(p, leftScaled)
		}
	}
	if n := b.ours.nodes[name]; n != nil {
		var here []*pod
		for p := range n.pods {
			if b.leave(p, leftScaled); p.theirs != name {
				here = append(here, p)
			}
		}
		slices.SortFunc(here, func(x, y *pod) int { return strings.Compare(string(x.obj.UID), string(y.obj.UID)) })
		for _, p := range here {
			out = append(out, b.lose(p, now))
		}
	}
	b.theirs.removeNode(name)
	b.ours.removeNode(name)
	return out
}

// setClaim keeps whether claims are bound, and lets pods go that were held for one.
func (b *books) setClaim(obj objects.Object, gone bool, now time.Time) (out []objects.Event) {
	bound := false
	switch x := obj.(type) {
	case *v1.PersistentVolumeClaim:
		bound = x.Spec.VolumeName != ""
	case *resourcev1.ResourceClaim:
		bound = x.Status.Allocation != nil
	default:
		return nil
	}
	ref := objects.RefOf(obj)
	if !bound || gone {
		delete(b.bound, ref)
		return nil
	}
	b.bound[ref] = true
	pods := slices.SortedFunc(maps.Keys(b.held[ref]), func(x, y *pod) int { return strings.Compare(string(x.obj.UID), string(y.obj.UID)) })
	for _, p := range pods {
		out = append(out, b.setPod(p.obj, now)...)
	}
	return out
}

// claimsOf are the claims of a pod that have names; false: there are others.
func claimsOf(p *v1.Pod) (refs []objects.Ref, all bool) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		ref := objects.Ref{Kind: objects.KindPersistentVolumeClaim, Namespace: p.Namespace}
		switch {
		case v.PersistentVolumeClaim != nil:
			ref.Name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			ref.Name = ephemeral.VolumeClaimName(p, v)
		default:
			continue
		}
		refs = append(refs, ref)
	}
	claims := objects.PodClaims(p)
	for _, c := range claims {
		refs = append(refs, c.Ref)
	}
	return refs, len(claims) >= len(p.Spec.ResourceClaims)
}

// hold holds a pod that has claims which are bound to nothing, and lets it go where it has none any more.
func (b *books) hold(p *pod, was *v1.Pod) {
	b.release(p, was)
	refs, all := claimsOf(p.obj)
	if all && !slices.ContainsFunc(refs, func(r objects.Ref) bool { return !b.bound[r] }) {
		p.held, p.early = false, true
		b.pinned[pinnedClaims]++
		return
	}
	for _, ref := range refs {
		if b.held[ref] == nil {
			b.held[ref] = map[*pod]struct{}{}
		}
		b.held[ref][p] = struct{}{}
	}
}

// release holds a pod no more for the claims that it had.
func (b *books) release(p *pod, was *v1.Pod) {
	refs, _ := claimsOf(was)
	for _, ref := range refs {
		if delete(b.held[ref], p); len(b.held[ref]) == 0 {
			delete(b.held, ref)
		}
	}
}

// setPod takes in a pod that is new, or has changed.
func (b *books) setPod(obj *v1.Pod, now time.Time) []objects.Event {
	p := b.pods[obj.UID]
	if p == nil {
		p = b.meet(obj)
	}
	was := p.obj
	b.update(p, obj)
	if p.held {
		b.hold(p, was)
	}
	if p.theirs == "" && obj.Spec.NodeName != "" {
		b.foundByTheirs(p, now)
	}
	if gated := len(obj.Spec.SchedulingGates) > 0; gated {
		p.gated = true
	} else if p.seen.IsZero() && !p.fixed && !p.held {
		b.becomesSchedulable(p, now)
	}
	return b.tell(p)
}

// meet makes the acquaintance of a pod.
func (b *books) meet(obj *v1.Pod) *pod {
	p := &pod{obj: obj, daemon: isDaemon(obj)}
	b.pods[obj.UID] = p
	if b.begun {
		name := obj.Spec.SchedulerName
		if _, known := b.schedulers[name]; !known && len(b.schedulers) >= maxSchedulers && !b.judged[name] {
			name = otherSchedulers
		}
		b.schedulers[name]++
	}
	p.fixed = !b.judged[obj.Spec.SchedulerName] || p.daemon || obj.Spec.NodeName != ""
	switch {
	case !b.judged[obj.Spec.SchedulerName]:
	case p.daemon && b.begun:
		b.pinned[pinnedDaemon]++
	case p.daemon, p.fixed && !b.begun:
	default:
		p.judged, p.early = true, !b.begun
		b.came++
		if p.fixed {
			b.leave(p, leftOnNode)
		} else if b.notAsked != nil {
			if who := b.notAsked(obj); who != "" {
				b.leave(p, who)
			}
		}
		if refs, all := claimsOf(obj); !p.fixed {
			p.held = !all || slices.ContainsFunc(refs, func(r objects.Ref) bool { return !b.bound[r] })
		}
	}
	return p
}

// isDaemon tells whether a pod is made for one node: a DaemonSet's, or a static one.
func isDaemon(p *v1.Pod) bool {
	by := metav1.GetControllerOfNoCopy(p)
	return by != nil && (by.Kind == "DaemonSet" || by.Kind == "Node")
}

// update takes over what a pod is like now.
func (b *books) update(p *pod, obj *v1.Pod) {
	b.theirs.take(p, p.theirs)
	b.ours.take(p, p.ours)
	p.obj, p.needs = obj, b.places.ofPod(obj)
	b.theirs.put(p, p.theirs)
	b.ours.put(p, p.ours)
}

func (b *books) becomesSchedulable(p *pod, now time.Time) {
	p.seen, p.waiting = now, b.theirs.pending
	if p.ours == "" && !p.lost {
		b.ours.wait(1, now)
	}
	if p.theirs == "" {
		b.theirs.wait(1, now)
	}
}

// foundByTheirs takes in that a pod is really on a node.
func (b *books) foundByTheirs(p *pod, now time.Time) {
	p.theirs = p.obj.Spec.NodeName
	b.theirs.put(p, p.theirs)
	if p.fixed {
		if !p.lost {
			p.ours = p.theirs
			b.ours.put(p, p.ours)
		}
		return
	}
	p.bound = now
	b.found++
	if !p.seen.IsZero() {
		b.theirs.wait(-1, now)
	}
	if at := scheduledAt(p.obj); !at.IsZero() && !p.gated {
		b.latency.byStatus.add(max(at.Sub(p.obj.CreationTimestamp.Time), 0))
	}
	if b.nodes[p.theirs] {
		b.leave(p, leftScaled)
	}
	b.compare(p)
}

// scheduledAt is when a pod was bound, as it says itself; zero: it does not.
func scheduledAt(p *v1.Pod) time.Time {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// compare takes in how long a pod has waited, once both have a node for it.
func (b *books) compare(p *pod) {
	if p.early || p.seen.IsZero() || p.bound.IsZero() || p.decided.IsZero() {
		return
	}
	b.latency.add(p.waiting, max(p.bound.Sub(p.seen), 0), max(p.decided.Sub(p.seen), 0))
}

// bind has a pod on a node of the own world.
func (b *books) bind(uid types.UID, node string, now time.Time) ([]objects.Event, error) {
	p := b.pods[uid]
	switch _, there := b.nodes[node]; {
	case p == nil || p.lost || p.held:
		return nil, objects.ErrNotFound
	case p.ours != "" || p.fixed:
		return nil, objects.ErrAlreadyBound
	case p.obj.DeletionTimestamp != nil:
		return nil, errors.New("pod is being deleted")
	case !there:
		return nil, fmt.Errorf("node %s is gone", node)
	}
	p.ours, p.decided = node, now
	b.ours.put(p, node)
	b.decided++
	if !p.seen.IsZero() {
		b.ours.wait(-1, now)
	}
	if b.nodes[node] {
		b.leave(p, leftScaled)
	}
	b.compare(p)
	return b.tell(p), nil
}

// evict has victims leave the own world.
func (b *books) evict(victims []*v1.Pod, now time.Time) (out []objects.Event) {
	for _, v := range victims {
		if p := b.pods[v.UID]; p != nil && !p.lost && p.ours != "" {
			b.ours.preempted++
			b.leave(p, leftOurs)
			out = append(out, b.lose(p, now))
		}
	}
	return out
}

// lose takes a pod out of the own world, and returns what that is told.
func (b *books) lose(p *pod, now time.Time) objects.Event {
	last := b.asOurs(p)
	b.ours.take(p, p.ours)
	if p.ours == "" && !p.fixed && !p.seen.IsZero() {
		b.ours.wait(-1, now)
	}
	p.ours, p.lost = "", true
	return objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: last}
}

// removePod takes in that a pod is gone, or has ended.
func (b *books) removePod(obj *v1.Pod, now time.Time) (out []objects.Event) {
	p := b.pods[obj.UID]
	if p == nil {
		return nil
	}
	if p.held {
		b.release(p, p.obj)
	}
	b.update(p, obj)
	preempted := p.theirs != "" && isPreempted(obj)
	switch {
	case preempted && !p.lost:
		b.leave(p, leftTheirs)
	case !p.fixed && !p.lost && (p.theirs == "" || p.ours == ""):
		b.leave(p, leftUndecided)
	case obj.DeletionTimestamp == nil && !p.bound.IsZero() && now.Sub(p.bound) < soon:
		b.leave(p, leftEnded)
	}
	if preempted {
		b.theirs.preempted++
	}
	if !p.lost && p.told {
		out = append(out, b.lose(p, now))
	} else {
		b.ours.take(p, p.ours)
	}
	if p.theirs == "" && !p.fixed && !p.seen.IsZero() {
		b.theirs.wait(-1, now)
	}
	b.theirs.take(p, p.theirs)
	delete(b.pods, obj.UID)
	return out
}

// isPreempted tells whether a scheduler had a pod leave for another.
func isPreempted(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
	})
}

// leave leaves a pod out of what is compared.
func (b *books) leave(p *pod, why string) {
	if p.judged && p.left == "" {
		p.left = why
		b.left[why]++
	}
}

// tell is what the own world is told of a pod as it is now.
func (b *books) tell(p *pod) []objects.Event {
	if p.lost || p.held || p.daemon && p.theirs == "" { // a DaemonSet's pod comes with its node
		return nil
	}
	e := objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: b.asOurs(p)}
	if !p.told {
		e.Type, p.told = objects.Added, true
	}
	return []objects.Event{e}
}

// asOurs is a pod as the own world has it.
func (b *books) asOurs(p *pod) *v1.Pod {
	if p.fixed {
		return p.obj
	}
	c := *p.obj
	c.Spec.NodeName, c.Status.NominatedNodeName = p.ours, ""
	return &c
}

// packing tells how far the worlds can be compared.
func (b *books) packing() (out Packing) {
	out.Left, out.Pinned = sortedCounts(b.left), sortedCounts(b.pinned)
	n := sum(out.Left)
	out.Compared = b.came - n
	out.Drift = share(int64(n), int64(b.came))
	return out
}

// cluster tells what there is.
func (b *books) cluster() Cluster {
	out := Cluster{Nodes: len(b.nodes)}
	for name, pods := range b.schedulers {
		out.Schedulers = append(out.Schedulers, SchedulerPods{Name: name, Pods: pods, Judged: b.judged[name]})
	}
	slices.SortFunc(out.Schedulers, func(x, y SchedulerPods) int {
		return cmp.Or(cmp.Compare(y.Pods, x.Pods), strings.Compare(x.Name, y.Name))
	})
	return out
}

// sortedCounts has the highest first.
func sortedCounts(of map[string]int) []Count {
	out := make([]Count, 0, len(of))
	for what, n := range of {
		out = append(out, Count{What: what, Pods: n})
	}
	slices.SortFunc(out, func(x, y Count) int { return cmp.Or(cmp.Compare(y.Pods, x.Pods), strings.Compare(x.What, y.What)) })
	return out
}
