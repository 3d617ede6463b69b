package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// waits is a Permit plugin that has pods wait.
type waits struct {
	plugin
	timeout time.Duration
}

func (w waits) Permit(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.Status, time.Duration) {
	return fwk.NewStatus(fwk.Wait), w.timeout
}

// permitted begins a cycle of a pod that waits.
func permitted(t *testing.T, p *Profile, pod string) *Cycle {
	t.Helper()
	c := p.NewCycle(newPod(pod))
	if s := c.Permit(t.Context(), "n"); !s.IsWait() {
		t.Fatalf("Permit: got %v, want Wait", s)
	}
	if !c.WillWait() {
		t.Fatalf("%s does not wait", pod)
	}
	return c
}

func TestAPodThatWaitsIsRejectedAfterTheShortestTimeout(t *testing.T) {
	clock := newClock()
	env := &Environment{Clock: clock}
	p := newProfile(t, env, waits{"Slow", time.Hour}, waits{"Quick", time.Minute})
	c := permitted(t, p, "a")
	verdict := make(chan *fwk.Status)
	go func() { verdict <- c.WaitOnPermit(t.Context()) }()
	clock.Step(time.Minute - 1)
	select {
	case s := <-verdict:
		t.Fatalf("before its time: %v", s)
	default:
	}
	clock.Step(1)
	s := <-verdict
	const want = "rejected due to timeout after waiting 1m0s at plugin Quick"
	if s.Code() != fwk.Unschedulable || s.Message() != want || s.Plugin() != "Quick" {
		t.Errorf("got %v of %q: %q, want %q", s.Code(), s.Plugin(), s.Message(), want)
	}
	if c.WillWait() || clock.HasWaiters() {
		t.Error("it goes on waiting, or a timer runs on")
	}
}

func TestNobodyWaitsLongerThanFifteenMinutes(t *testing.T) {
	clock := newClock()
	p := newProfile(t, &Environment{Clock: clock}, waits{"Slow", 24 * time.Hour})
	c := permitted(t, p, "a")
	clock.Step(15 * time.Minute)
	if got, want := c.WaitOnPermit(t.Context()).Message(), "rejected due to timeout after waiting 15m0s at plugin Slow"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAllPluginsMustAllow(t *testing.T) {
	clock := newClock()
	p := newProfile(t, &Environment{Clock: clock}, waits{"A", time.Minute}, waits{"B", time.Minute})
	c := permitted(t, p, "a")
	w := p.Handle().GetWaitingPod("a")
	equal(t, "pending", w.GetPendingPlugins(), []string{"A", "B"})
	w.Allow("A")
	w.Allow("A")
	equal(t, "pending", w.GetPendingPlugins(), []string{"B"})
	w.Allow("B")
	if w.Reject("B", "too late") || w.Preempt("B", "too late") {
		t.Error("what is allowed can still be rejected")
	}
	if s := c.WaitOnPermit(t.Context()); s != nil {
		t.Errorf("got %v, want success", s)
	}
	if clock.HasWaiters() {
		t.Error("a timer runs on")
	}
	if s := c.WaitOnPermit(t.Context()); s != nil || p.Handle().GetWaitingPod("a") != nil {
		t.Errorf("the second time: got %v, want nothing to wait for", s)
	}
}

func TestAPreemptedPodThatWaitsIsNotRejected(t *testing.T) {
	p := newProfile(t, &Environment{Clock: newClock()}, waits{"A", time.Minute})
	c := permitted(t, p, "a")
	if !p.Handle().GetWaitingPod("a").Preempt("DefaultPreemption", "preempted") {
		t.Fatal("it was not waiting")
	}
	s := c.WaitOnPermit(t.Context())
	if s.Code() != fwk.Error || s.Plugin() != "DefaultPreemption" || s.Message() != "waiting on permit for pod: preempted" {
		t.Errorf("got %v of %q: %q", s.Code(), s.Plugin(), s.Message())
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	clock := newClock()
	p := newProfile(t, &Environment{Clock: clock}, waits{"A", time.Minute})
	c := permitted(t, p, "a")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("not leading any more"))
	if s := c.WaitOnPermit(ctx); s.Code() != fwk.Error || s.Message() != "waiting on permit for pod: not leading any more" {
		t.Errorf("got %v: %q", s.Code(), s.Message())
	}
	if c.WillWait() || clock.HasWaiters() {
		t.Error("it goes on waiting, or a timer runs on")
	}
}

func TestUnreserveEndsTheWaiting(t *testing.T) {
	clock := newClock()
	p := newProfile(t, &Environment{Clock: clock}, waits{"A", time.Minute})
	c := permitted(t, p, "a")
	c.Unreserve(t.Context(), "n")
	if c.WillWait() || clock.HasWaiters() {
		t.Error("it goes on waiting, or a timer runs on")
	}
}

func TestWaitingPodsAreListedInTheOrderInWhichTheyCame(t *testing.T) {
	p := newProfile(t, &Environment{Clock: newClock()}, waits{"A", time.Minute})
	for i := range 20 {
		permitted(t, p, fmt.Sprint(i))
	}
	i := 0
	p.Handle().IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if w.GetPod().Name != fmt.Sprint(i) {
			t.Errorf("number %d is %s", i, w.GetPod().Name)
		}
		p.Handle().RejectWaitingPod(w.GetPod().UID) // from within
		i++
	})
	if i != 20 {
		t.Errorf("%d are listed, want 20", i)
	}
}

// TestVerdictsRace has all that ends waiting come at once: there is one verdict, and one of those
// who ask for another is told that theirs counts.
func TestVerdictsRace(t *testing.T) {
	clock := newClock()
	p := newProfile(t, &Environment{Clock: clock}, waits{"A", time.Minute}, waits{"B", time.Minute})
	for range 200 {
		c := permitted(t, p, "a")
		w := p.Handle().GetWaitingPod("a")
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		var counted [2]bool
		for _, f := range []func(){
			func() { w.Allow("A") }, func() { w.Allow("B") }, cancel,
			func() { clock.Step(time.Minute) },
			func() { counted[0] = w.Reject("A", "no") }, func() { counted[1] = w.Preempt("A", "no") },
			func() { w.GetPendingPlugins() },
		} {
			group.Go(f)
		}
		s := c.WaitOnPermit(ctx)
		group.Wait()
		cancel()
		if counted[0] && s.Message() != "no" || counted[1] && s.Message() != "waiting on permit for pod: no" || counted[0] && counted[1] {
			t.Fatalf("Reject counts: %v, Preempt counts: %v, and the verdict is %v", counted[0], counted[1], s)
		}
	}
	if clock.HasWaiters() {
		t.Error("a timer runs on")
	}
}

func TestAPodInPreBindIsCancelledOrMarked(t *testing.T) {
	pods := NewPodsInPreBind()
	ctx, cancel := context.WithCancelCause(t.Context())
	pods.Add("a", cancel)
	in := pods.Get("a")
	if !in.CancelPod("out of the way") || !in.CancelPod("again") || in.MarkPrebound() {
		t.Error("a cancelled pod was marked, or not cancelled")
	}
	if got := context.Cause(ctx); got.Error() != "out of the way" {
		t.Errorf("cause: got %v", got)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	pods.Add("a", cancel)
	if in := pods.Get("a"); !in.MarkPrebound() || in.CancelPod("too late") || ctx.Err() != nil {
		t.Error("a marked pod was cancelled")
	}
	pods.Remove("a")
	if pods.Get("a") != nil {
		t.Error("it is still there")
	}
}
