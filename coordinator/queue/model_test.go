package queue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/build"
)

// The model is a queue as one would write it down from the description: a list of pods that
// is walked for everything, and for each pod in flight the list of what happened
// since. The queue is held against it after every step.

// modelPlugins stand for the four ways in which a plugin can wait. A fifth, "ghost", is not
// told to the queue.
func modelPlugins() []Plugin {
	return []Plugin{
		{Name: "hold", PreEnqueue: schedulingGates},
		{Name: "kind", Events: []Registration{{Resource: Node, Actions: Add, Helps: func(p *Pod, e *Event) bool { return sameKind(p.Obj, e.node) }}}},
		{Name: "room", Events: []Registration{{Resource: AnyPod, Actions: Delete}}},
		{Name: "own", Events: []Registration{{Resource: AnyPod, Actions: UpdatePodToleration, Helps: isOwn}}},
	}
}

func sameKind(p *v1.Pod, n *v1.Node) bool { return p.Spec.NodeSelector["kind"] == n.Labels["kind"] }

type modelPod struct {
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
		m.requeue(p)
		return
	}
	old := p.obj
	p.obj, p.deleted = obj, false
	events := podUpdated(PendingPod, old, obj)
	switch p.place {
	case InFlight:
		for _, e := range events {
			m.record(e)
		}
	case Gated:
		m.requeue(p)
	case Unschedulable:
		for i := range events {
			if p.helped(&events[i]) {
				m.requeue(p)
				return
			}
		}
	}
}

func (m *model) delete(uid types.UID) {
	if p := m.find(uid); p != nil && p.place == InFlight {
		p.deleted = true
	} else if p != nil {
		m.remove(p)
	}
}

func (m *model) remove(p *modelPod) {
	p.place = Gone
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
			if !m.now.Before(ceil(p.timestamp.Add(5 * time.Minute))) {
				m.requeue(p)
			}
		}
	}
}

func ceil(t time.Time) time.Time {
	if down := t.Truncate(time.Second); !down.Equal(t) {
		return down.Add(time.Second)
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
		best.place, best.since, best.activated = InFlight, nil, false
		best.attempts++
		out = append(out, best.obj.UID)
	}
	return out
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
	if len(by) > 0 {
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

// machine is the state machine that rapid drives: every method is a step.
type machine struct {
	q       *Queue
	m       model
	popped  map[types.UID]*Pod
	retired []retired // done, and may be retried
}

type retired struct {
	pod   *Pod
	model *modelPod
}

func TestQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &machine{m: model{now: start}, popped: map[types.UID]*Pod{}}
		x.q = New(Config{Now: func() time.Time { return x.m.now }, Plugins: modelPlugins()})
		t.Repeat(rapid.StateMachineActions(x))
	})
}

// Check compares the two and holds the queue's own invariants.
func (x *machine) Check(t *rapid.T) {
	check(t, x.q)
	if got, want := len(x.q.pods), len(x.m.pods); got != want {
		t.Fatalf("got %d pods, want %d", got, want)
	}
	for _, want := range x.m.pods {
		got := x.q.pods[want.obj.UID]
		if got == nil {
			t.Fatalf("pod %s is lost: want it in %q", want.obj.UID, want.place)
		}
		line := func(place Place, ts, until time.Time, attempts, rejected, errors int, by []string) string {
			return fmt.Sprintf("%s queued=%s until=%s attempts=%d rejected=%d errors=%d by=%v", placeName(place), ts, until, attempts, rejected, errors, by)
		}
		g := line(got.place, got.Timestamp, got.BackoffUntil, got.Attempts, got.UnschedulableCount, got.ErrorCount, got.RejectedBy)
		w := line(want.place, want.timestamp, want.until, want.attempts, want.rejected, want.errors, want.by)
		if g != w {
			t.Fatalf("pod %s:\n got %s\nwant %s", want.obj.UID, g, w)
		}
	}
}

func (x *machine) Time(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{1, 300, 1000, 2500, 11000, 60000, 301000}).Draw(t, "ms")
	x.m.now = x.m.now.Add(d * time.Millisecond)
	x.q.Flush()
	x.m.flush()
	if wake := x.q.NextWake(); !wake.IsZero() && !wake.After(x.m.now) {
		t.Fatalf("wake: got %s, want a time after %s", wake, x.m.now)
	}
}

// Wake goes to the instant that the queue names: something has to happen there, and nothing
// before.
func (x *machine) Wake(t *rapid.T) {
	wake := x.q.NextWake()
	if wake.IsZero() {
		return
	}
	x.m.now = wake.Add(-1)
	before := x.q.counts
	x.q.Flush()
	if x.q.counts != before {
		t.Fatalf("an instant before the wake: got %v, want %v as before", x.q.counts, before)
	}
	x.m.now = wake
	x.q.Flush()
	x.m.flush()
	if x.q.counts == before {
		t.Fatalf("at the wake: got %v as before, want a change", before)
	}
}

func (x *machine) Set(t *rapid.T) {
	id := rapid.IntRange(0, 9).Draw(t, "pod")
	b := build.Pod(fmt.Sprint("p", id)).
		Priority(int32(rapid.IntRange(0, 2).Draw(t, "priority"))).
		NodeSelector("kind", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kind"))
	if rapid.IntRange(0, 5).Draw(t, "gate") == 0 {
		b.Gate("g")
	}
	if rapid.Bool().Draw(t, "tolerates") {
		b.Toleration("k")
	}
	x.q.Update(b.Obj())
	x.m.set(b.Obj())
}

func (x *machine) Delete(t *rapid.T) {
	uid := x.draw(t)
	x.q.Delete(uid)
	x.m.delete(uid)
}

func (x *machine) Activate(t *rapid.T) {
	uid := x.draw(t)
	x.q.Activate(uid)
	x.m.activate(uid)
}

func (x *machine) draw(t *rapid.T) types.UID {
	return types.UID(fmt.Sprint("pod-p", rapid.IntRange(0, 9).Draw(t, "pod")))
}

func (x *machine) Pop(t *rapid.T) {
	n := rapid.IntRange(1, 5).Draw(t, "n")
	var got []types.UID
	for _, p := range x.q.PopBatch(n, nil) {
		got = append(got, p.Obj.UID)
		x.popped[p.Obj.UID] = p
	}
	if want := x.m.pop(n); !slices.Equal(got, want) {
		t.Fatalf("popped %v, want %v", got, want)
	}
}

// End ends the attempt of a pod in flight in one of the five ways.
func (x *machine) End(t *rapid.T) {
	var flying []types.UID
	for _, p := range x.m.pods {
		if p.place == InFlight {
			flying = append(flying, p.obj.UID)
		}
	}
	if len(flying) == 0 {
		return
	}
	uid := rapid.SampledFrom(flying).Draw(t, "pod")
	p, m := x.popped[uid], x.m.find(uid)
	switch rapid.IntRange(0, 4).Draw(t, "end") {
	case 0:
		x.q.Done(uid)
		x.m.remove(m)
		if !m.deleted {
			x.retired = append(x.retired, retired{p, m})
		}
	case 1:
		x.q.Error(p, errors.New("boom"))
		x.m.failed(uid, nil)
	case 2:
		x.q.GiveBack(p)
		if m.deleted {
			x.m.remove(m)
			return
		}
		m.attempts--
		m.place = Active
	default:
		by := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"ghost", "kind", "own", "room"}), 1, 4, rapid.ID).Draw(t, "by")
		if rapid.Bool().Draw(t, "class") { // of a class is who has the same spec
			p.ClassID = map[string]uint64{"a": 1, "b": 2}[p.Obj.Spec.NodeSelector["kind"]]
		}
		x.q.Unschedulable(p, by, "no")
		slices.Sort(by)
		x.m.failed(uid, by)
	}
}

// Retry takes a pod back whose bind failed, unless it is there again.
func (x *machine) Retry(t *rapid.T) {
	if len(x.retired) == 0 {
		return
	}
	i := rapid.IntRange(0, len(x.retired)-1).Draw(t, "retired")
	r := x.retired[i]
	x.retired = slices.Delete(x.retired, i, i+1)
	x.q.Retry(r.pod, errors.New("bind failed"))
	if x.m.find(r.model.obj.UID) != nil {
		return
	}
	x.m.pods = append(x.m.pods, r.model)
	r.model.since, r.model.activated = nil, false
	x.m.failed(r.model.obj.UID, nil)
}

func (x *machine) NodeAdded(t *rapid.T) {
	kind := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "kind")
	x.event(NodeAdded(build.Node("n").Label("kind", kind).Obj()))
}

func (x *machine) NodeChanged(t *rapid.T) {
	now := build.Node("n")
	if rapid.Bool().Draw(t, "taint") {
		now.Taint("a:NoSchedule")
	} else {
		now.Label("x", "y")
	}
	for _, e := range NodeUpdated(build.Node("n").Obj(), now.Obj()) {
		x.event(e)
	}
}

func (x *machine) PodDeleted(*rapid.T) {
	x.event(AssignedPodDeleted(build.Pod("gone").Node("n").Obj()))
}

func (x *machine) event(e Event) {
	x.q.Move(e)
	x.m.move(e)
}

// TestWindowAgainstSlice holds a window against a list that never forgets.
func TestWindowAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window[*int]
		var all []*int
		first := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				x := new(int)
				w.push(x)
				all = append(all, x)
			},
			"trim": func(t *rapid.T) {
				first = rapid.IntRange(first, len(all)).Draw(t, "first")
				w.trim(uint64(first))
			},
			"": func(t *rapid.T) {
				if int(w.first) != first || int(w.end()) != len(all) || w.len() != len(all)-first {
					t.Fatalf("got %d to %d, %d elements; want %d to %d", w.first, w.end(), w.len(), first, len(all))
				}
				for i := first; i < len(all); i++ {
					if *w.at(uint64(i)) != all[i] {
						t.Fatalf("element %d: got another", i)
					}
				}
				for i := range w.head {
					if w.items[i] != nil {
						t.Fatalf("a forgotten element is still held at %d", i)
					}
				}
			},
		})
	})
}
