package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// recordingReporter is a reporter that remembers what it was told.
type recordingReporter struct {
	mu   sync.Mutex
	told []string
}

func (g *recordingReporter) tell(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = append(g.told, fmt.Sprintf(format, args...))
}

func (g *recordingReporter) Unscheduled(p *v1.Pod, reason, message string, nominating *objects.Nominating) {
	if nominating != nil && nominating.Node != "" {
		message += " -> " + nominating.Node
	}
	g.tell("%s@%s %s: %s", p.Name, p.ResourceVersion, reason, message)
}
func (g *recordingReporter) Unnominated(p *v1.Pod) { g.tell("%s unnominated", p.Name) }
func (g *recordingReporter) Preempted(v *v1.Pod, e *objects.Eviction) {
	g.tell("%s preempted by %s on %s", v.Name, e.Preemptor.Name, e.Node)
}
func (g *recordingReporter) Skipped(p *v1.Pod)             { g.tell("%s skipped", p.Name) }
func (g *recordingReporter) Abandoned(p *v1.Pod, m string) { g.tell("%s abandoned: %s", p.Name, m) }
func (g *recordingReporter) Expected(p *v1.Pod, n string)  { g.tell("%s expected on %s", p.Name, n) }
func (g *recordingReporter) AwaitsDevices(p *v1.Pod, n string) {
	g.tell("%s awaits devices on %s", p.Name, n)
}
func (g *recordingReporter) Scheduled(p *v1.Pod, n string) { g.tell("%s scheduled on %s", p.Name, n) }
func (g *recordingReporter) heard() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.told)
}
func (g *recordingReporter) configure(cfg *SchedulerConfig) { cfg.Reporter = g }

func (g *recordingReporter) want(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := g.heard(); !slices.Equal(got, want) {
		t.Errorf("%s: told %q, want %q", when, got, want)
	}
}

func deleting(p *v1.Pod) {
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
}

func TestWhatIsReportedOfAPod(t *testing.T) {
	g := &recordingReporter{}
	runScenarioWith(t, g.configure, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		release := x.binder.hold()
		p := cores("p", "3")
		x.deliver(objects.Added, p)
		g.want(t, "while it is bound")
		x.update(p, "2", nil)
		release(always(objects.ErrConflict))
		g.want(t, "the bind failed", "p@2 SchedulerError: bind pod p: changed meanwhile")
		elapse(3 * time.Second)
		g.want(t, "it is bound", "p@2 SchedulerError: bind pod p: changed meanwhile", "p scheduled on n")
		x.deliver(objects.Added, cores("q", "2"))
		g.want(t, "q does not fit", "p@2 SchedulerError: bind pod p: changed meanwhile", "p scheduled on n",
			"q@1 Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.")
	})
}

func TestNothingIsReportedOfAPodThatIsGoneOrOnANode(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		then func(*scenario, *v1.Pod)
		want []string
	}{
		"another bound it":              {objects.ErrAlreadyBound, func(x *scenario, p *v1.Pod) { x.confirm(p, "m") }, []string{"p on m"}},
		"another bound it, not seen":    {objects.ErrAlreadyBound, func(*scenario, *v1.Pod) {}, nil},
		"it is gone":                    {objects.ErrNotFound, func(x *scenario, p *v1.Pod) { x.deliver(objects.Deleted, p) }, nil},
		"it is gone, which is not seen": {objects.ErrNotFound, func(*scenario, *v1.Pod) {}, nil},
		"its end came before a failure": {objects.ErrConflict, func(x *scenario, p *v1.Pod) { x.update(p, "2", end) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := &recordingReporter{}
			runScenarioWith(t, g.configure, clusterOf(nodesOf("4", "n", "m")), nil, func(x *scenario) {
				release := x.binder.hold()
				p := cores("p", "3")
				x.deliver(objects.Added, p)
				tc.then(x, p)
				release(always(tc.err))
				g.want(t, "after all")
				elapse(time.Minute)
				if tc.want == nil {
					if err := x.call(x.ctx, func() {
						if _, node, _ := x.state.Pod("p"); node != "" || x.queue.Has("p") {
							t.Errorf("got p on %q, in the queue %t; want neither", node, x.queue.Has("p"))
						}
					}); err != nil {
						t.Fatal(err)
					}
					return
				}
				x.wantPods("after all", tc.want...)
			})
		})
	}
}

// An API server lets a pod's status change while its bind is under way, and its watch may be
// behind the answer to the bind.
func TestAStatusThatChangesBeforeOrAfterTheAnswerToABind(t *testing.T) {
	g := &recordingReporter{}
	runScenarioWith(t, g.configure, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		release := x.binder.hold()
		p := cores("p", "3")
		x.deliver(objects.Added, p)
		x.update(p, "2", func(p *v1.Pod) { p.Status.NominatedNodeName = "n" })
		x.wantPods("before the answer", "p promised n")
		release(nil)
		x.update(p, "3", func(p *v1.Pod) { p.Status.NominatedNodeName = "n" })
		x.wantPods("after the answer", "p promised n")
		x.deliver(objects.Added, cores("q", "2"))
		elapse(24 * time.Hour)
		x.wantPods("as long as it is not seen", "p promised n", "q unschedulable")
		x.confirm(p, "n")
		x.wantPods("when it is seen", "p on n", "q unschedulable")
		if err := x.Idle(x.ctx); err != nil {
			t.Error(err)
		}
		x.wantNothingOf("p")
	})
}

func TestTheWatchIsBeforeTheAnswerToABind(t *testing.T) {
	g := &recordingReporter{}
	runScenarioWith(t, g.configure, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		release := x.binder.hold()
		p := cores("p", "3")
		x.deliver(objects.Added, p)
		x.confirm(p, "n")
		x.wantPods("before the answer", "p on n")
		g.want(t, "before the answer")
		release(nil)
		x.wantPods("after the answer", "p on n")
		g.want(t, "after the answer", "p scheduled on n")
		x.wantNothingOf("p")
	})
}

func TestAPodIsSeenOnAnotherNodeThanItWasPromised(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		release := x.binder.hold()
		p := cores("p", "3")
		x.deliver(objects.Added, p)
		x.deliver(objects.Added, cores("q", "2"))
		x.wantPods("q has no room", "p promised n", "q unschedulable")
		x.confirm(p, "later")
		x.wantPods("q has p's", "p on later", "q promised n")
		release(func(b objects.Binding) error {
			if b.Pod.Name == "p" {
				return objects.ErrAlreadyBound
			}
			return nil
		})
		x.wantPods("after the answers", "p on later", "q promised n")
		// The node may become known after its pod.
		x.deliver(objects.Added, nodesOf("4", "later")[0])
		x.deliver(objects.Added, cores("r", "2"))
		x.wantPods("p takes room there", "p on later", "q promised n", "r promised n")
	})
}

// No bind reaches a pod that is being deleted, so its room is free before the bind has
// failed.
func TestAPodIsToBeDeletedWhileItsBindIsUnderWay(t *testing.T) {
	g := &recordingReporter{}
	runScenarioWith(t, g.configure, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		release := x.binder.hold()
		p := cores("p", "3")
		x.deliver(objects.Added, p)
		x.deliver(objects.Added, cores("q", "2"))
		p = x.update(p, "2", deleting)
		if err := x.call(x.ctx, func() {
			if _, node, _ := x.state.Pod("p"); node != "" {
				t.Errorf("got p on %q, want its room free", node)
			}
			if _, node, _ := x.state.Pod("q"); node != "n" {
				t.Errorf("got q on %q, want n", node)
			}
		}); err != nil {
			t.Fatal(err)
		}
		release(func(b objects.Binding) error {
			if b.Pod.Name == "p" {
				return objects.ErrConflict
			}
			return nil
		})
		// The two answers come in any order.
		synctest.Wait()
		got := g.heard()
		slices.Sort(got)
		if want := []string{"p skipped", "q scheduled on n", "q@1 Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."}; !slices.Equal(got, want) {
			t.Errorf("after the answers: told %q, want %q", got, want)
		}
		x.deliver(objects.Deleted, p)
		x.wantPods("after all", "q promised n")
		x.wantNothingOf("p")
	})
}

func TestAPodThatIsBoundIsGoneBeforeItIsSeen(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		p := cores("p", "3")
		x.deliver(objects.Added, p)
		x.deliver(objects.Added, cores("q", "2"))
		x.wantPods("bound", "p promised n", "q unschedulable")
		x.deliver(objects.Deleted, p)
		x.wantPods("gone", "q promised n")
	})
}

func TestAPodThatIsBeingDeletedIsNotTried(t *testing.T) {
	g := &recordingReporter{}
	runScenarioWith(t, g.configure, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		p := cores("p", "3")
		deleting(p)
		x.deliver(objects.Added, p)
		x.wantBinds("at all")
		g.want(t, "once", "p skipped")
	})
}

func TestOneSlowBindHoldsNoOther(t *testing.T) {
	g := &recordingReporter{}
	var slow chan struct{} // of the bubble
	binder := binderOfOne(func(ctx context.Context, b objects.Binding) error {
		if b.Pod.Name == "p0000" {
			select {
			case <-slow:
			case <-ctx.Done():
			}
		}
		return nil
	})
	configure := func(cfg *SchedulerConfig) {
		slow = make(chan struct{})
		cfg.Reporter, cfg.Binder, cfg.BindGroup, cfg.BindCalls = g, binder, 1, 3
	}
	runScenarioWith(t, configure, clusterOf(nodesOf("4000", "n")), nil, func(x *scenario) {
		var events []objects.Event
		for i := range 200 {
			events = append(events, added(build.Pod(fmt.Sprintf("p%04d", i)).Obj()))
		}
		x.Deliver(events)
		synctest.Wait()
		if got := len(g.heard()); got != 199 {
			t.Errorf("got %d pods bound while one is slow, want the other 199", got)
		}
		close(slow)
		synctest.Wait()
		if got := g.heard(); len(got) != 200 || got[199] != "p0000 scheduled on n" {
			t.Errorf("got %d pods bound, %q last; want all 200, the slow one last", len(got), got[len(got)-1])
		}
	})
}

// binderOfOne is a Binder that commits each placement by itself.
type binderOfOne func(context.Context, objects.Binding) error

func (f binderOfOne) Bind(ctx context.Context, bs []objects.Binding, done func(int, error)) {
	for i := range bs {
		done(i, f(ctx, bs[i]))
	}
}

func TestDrain(t *testing.T) {
	t.Run("the binds under way come to their end", func(t *testing.T) {
		g := &recordingReporter{}
		runScenarioWith(t, g.configure, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
			release := x.binder.hold()
			x.deliver(objects.Added, cores("p", "1"))
			x.deliver(objects.Added, cores("large", "10"))
			drained := make(chan error, 1)
			go func() { drained <- x.Drain(x.ctx) }()
			synctest.Wait()
			x.deliver(objects.Added, cores("later", "1"))
			x.wantBinds("nothing new", "p@1 n")
			release(nil)
			if err := <-drained; err != nil {
				t.Errorf("drain: %v", err)
			}
			x.wantEnd(nil)
			x.wantBinds("after all", "p@1 n")
			if got := x.journal.attempts("large"); got != 1 {
				t.Errorf("journal: got %d attempts of the pod that waits, want 1", got)
			}
		})
	})
	t.Run("no longer than it is given", func(t *testing.T) {
		g := &recordingReporter{}
		runScenarioWith(t, g.configure, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
			x.binder.hold()
			x.deliver(objects.Added, cores("p", "1"))
			ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
			defer cancel()
			begin := time.Now()
			if err := x.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 5*time.Second {
				t.Errorf("drain: got %v after %v, want the deadline after 5s", err, time.Since(begin))
			}
			x.wantEnd(nil)
			g.want(t, "of what has no outcome")
		})
	})
}

// refusal is a bind's error that has words of its own for users.
type refusal struct{ words string }

func (r refusal) Error() string { return "bind pod p to n: 403: " + r.words }
func (r refusal) Told() string  { return r.words }

func TestARefusedBindIsToldAsUpstreamTellsIt(t *testing.T) {
	g := &recordingReporter{}
	runScenarioWith(t, g.configure, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		release := x.binder.hold()
		x.deliver(objects.Added, cores("p", "3"))
		release(always(refusal{"pods are forbidden"}))
		g.want(t, "the bind failed", `p@1 SchedulerError: running Bind plugin "DefaultBinder": pods are forbidden`)
	})
}
