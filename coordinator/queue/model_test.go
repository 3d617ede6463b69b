package queue

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The model is a queue as one would write it down from the description: a list of pods that
// is walked for everything, and for each pod in flight the list of what happened
// since. The queue is held against it after every step.

// modelPlugins stand for the four ways in which a plugin can wait. A fifth, "ghost", is not
// told to the queue.
func modelPlugins() []Plugin {
	return []Plugin{
		{Name: "hold", PreEnqueue: heldByGates, Events: []Registration{{Resource: PendingPod, Actions: UpdatePodSchedulingGatesEliminated}}},
		{Name: "kind", Events: []Registration{{Resource: Node, Actions: Add, Helps: func(p *Pod, e *Event) bool { return sameKind(p.Obj, e.node) }}}},
		{Name: "room", Events: []Registration{{Resource: AnyPod, Actions: Delete}}},
		{Name: "own", Events: []Registration{{Resource: AnyPod, Actions: UpdatePodToleration, Helps: IsOwn}}},
	}
}

func heldByGates(p *v1.Pod) string {
	if len(p.Spec.SchedulingGates) == 0 {
		return ""
	}
	return "held"
}

func sameKind(p *v1.Pod, n *v1.Node) bool { return p.Spec.NodeSelector["kind"] == n.Labels["kind"] }

type modelPod struct {
	said      *string // its nomination, where a caller has said it since the status changed
	obj       *v1.Pod
	place     Place
	seq       int
	timestamp time.Time
	until     time.Time
	attempts  int
	rejected  int
	errors    int
	by        []string
	since     []Event // in flight: what happened
	early     bool    // in flight: popped from its backoff
	activated bool
	deleted   bool
}

func (p *modelPod) priority() int32 {
	if p.obj.Spec.Priority == nil {
		return 0
	}
	return *p.obj.Spec.Priority
}

func (p *modelPod) helped(e *Event) bool {
	for _, by := range p.by {
		switch by {
		case "ghost":
			return true
		case "kind":
			if e.resource == Node && (e.action == Add && sameKind(p.obj, e.node) || e.action == UpdateNodeTaint) {
				return true
			}
		case "room":
			if e.action == Delete && e.resource == AssignedPod {
				return true
			}
		case "own":
			if e.action == UpdatePodToleration && e.pod.UID == p.obj.UID {
				return true
			}
		}
	}
	return false
}

type model struct {
	now  time.Time
	pods []*modelPod
	seq  int
	// nominated is who is nominated, in order, whatever the node.
	nominated []nomination
}

type nomination struct {
	pod  *modelPod
	node string
}

// nominate takes a pod's nomination away and gives it another, if any.
func (m *model) nominate(p *modelPod, node string) {
	m.nominated = slices.DeleteFunc(m.nominated, func(n nomination) bool { return n.pod == p })
	if node != "" {
		m.nominated = append(m.nominated, nomination{p, node})
	}
}

// say is what a caller makes of a pod's nomination. It holds until the status changes.
func (m *model) say(p *modelPod, node string) {
	p.said = &node
	m.nominate(p, node)
}

// goBy nominates a pod as it was said last, or else by its status.
func (m *model) goBy(p *modelPod) {
	node := p.obj.Status.NominatedNodeName
	if p.said != nil {
		node = *p.said
	}
	m.nominate(p, node)
}

func (m *model) find(uid types.UID) *modelPod {
	for _, p := range m.pods {
		if p.obj.UID == uid {
			return p
		}
	}
	return nil
}

func (m *model) backsOff(p *modelPod) bool {
	return !p.until.IsZero() && m.now.Unix() <= p.until.Unix()
}

func (m *model) requeue(p *modelPod) {
	switch {
	case len(p.obj.Spec.SchedulingGates) > 0:
		p.place = Gated
	case m.backsOff(p) && len(p.by) > 0:
		p.place = Backoff
	case m.backsOff(p):
		p.place = ErrorBackoff
	default:
		p.place = Active
	}
}

func (m *model) set(obj *v1.Pod) {
	p := m.find(obj.UID)
	if p == nil {
		m.seq++
		p = &modelPod{obj: obj, seq: m.seq, timestamp: m.now}
		m.pods = append(m.pods, p)
		if m.requeue(p); p.place == Active {
			m.nominate(p, obj.Status.NominatedNodeName)
		}
		return
	}
	old := p.obj
	p.obj, p.deleted = obj, false
	if old.Status.NominatedNodeName != obj.Status.NominatedNodeName {
		p.said = nil
	}
	events := podUpdated(PendingPod, old, obj)
	if p.place == InFlight {
		for _, e := range events {
			m.record(e)
		}
		return
	}
	m.goBy(p)
	switch p.place {
	case Gated:
		for _, e := range events {
			if e.action == UpdatePodSchedulingGatesEliminated {
				m.requeueFor(p, e)
				return
			}
		}
	case Unschedulable:
		for i := range events {
			if p.helped(&events[i]) {
				m.requeueFor(p, events[i])
				return
			}
		}
	}
}

// requeueFor requeues a pod for its own update. One that is none of those with a name, and
// makes the pod active, has its status tell again where it is nominated.
func (m *model) requeueFor(p *modelPod, e Event) {
	if m.requeue(p); p.place == Active && e.action == Update {
		m.goBy(p)
	}
}

func (m *model) delete(uid types.UID) {
	if p := m.find(uid); p != nil && p.place == InFlight {
		p.deleted = true
		m.nominate(p, "")
	} else if p != nil {
		m.remove(p)
	}
}

func (m *model) remove(p *modelPod) {
	p.place = Gone
	m.nominate(p, "")
	m.pods = slices.DeleteFunc(m.pods, func(x *modelPod) bool { return x == p })
}

func (m *model) flush() {
	for _, p := range m.pods {
		switch p.place {
		case Backoff, ErrorBackoff:
			if !m.backsOff(p) {
				p.place = Active
			}
		case Unschedulable:
			if !m.now.Before(tick(p.timestamp.Add(5 * time.Minute))) {
				m.requeue(p)
			}
		}
	}
}

// tick is the first of every 30 seconds from the start that comes after a time.
func tick(after time.Time) time.Time {
	t := start
	for !t.After(after) {
		t = t.Add(30 * time.Second)
	}
	return t
}

func (m *model) pop(n int) []types.UID {
	m.flush()
	var out []types.UID
	for range n {
		var best *modelPod
		for _, p := range m.pods {
			if (p.place == Active || p.place == Backoff) && (best == nil || m.goesBefore(p, best)) {
				best = p
			}
		}
		if best == nil {
			break
		}
		best.early = best.place == Backoff
		best.place, best.since, best.activated = InFlight, nil, false
		best.attempts++
		out = append(out, best.obj.UID)
	}
	return out
}

// turn tells whether nobody waits who would be popped before a pod in flight, if that were
// back where it was popped from.
func (m *model) turn(p *modelPod) bool {
	p.place = Active
	if p.early {
		p.place = Backoff
	}
	first := !slices.ContainsFunc(m.pods, func(x *modelPod) bool {
		return x != p && (x.place == Active || x.place == Backoff) && m.goesBefore(x, p)
	})
	if p.place = InFlight; first {
		p.since = nil
	}
	return first
}

func (m *model) goesBefore(a, b *modelPod) bool {
	if a.place != b.place {
		return a.place == Active
	}
	end := 0
	if a.place == Backoff {
		end = a.until.Compare(b.until)
	}
	return cmp.Or(end, cmp.Compare(b.priority(), a.priority()), a.timestamp.Compare(b.timestamp), cmp.Compare(a.seq, b.seq)) < 0
}

// failed ends an attempt; by nobody: an error.
func (m *model) failed(uid types.UID, by []string) {
	p := m.find(uid)
	if p.deleted {
		m.remove(p)
		return
	}
	p.timestamp, p.by = m.now, by
	count := &p.errors
	if len(by) == 0 {
		m.say(p, "")
	} else {
		m.goBy(p)
		p.errors = 0
		count = &p.rejected
	}
	*count++
	p.until = m.now.Add([]time.Duration{1, 2, 4, 8, 10}[min(*count, 5)-1] * time.Second).Truncate(time.Second)
	helped := p.activated || len(by) == 0
	for i := range p.since {
		helped = helped || p.helped(&p.since[i])
	}
	p.place = Unschedulable
	if helped {
		m.requeue(p)
	}
}

func (m *model) move(e Event) {
	for _, p := range m.pods {
		if p.place == Unschedulable && p.helped(&e) {
			m.requeue(p)
		}
	}
	m.record(e)
}

func (m *model) record(e Event) {
	for _, p := range m.pods {
		if p.place == InFlight {
			p.since = append(p.since, e)
		}
	}
}

func (m *model) activate(uid types.UID) {
	p := m.find(uid)
	if p == nil {
		return
	}
	if p.place == InFlight {
		p.activated = true
		return
	}
	if p.until = p.until.Add(-time.Hour); p.place != Active { // no backoff holds any more
		until := p.until
		m.requeue(p)
		p.until = until.Add(time.Hour)
		return
	}
	p.until = p.until.Add(time.Hour)
}
