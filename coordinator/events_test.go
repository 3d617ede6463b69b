package coordinator

import (
	"context"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// stuck is a binder that the test answers for: it hands on what it is asked, and never answers.
type stuck chan []objects.Binding

func (s stuck) Bind(_ context.Context, bs []objects.Binding, _ func(int, error)) { s <- bs }

// bindUnderWay is a scheduler that has promised node n to pod p and waits for the bind.
func bindUnderWay(t *testing.T) (x *trial, p *v1.Pod, jobs []bind.Job) {
	t.Helper()
	asked := make(stuck, 1)
	x = newTrial(t, SchedulerConfig{Shards: 1, Binder: asked}, 0)
	p = build.Pod("p").UID("p").CPU("1").Obj()
	x.Load(&objects.Snapshot{Nodes: []*v1.Node{build.Node("n").CPU("1").Pods("10").Obj()}, Pods: []*v1.Pod{p}}, nil)
	x.turn(t)
	ctx, cancel := context.WithCancel(quiet())
	var ended sync.WaitGroup
	ended.Go(func() { x.cycles.Run(ctx) })
	t.Cleanup(func() { cancel(); ended.Wait() })
	bindings := <-asked
	if len(bindings) != 1 || bindings[0].Node != "n" {
		t.Fatalf("binds under way: got %v, want p's to n", bindings)
	}
	return x, p, []bind.Job{{Binding: bindings[0]}}
}

// changed delivers a pod's new object.
func (x *trial) changed(t *testing.T, p *v1.Pod, change func(*v1.Pod)) *v1.Pod {
	t.Helper()
	p = p.DeepCopy()
	change(p)
	x.Deliver([]objects.Event{{Type: objects.Modified, Kind: objects.KindPod, Pod: p}})
	x.turn(t)
	return p
}

// wantPlace checks where the queue has a pod, and that no room is promised to it unless
// there is a bind under way.
func (x *trial) wantPlace(t *testing.T, uid types.UID, want queue.Place, promised string) {
	t.Helper()
	got := queue.Gone
	if p := x.queue.Get(uid); p != nil {
		got = p.Place()
	}
	_, node, _ := x.state.Pod(uid)
	if got != want || node != promised {
		t.Errorf("pod %s: got place %q on node %q, want %q on %q", uid, got, node, want, promised)
	}
}

func TestAPodThatLeavesAndComesBackDuringItsBindIsTriedAgain(t *testing.T) {
	x, p, jobs := bindUnderWay(t)
	other := x.changed(t, p, func(p *v1.Pod) { p.Spec.SchedulerName = "another" })
	x.wantPlace(t, "p", queue.Gone, "n")
	back := x.changed(t, other, func(p *v1.Pod) { p.Spec.SchedulerName = v1.DefaultSchedulerName })
	x.wantPlace(t, "p", queue.Gone, "n")

	x.bound(jobs, []error{objects.ErrConflict})
	x.wantPlace(t, "p", queue.ErrorBackoff, "")
	if got := x.queue.Get("p"); got != nil && got.Obj != back {
		t.Errorf("got its object %v, want the newest", got.Obj)
	}
}

func TestAPodGivenToAnotherSchedulerDuringItsBindIsLetGo(t *testing.T) {
	x, p, jobs := bindUnderWay(t)
	x.changed(t, p, func(p *v1.Pod) { p.Spec.SchedulerName = "another" })
	x.bound(jobs, []error{objects.ErrConflict})
	x.wantPlace(t, "p", queue.Gone, "")
	x.wantNothingKept(t)
}

func TestAPodThatAnotherBindsIsTakenInAsItIs(t *testing.T) {
	x, p, jobs := bindUnderWay(t)
	x.changed(t, p, func(p *v1.Pod) { p.Spec.NodeName = "m" })
	x.wantPlace(t, "p", queue.Gone, "m")
	x.bound(jobs, []error{objects.ErrAlreadyBound})
	x.wantPlace(t, "p", queue.Gone, "m")
	x.wantNothingKept(t)
}

func TestAPodIsSeenOnItsNodeBeforeItsBindIsReported(t *testing.T) {
	x, p, jobs := bindUnderWay(t)
	x.changed(t, p, func(p *v1.Pod) { p.Spec.NodeName = "n" })
	x.bound(jobs, []error{nil})
	x.wantPlace(t, "p", queue.Gone, "n")
	if _, assumed := x.state.Pods(); assumed != 0 {
		t.Errorf("got %d pods assumed, want none: it was seen", assumed)
	}
	if x.summaryNow().SubmitToBound.Count != 1 {
		t.Errorf("got no time from submit to bound, want one")
	}
	x.wantNothingKept(t)
}

// wantNothingKept checks that nothing is remembered of pods that are not pending.
func (x *trial) wantNothingKept(t *testing.T) {
	t.Helper()
	if len(x.binds.pending)+len(x.failing) != 0 {
		t.Errorf("kept: binding %v, failing %v; want nothing", x.binds.pending, x.failing)
	}
}
