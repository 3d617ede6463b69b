package shadow

import (
	"cmp"
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// The state that a decision was made at is not the one that its bind finds. A scheduler decides one pod after the other, counts each as
// being on its node at once, and binds behind that: binds are written in another order, and some time later. What else has happened
// it sees when its watches tell it. So its state has
//
//	for sure   what its own earlier decisions have put on nodes, bound or not
//	not        what its own later decisions have, though it may be bound already
//	maybe      what else has happened between the decision and the bind
//
// A decision that ours is not at the moment of its bind is held against some such states, from the likeliest on.
const (
	queueOrder   = "in the order of their queue"
	beforeOthers = "before other changes that came while it was bound"
	withLater    = "with pods that were bound after it"
	beforeAll    = "before binds and changes that came while it was bound"
)

// change is one event that was taken in.
type change struct {
	number           uint64
	at               time.Time
	event            objects.Event
	before           objects.Object // nil: there was none
	bind             *pendingPod    // the pod of a judged profile that it has bound; nil: none
	checked, matters bool
}

// remember notes an event that is about to be taken in.
func (m *Mirror) remember(e *objects.Event, before objects.Object, bind *pendingPod) {
	now := m.cfg.Now()
	m.number++
	m.log = append(m.log, change{number: m.number, at: now, event: *e, before: before, bind: bind})
	drop := 0
	for drop < len(m.log) && (len(m.log)-drop > m.limits.back || now.Sub(m.log[drop].at) > m.limits.past) {
		drop++
	}
	clear(m.log[:drop])
	m.log = m.log[drop:]
}

// changes tells whether an event has changed what decides about other pods.
func (c *change) changes() bool {
	if !c.checked {
		c.checked, c.matters = true, c.bind != nil || differs(&c.event, c.before)
	}
	return c.matters
}

func differs(e *objects.Event, before objects.Object) bool {
	switch {
	case e.Pod != nil:
		was, _ := before.(*v1.Pod)
		there, now := was != nil && was.Spec.NodeName != "", e.Pod.Spec.NodeName != "" && e.Type != objects.Deleted && !objects.IsTerminal(e.Pod)
		switch {
		case there != now:
			return true
		case !now && e.Type == objects.Deleted:
			return was != nil && was.Status.NominatedNodeName != "" // the room is free that was kept for it
		case !now:
			return was != nil && was.Status.NominatedNodeName != e.Pod.Status.NominatedNodeName
		}
		return !apiequality.Semantic.DeepEqual(was.Spec, e.Pod.Spec) || !apiequality.Semantic.DeepEqual(was.Labels, e.Pod.Labels) ||
			was.DeletionTimestamp.IsZero() != e.Pod.DeletionTimestamp.IsZero() ||
			!apiequality.Semantic.DeepEqual(was.Status.ContainerStatuses, e.Pod.Status.ContainerStatuses)
	case e.Node != nil:
		was, _ := before.(*v1.Node)
		return was == nil || e.Type == objects.Deleted || !apiequality.Semantic.DeepEqual(was.Spec, e.Node.Spec) ||
			!apiequality.Semantic.DeepEqual(was.Status, e.Node.Status) || !apiequality.Semantic.DeepEqual(was.Labels, e.Node.Labels) ||
			!apiequality.Semantic.DeepEqual(was.Annotations, e.Node.Annotations)
	}
	return true
}

// errBusy says that there is no time to look at other states.
var errBusy = errors.New(behind)

// otherStates looks for a state at which a pod may have been decided, and at which a judgement agrees with them. nil: there is none. All is
// as it was after it.
func (m *Mirror) otherStates(ctx context.Context, known *pendingPod, node string, preempts bool,
	agrees func(*coordinator.Judgement) bool) (*coordinator.Judgement, string, error) {
	if m.lag() > m.limits.hold+m.limits.behind/2 {
		return nil, "", errBusy
	}
	t := &trip{m: m, ctx: ctx, known: known, node: node, preempts: preempts, agrees: agrees, left: m.limits.states,
		undone: map[uint64]bool{}, revived: map[types.UID]bool{}}
	defer t.restore()
	if t.reorder() {
		if j, err := t.judge(); j != nil || err != nil {
			return j, queueOrder, err
		}
	}
	if j, err := t.back(false); j != nil || err != nil {
		return j, beforeOthers, err
	}
	t.restore()
	if j, err := t.forward(); j != nil || err != nil {
		return j, withLater, err
	}
	t.restore()
	j, err := t.back(true)
	return j, beforeAll, err
}

// forward has the pods bound that are bound next, one after the other: a pod that waits out its backoff is decided after pods that came
// later, and may be bound before them.
func (t *trip) forward() (*coordinator.Judgement, error) {
	if !t.known.refused {
		return nil, nil // it had no backoff
	}
	var list []*v1.Pod
	t.m.ahead(func(e *objects.Event) bool {
		if e.Kind == objects.KindPod && e.Type != objects.Deleted && isBound(e.Pod) && e.Pod.UID != t.known.obj.UID {
			list = append(list, e.Pod)
		}
		return true
	})
	taken := map[types.UID]bool{}
	for _, p := range list {
		other := t.m.pending[p.UID]
		if other == nil || taken[p.UID] {
			continue
		}
		taken[p.UID] = true
		t.ahead, t.to = append(t.ahead, other), append(t.to, p)
		t.deliver(objects.Modified, p)
		if j, err := t.judge(); j != nil || err != nil || t.left <= 0 {
			return j, err
		}
	}
	return nil, nil
}

// lag is for how long the oldest event has been held back.
func (m *Mirror) lag() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) == 0 {
		return 0
	}
	return m.cfg.Now().Sub(m.held[0].at)
}

// trip looks at other states, and goes back to where it began.
type trip struct {
	m        *Mirror
	ctx      context.Context
	known    *pendingPod
	node     string
	preempts bool
	agrees   func(*coordinator.Judgement) bool
	left     int // how many states may be judged still

	undone  map[uint64]bool
	revived map[types.UID]bool // objects whose end is undone
	list    []*change          // undone, in that order
	ahead   []*pendingPod      // bound before their time
	to      []*v1.Pod          // as which they were bound
}

// judge judges the pod at the state at hand; nil: it does not agree.
func (t *trip) judge() (*coordinator.Judgement, error) {
	if t.left--; t.left < 0 {
		return nil, nil
	}
	j, err := t.m.scheduler.Judge(t.ctx, t.known.obj.UID, t.node, t.preempts)
	switch {
	case err != nil && (t.ctx.Err() != nil || isStopped(err)):
		return nil, err
	case err != nil || !t.agrees(j):
		return nil, nil
	}
	return j, nil
}

// comesFirst tells whether a pod comes before another in their queue.
func comesFirst(a, b *pendingPod) bool {
	return cmp.Or(cmp.Compare(priority(b.obj), priority(a.obj)), cmp.Compare(a.queued, b.queued)) < 0
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// reorder has the pods bound that come before the pod in their queue, and those not that come after it; false: all is so already.
func (t *trip) reorder() bool {
	m := t.m
	for i := len(m.log) - 1; i >= 0 && m.log[i].number > t.known.came; i-- {
		c := &m.log[i]
		if c.bind == nil || comesFirst(c.bind, t.known) {
			continue
		}
		if now, _ := m.last[c.event.Pod.UID].(*v1.Pod); now != nil && now.Spec.NodeName != "" {
			t.undo(c)
		}
	}
	var list []*v1.Pod
	m.ahead(func(e *objects.Event) bool {
		if e.Kind == objects.KindPod && e.Type != objects.Deleted && e.Pod.Spec.NodeName != "" {
			list = append(list, e.Pod)
		}
		return true
	})
	taken := map[types.UID]bool{t.known.obj.UID: true}
	for _, p := range list {
		if other := m.pending[p.UID]; other != nil && !taken[p.UID] && comesFirst(other, t.known) {
			taken[p.UID] = true
			t.ahead, t.to = append(t.ahead, other), append(t.to, p)
			t.deliver(objects.Modified, p)
		}
	}
	return len(t.list)+len(t.ahead) > 0
}

// back goes back, change by change, to when the pod came, and judges it on the way: after one, two, three, and then ever longer
// steps. binds: those of judged pods are undone, too.
func (t *trip) back(binds bool) (*coordinator.Judgement, error) {
	m := t.m
	n, next := 0, 1
	for i := len(m.log) - 1; i >= 0 && m.log[i].number > t.known.came && t.left > 0; i-- {
		c := &m.log[i]
		uid := c.event.Any().GetUID()
		if t.undone[c.number] || c.bind != nil && !binds || uid == t.known.obj.UID || !c.changes() {
			continue
		}
		if c.event.Type != objects.Deleted && m.last[uid] == nil && !t.revived[uid] {
			continue // it is gone since
		}
		t.undo(c)
		if n++; n < next {
			continue
		}
		next = n + max(1, n/8)
		if j, err := t.judge(); j != nil || err != nil {
			return j, err
		}
	}
	if n == 0 || next == n+max(1, n/8) && n < 4 {
		return nil, nil
	}
	return t.judge()
}

// undo takes a change back.
func (t *trip) undo(c *change) {
	t.undone[c.number] = true
	t.list = append(t.list, c)
	obj := c.event.Any()
	if c.event.Type == objects.Deleted {
		t.revived[obj.GetUID()] = true
	}
	switch {
	case c.bind != nil:
		t.deliver(objects.Deleted, obj)
		t.deliver(objects.Added, c.before)
	case c.event.Type == objects.Deleted && c.before == nil:
		t.deliver(objects.Added, obj)
	case c.event.Type == objects.Deleted:
		t.deliver(objects.Added, c.before)
	case c.before == nil:
		t.deliver(objects.Deleted, obj)
	case isBound(obj) && !isBound(c.before): // by another scheduler
		t.deliver(objects.Deleted, obj)
	default:
		t.deliver(objects.Modified, c.before)
	}
}

func isBound(obj objects.Object) bool {
	p, _ := obj.(*v1.Pod)
	return p != nil && p.Spec.NodeName != ""
}

// restore goes forward to where the trip began.
func (t *trip) restore() {
	for i, p := range t.ahead {
		t.deliver(objects.Deleted, t.to[i])
		t.deliver(objects.Added, p.obj)
	}
	for i := len(t.list) - 1; i >= 0; i-- {
		c := t.list[i]
		t.m.scheduler.Deliver([]objects.Event{c.event})
		// What came after it and was not taken back.
		if now := t.m.last[c.event.Any().GetUID()]; now != nil && now != c.event.Any() {
			t.deliver(objects.Modified, now)
		}
	}
	clear(t.undone)
	clear(t.revived)
	t.list, t.ahead, t.to = nil, nil, nil
}

// deliver has the scheduler take in that something is so.
func (t *trip) deliver(what objects.EventType, obj objects.Object) {
	e := objects.Event{Type: what, Kind: objects.KindOf(obj)}
	switch obj := obj.(type) {
	case *v1.Node:
		e.Node = obj
	case *v1.Pod:
		e.Pod = obj
	default:
		e.Object = obj
	}
	t.m.scheduler.Deliver([]objects.Event{e})
}
