package queue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

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
		x.q = newOf(Config{Now: func() time.Time { return x.m.now }, Plugins: modelPlugins()})
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
	x.checkNominated(t)
}

func (x *machine) checkNominated(t *rapid.T) {
	want := map[string][]types.UID{}
	for _, n := range x.m.nominated {
		want[n.node] = append(want[n.node], n.pod.obj.UID)
	}
	if nodes := x.q.NominatedNodes(); !slices.Equal(nodes, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("nominated nodes: got %v, want those of %v", nodes, want)
	}
	for node, uids := range want {
		var got []types.UID
		for _, p := range x.q.Nominated(node) {
			got = append(got, p.Obj.UID)
		}
		if !slices.Equal(got, uids) {
			t.Fatalf("nominated to %s: got %v, want %v", node, got, uids)
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
	obj := b.Obj()
	obj.Status.NominatedNodeName = rapid.SampledFrom([]string{"", "", "n1", "n2"}).Draw(t, "nominated")
	x.q.Update(obj)
	x.m.set(obj)
}

// Nominate is what preemption does.
func (x *machine) Nominate(t *rapid.T) {
	uid, node := x.draw(t), rapid.SampledFrom([]string{"", "n1", "n3"}).Draw(t, "node")
	if p := x.q.Get(uid); p != nil {
		x.q.Nominate(p, node)
		x.m.say(x.m.find(uid), node)
	}
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

// drawFlying draws a pod in flight, false where there is none.
func (x *machine) drawFlying(t *rapid.T) (types.UID, bool) {
	var flying []types.UID
	for _, p := range x.m.pods {
		if p.place == InFlight {
			flying = append(flying, p.obj.UID)
		}
	}
	if len(flying) == 0 {
		return "", false
	}
	return rapid.SampledFrom(flying).Draw(t, "pod"), true
}

// Turn begins the attempt of a pod in flight, which nobody holds to the order of take-offs.
func (x *machine) Turn(t *rapid.T) {
	uid, ok := x.drawFlying(t)
	if !ok {
		return
	}
	if got, want := x.q.Turn(x.popped[uid]), x.m.turn(x.m.find(uid)); got != want {
		t.Fatalf("turn of pod %s: got %t, want %t", uid, got, want)
	}
}

// End ends the attempt of a pod in flight in one of the five ways.
func (x *machine) End(t *rapid.T) {
	uid, ok := x.drawFlying(t)
	if !ok {
		return
	}
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
		if m.early {
			m.place = Backoff
		}
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
