package coordinator

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func TestAPodIsPlacedBoundAndConfirmed(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		release := x.binder.hold()
		p := cores("p", "1")
		x.deliver(objects.Added, p)
		x.wantPods("while it is bound", "p promised n")
		release(nil)
		x.wantPods("when that is committed", "p promised n")
		x.confirm(p, "n")
		x.wantPods("when it is seen", "p on n")
		x.wantBinds("after all", "p@1 n")
		x.deliver(objects.Deleted, p)
		x.wantPods("when it is gone")
	})
}

func TestARefusedBindIsTakenBackAndTriedAgainWithTheNewestObject(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		release := x.binder.hold()
		p := cores("p", "3")
		x.deliver(objects.Added, p)
		x.update(p, "2", func(p *v1.Pod) { p.Labels = map[string]string{"new": "yes"} })
		x.deliver(objects.Added, cores("q", "2"))
		x.wantPods("p changed, q has no room", "p promised n", "q unschedulable")

		release(always(objects.ErrConflict))
		x.wantPods("the conflict gives room to q", "p backoff", "q promised n")
		x.wantMessage("p", "bind pod p: changed meanwhile")
		elapse(journalEvery)
		if got := x.journal.attempts("p"); got != 1 {
			t.Errorf("journal: got %d attempts of p, want 1", got)
		}

		x.update(cores("q", "2"), "9", func(q *v1.Pod) { q.Status.Phase = v1.PodSucceeded })
		elapse(3 * time.Second) // p's backoff of a second
		x.wantPods("p is tried again", "p promised n")
		x.wantBinds("with its newest object", "p@1 n", "q@1 n", "p@2 n")
		x.confirm(p, "n")
		elapse(journalEvery)
		if got := x.journal.attempts("p"); got != 0 {
			t.Errorf("journal: got %d attempts of p, which is bound; want no entry", got)
		}
		sum, err := x.Summary(x.ctx)
		if err != nil || sum.BindFailures != 1 || sum.PodsBound != 2 || sum.Decisions != 4 {
			t.Errorf("summary: got %d failures, %d bound, %d decisions, %v; want 1, 2, 4", sum.BindFailures, sum.PodsBound, sum.Decisions, err)
		}
	})
}

// A pod that asks for less while its bind is under way is judged by that from then on.
func TestARefusedBindOfAPodThatHasShrunk(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("4", "n"), build.Pod("big").UID("big").CPU("2").Node("n").Obj()), nil, func(x *scenario) {
		release := x.binder.hold()
		p := cores("p", "2")
		x.deliver(objects.Added, p)
		x.update(p, "2", func(p *v1.Pod) { p.Spec = cores("p", "1").Spec })
		release(always(objects.ErrConflict))
		elapse(3 * time.Second)
		x.wantBinds("tried again", "p@1 n", "p@2 n")
		x.deliver(objects.Added, cores("q", "1"))
		x.wantPods("there is room for another", "p promised n", "q promised n")
	})
}

func TestABindThatIsNotToBeRetried(t *testing.T) {
	for name, x := range map[string]struct {
		err   error
		event func(x *scenario, p *v1.Pod) // before the outcome; nil: none
		want  []string
	}{
		"bound elsewhere, and not seen there yet": {objects.ErrAlreadyBound, nil, []string{"q promised n"}},
		"bound elsewhere, and seen there":         {objects.ErrAlreadyBound, func(x *scenario, p *v1.Pod) { x.confirm(p, "m") }, []string{"p on m", "q promised n"}},
		"changed, then bound elsewhere":           {objects.ErrConflict, func(x *scenario, p *v1.Pod) { x.confirm(p, "m") }, []string{"p on m", "q promised n"}},
		"changed, and bound here by another":      {objects.ErrConflict, func(x *scenario, p *v1.Pod) { x.confirm(p, "n") }, []string{"p on n", "q unschedulable"}},
		"deleted":                                 {objects.ErrNotFound, func(x *scenario, p *v1.Pod) { x.deliver(objects.Deleted, p) }, []string{"q promised n"}},
		"deleted, and not heard of yet":           {objects.ErrNotFound, nil, []string{"q promised n"}},
		"run to its end":                          {objects.ErrConflict, func(x *scenario, p *v1.Pod) { x.update(p, "3", end) }, []string{"q promised n"}},
	} {
		t.Run(name, func(t *testing.T) {
			runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(s *scenario) {
				release := s.binder.hold()
				p := cores("p", "4")
				s.deliver(objects.Added, p)
				s.deliver(objects.Added, cores("q", "4"))
				s.wantPods("before", "p promised n", "q unschedulable")
				if x.event != nil {
					x.event(s, p)
				}
				release(func(b objects.Binding) error {
					if b.Pod.Name == "p" {
						return x.err
					}
					return nil
				})
				elapse(time.Minute)
				s.wantPods("after", x.want...)
				s.wantNothingOf("p")
			})
		})
	}
}

func end(p *v1.Pod) { p.Status.Phase = v1.PodFailed }

// wantNothingOf checks that nothing is remembered of a pod that is not to be tried again.
func (x *scenario) wantNothingOf(uid types.UID) {
	x.t.Helper()
	elapse(2 * journalEvery)
	if err := x.call(x.t.Context(), func() {
		_, binding := x.Scheduler.binds.pending[uid]
		_, failing := x.failing[uid]
		entry := x.journal.attempts(uid) != 0
		if binding || failing || entry || x.queue.Has(uid) {
			x.t.Errorf("of %s is kept: binding %t, failing %t, journal %t, in the queue %t; want nothing", uid, binding, failing, entry, x.queue.Has(uid))
		}
	}); err != nil {
		x.t.Fatal(err)
	}
}

func TestAPodIsDeletedWhileItsBindIsUnderWay(t *testing.T) {
	for name, err := range map[string]error{"too late": nil, "in time": objects.ErrNotFound} {
		t.Run(name, func(t *testing.T) {
			runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
				release := x.binder.hold()
				p := cores("p", "4")
				x.deliver(objects.Added, p)
				x.deliver(objects.Added, cores("q", "4"))
				x.deliver(objects.Deleted, p)
				x.wantPods("its room is free at once", "q promised n")
				release(func(b objects.Binding) error {
					if b.Pod.Name == "p" {
						return err
					}
					return nil
				})
				x.wantPods("after the outcome", "q promised n")
				x.wantNothingOf("p")
				if err := x.Idle(x.ctx); err != nil {
					t.Errorf("Idle: %v", err)
				}
			})
		})
	}
}

func TestANodeGoesWhilePodsArePromisedToIt(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		n := nodesOf("4", "n")[0]
		release := x.binder.hold()
		p, q := cores("p", "1"), cores("q", "1")
		x.deliver(objects.Added, p)
		x.deliver(objects.Added, q)
		x.deliver(objects.Deleted, n)
		x.wantPods("the node is gone", "p promised n", "q promised n")
		release(func(b objects.Binding) error {
			if b.Pod.Name == "q" {
				return objects.ErrConflict
			}
			return nil
		})
		x.confirm(p, "n")
		elapse(2 * time.Second)
		x.wantPods("p is bound all the same, q has nowhere to go", "p on n", "q backoff")
		x.wantMessage("q", noNodes)

		x.deliver(objects.Added, n)
		elapse(15 * time.Second)
		x.wantPods("the node is back", "p on n", "q promised n")
		x.deliver(objects.Added, cores("r", "3"))
		x.wantPods("with p and q on it", "p on n", "q promised n", "r unschedulable")
		x.deliver(objects.Added, cores("s", "2"))
		x.wantPods("and room for two more cores", "p on n", "q promised n", "r unschedulable", "s promised n")
	})
}

func TestDecisionsDoNotWaitForBinds(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("4000", "n", "m")), nil, func(x *scenario) {
		release := x.binder.hold()
		var events []objects.Event
		for i := range 150 {
			events = append(events, added(cores(fmt.Sprintf("p%03d", i), "1")))
		}
		x.Deliver(events)
		synctest.Wait()
		progress, err := x.Progress(x.ctx)
		if err != nil || progress.Decisions != 100 && progress.Decisions != 150 || progress.PodsBound != 0 || progress.Idle {
			t.Errorf("got %v, %v; want all decided, none bound, not idle", progress, err)
		}
		release(nil)
		progress, err = x.Progress(x.ctx)
		if err != nil || progress.PodsBound != progress.Decisions || !progress.Idle {
			t.Errorf("got %v, %v; want all bound and idle", progress, err)
		}
	})
}

// A pod that had an error of its own, and then only a refused bind, is worth waiting for.
func TestARefusedBindIsNotAPodsOwnError(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("4", "n", "m")), nil, func(x *scenario) {
		x.deliver(objects.Added, unreadable("p"))
		x.wantMessage("p", "NodeAffinity")
		x.binder.say(always(objects.ErrConflict))
		x.deliver(objects.Deleted, nodesOf("4", "m")[0]) // a single node is not scored
		elapse(2 * time.Second)
		x.wantBinds("tried on it", "p@1 n")
		x.wantPods("and refused", "p backoff")
		x.binder.say(nil)
		if err := x.Idle(x.ctx); err != nil {
			t.Errorf("Idle: %v", err)
		}
		x.wantPods("when nothing is left to do", "p promised n")
	})
}
