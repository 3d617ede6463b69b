package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// testPlugin is a plugin that is at every point of the cycle, does what it is told to, and keeps a record.
type testPlugin struct {
	name   string
	handle fwk.Handle

	mu    sync.Mutex
	calls []string
	// says gives what a point answers, by its name and the pod's; nil: success.
	says map[string]*fwk.Status
	// wait is how long Permit has pods wait.
	wait time.Duration
	// only are the nodes that PreFilter leaves; nil: all.
	only []string
	// fits and score judge nodes; nil: all fit, and score 0.
	fits  func(node string) *fwk.Status
	score func(node string) int64
	// hold keeps PreBind until it is closed, or called off; nil: it does not.
	hold chan struct{}
	// panics is the point where the pod named poison makes it panic; empty: none.
	panics string
	// events are what it registers; nil: everything.
	events []fwk.ClusterEventWithHint
}

func (g *testPlugin) Name() string { return g.name }

func (g *testPlugin) note(format string, a ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, fmt.Sprintf(format, a...))
}

func (g *testPlugin) say(point string, p *v1.Pod) *fwk.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.Name == "poison" && point == g.panics {
		panic("at " + point)
	}
	if s, ok := g.says[point+" "+p.Name]; ok {
		return s
	}
	return g.says[point]
}

// tell has a point answer otherwise from now on.
func (g *testPlugin) tell(point string, s *fwk.Status) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.says[point] = s
}

// take gives the calls since the last take.
func (g *testPlugin) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := g.calls
	g.calls = nil
	return calls
}

func (g *testPlugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if g.events == nil {
		return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All}}}, nil
	}
	return g.events, nil
}

func (g *testPlugin) PreEnqueue(_ context.Context, p *v1.Pod) *fwk.Status {
	g.note("PreEnqueue %s", p.Name)
	return g.say("PreEnqueue", p)
}

func (g *testPlugin) PreFilter(_ context.Context, _ fwk.CycleState, p *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	g.note("PreFilter %s %d", p.Name, len(nodes))
	if g.only != nil {
		return &fwk.PreFilterResult{NodeNames: sets.New(g.only...)}, g.say("PreFilter", p)
	}
	return nil, g.say("PreFilter", p)
}

func (g *testPlugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (g *testPlugin) Filter(_ context.Context, _ fwk.CycleState, p *v1.Pod, n fwk.NodeInfo) *fwk.Status {
	g.note("Filter %s %s with %d", p.Name, n.Node().Name, len(n.GetPods()))
	if g.fits != nil {
		return g.fits(n.Node().Name)
	}
	return g.say("Filter", p)
}

func (g *testPlugin) PostFilter(_ context.Context, _ fwk.CycleState, p *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	g.note("PostFilter %s n=%v", p.Name, statuses.Get("n").Reasons())
	return nil, g.say("PostFilter", p)
}

func (g *testPlugin) PreScore(_ context.Context, _ fwk.CycleState, p *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	g.note("PreScore %s %d", p.Name, len(nodes))
	return g.say("PreScore", p)
}

func (g *testPlugin) Score(_ context.Context, _ fwk.CycleState, p *v1.Pod, n fwk.NodeInfo) (int64, *fwk.Status) {
	g.note("Score %s %s", p.Name, n.Node().Name)
	if g.score != nil {
		return g.score(n.Node().Name), nil
	}
	return 0, g.say("Score", p)
}

func (g *testPlugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

func (g *testPlugin) Reserve(_ context.Context, _ fwk.CycleState, p *v1.Pod, node string) *fwk.Status {
	g.note("Reserve %s %s", p.Name, node)
	return g.say("Reserve", p)
}

func (g *testPlugin) Unreserve(_ context.Context, _ fwk.CycleState, p *v1.Pod, node string) {
	g.note("Unreserve %s %s", p.Name, node)
	g.say("Unreserve", p)
}

func (g *testPlugin) Permit(_ context.Context, _ fwk.CycleState, p *v1.Pod, node string) (*fwk.Status, time.Duration) {
	g.note("Permit %s %s", p.Name, node)
	return g.say("Permit", p), g.wait
}

func (g *testPlugin) PreBindPreFlight(_ context.Context, _ fwk.CycleState, p *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	g.note("PreBindPreFlight %s %s", p.Name, node)
	return nil, g.say("PreBindPreFlight", p)
}

func (g *testPlugin) PreBind(ctx context.Context, _ fwk.CycleState, p *v1.Pod, node string) *fwk.Status {
	g.note("PreBind %s %s", p.Name, node)
	if g.hold != nil {
		select {
		case <-g.hold:
		case <-ctx.Done():
			return fwk.AsStatus(context.Cause(ctx))
		}
	}
	return g.say("PreBind", p)
}

func (g *testPlugin) PostBind(_ context.Context, _ fwk.CycleState, p *v1.Pod, node string) {
	g.note("PostBind %s %s", p.Name, node)
	g.say("PostBind", p)
}

// testBindPlugin binds what testPlugin does not: it is at Bind too.
type testBindPlugin struct{ *testPlugin }

func (g testBindPlugin) Bind(_ context.Context, _ fwk.CycleState, p *v1.Pod, node string) *fwk.Status {
	g.note("Bind %s %s", p.Name, node)
	return g.say("Bind", p)
}

// withPlugins configures a scheduler with plugins, in a file's words; each is at all points, unless plugins
// says otherwise.
func withPlugins(t *testing.T, plugins string, list ...fwk.Plugin) func(*SchedulerConfig) {
	t.Helper()
	registry := framework.Registry{}
	var names []string
	for _, p := range list {
		names = append(names, p.Name())
		registry[p.Name()] = func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			switch p := p.(type) {
			case *testPlugin:
				p.handle = h
			case testBindPlugin:
				p.handle = h
			case *surveyor:
				p.handle = h
			case *inquirer:
				p.handle = h
			}
			return p, nil
		}
	}
	if plugins == "" {
		plugins = "{multiPoint: {enabled: [{name: " + strings.Join(names, "}, {name: ") + "}]}}"
	}
	file := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: default-scheduler\n  plugins: " + plugins + "\n"
	c, err := config.ReaderFor(names).Parse("test", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return func(cfg *SchedulerConfig) {
		cfg.OutOfTree = &outoftree.Config{Registry: registry, Profiles: c.OutOfTree()}
		if cfg.Profiles, err = c.Profiles(); err != nil {
			t.Fatal(err)
		}
	}
}

func newTestPlugin() *testPlugin { return &testPlugin{name: "Guest", says: map[string]*fwk.Status{}} }

// wantCalls checks a plugin's calls since the last look.
func (x *scenario) wantCalls(when string, g *testPlugin, want ...string) {
	x.t.Helper()
	synctest.Wait()
	got := g.take()
	got = slices.DeleteFunc(got, func(c string) bool { return strings.HasPrefix(c, "PreEnqueue") })
	if !slices.Equal(got, want) {
		x.t.Errorf("%s: got calls\n\t%q, want\n\t%q", when, got, want)
	}
}

func no(text string) *fwk.Status  { return fwk.NewStatus(fwk.Unschedulable, text) }
func bad(text string) *fwk.Status { return fwk.NewStatus(fwk.Error, text) }
func wait() *fwk.Status           { return fwk.NewStatus(fwk.Wait, "") }

func TestGuestsAreCalledInUpstreamsOrder(t *testing.T) {
	g := newTestPlugin()
	runScenarioWith(t, withPlugins(t, "", testBindPlugin{g}), clusterOf(nodesOf("4", "n", "o")), nil, func(x *scenario) {
		g.score = func(node string) int64 { return map[string]int64{"o": 50}[node] }
		x.deliver(objects.Added, cores("p", "1"))
		synctest.Wait()
		got := g.take()
		want := []string{
			"PreEnqueue p", "PreFilter p 2", "Filter p n with 0", "Filter p o with 0", "PreScore p 2", "Score p n", "Score p o",
			"Reserve p o", "Permit p o", "PreBindPreFlight p o", "PreBind p o", "PostBind p o",
		}
		slices.Sort(got[2:4]) // these run at once
		slices.Sort(got[5:7])
		if !slices.Equal(got, want) {
			t.Errorf("got calls\n\t%q, want\n\t%q", got, want)
		}
		x.wantBinds("DefaultBinder is before the plugin", "p@1 o")
		x.wantPods("bound", "p promised o")
	})
}

func TestAGuestBinds(t *testing.T) {
	g := newTestPlugin()
	runScenarioWith(t, withPlugins(t, "{bind: {disabled: [{name: '*'}], enabled: [{name: Guest}, {name: DefaultBinder}]}}", testBindPlugin{g}), clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		x.deliver(objects.Added, cores("p", "1"))
		x.wantCalls("at Bind alone", g, "Bind p n")
		x.wantBinds("the plugin has bound it")
		x.wantPods("bound", "p promised n")
		g.tell("Bind", fwk.NewStatus(fwk.Skip))
		x.deliver(objects.Added, cores("q", "1"))
		x.wantCalls("skipped", g, "Bind q n")
		x.wantBinds("the next has", "q@1 n")
		g.tell("Bind", bad("no luck"))
		x.deliver(objects.Added, cores("r", "1"))
		x.wantMessage("r", `running Bind plugin "Guest": no luck`)
	})
}

// failures are the points that can fail once a node is chosen, with what is called until the pod is
// back in the queue.
func TestEachFailureUnreserves(t *testing.T) {
	for _, c := range []struct {
		point   string
		status  *fwk.Status
		calls   []string
		place   string
		message string
	}{
		{"Reserve", no("not now"), []string{"Unreserve p n"}, "unschedulable", "0/1 nodes are available: 1 not now."},
		{"Reserve", bad("broken"), []string{"Unreserve p n"}, "backoff", `running Reserve plugin "Guest": broken`},
		{"Permit", no("not you"), []string{"Permit p n", "Unreserve p n"}, "unschedulable", "0/1 nodes are available: 1 not you."},
		{"Permit", bad("broken"), []string{"Permit p n", "Unreserve p n"}, "backoff", `running Permit plugin "Guest": broken`},
		{"PreBindPreFlight", bad("broken"), []string{"Permit p n", "PreBindPreFlight p n", "Unreserve p n"}, "backoff", `running PreBindPreFlight "Guest": broken`},
		{"PreBind", no("not now"), []string{"Permit p n", "PreBindPreFlight p n", "PreBind p n", "Unreserve p n"}, "backoff", "not now"},
		{"PreBind", bad("broken"), []string{"Permit p n", "PreBindPreFlight p n", "PreBind p n", "Unreserve p n"}, "backoff", `running PreBind plugin "Guest": broken`},
	} {
		t.Run(c.point+" "+c.status.Code().String(), func(t *testing.T) {
			g := newTestPlugin()
			g.says[c.point] = c.status
			g.events = []fwk.ClusterEventWithHint{}
			runScenarioWith(t, withPlugins(t, "", g), clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
				x.deliver(objects.Added, cores("p", "4"))
				x.wantCalls("failed", g, append([]string{"PreFilter p 1", "Filter p n with 0", "Reserve p n"}, c.calls...)...)
				x.wantPods("failed", "p "+c.place)
				x.wantMessage("p", c.message)
				if got := x.message("p"); got != c.message {
					t.Errorf("got message %q, want %q", got, c.message)
				}
				x.wantBinds("nothing was bound")
				if all, assumed := x.state.Pods(); all != 0 || assumed != 0 {
					t.Errorf("got %d pods, %d assumed, want none", all, assumed)
				}
			})
		})
	}
}

func TestABindThatFailsUnreserves(t *testing.T) {
	g := newTestPlugin()
	runScenarioWith(t, withPlugins(t, "", g), clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		x.binder.say(always(objects.ErrConflict))
		x.deliver(objects.Added, cores("p", "4"))
		x.wantCalls("refused", g, "PreFilter p 1", "Filter p n with 0", "Reserve p n", "Permit p n", "PreBindPreFlight p n", "PreBind p n", "Unreserve p n")
		x.wantPods("refused", "p backoff")
		x.binder.say(nil)
		elapse(2 * time.Second)
		x.wantPods("tried again", "p promised n")
	})
}

func TestPermit(t *testing.T) {
	waiting := func(t *testing.T, play func(x *scenario, g *testPlugin)) {
		g := newTestPlugin()
		g.says["Permit"], g.wait = wait(), time.Minute
		g.events = []fwk.ClusterEventWithHint{}
		runScenarioWith(t, withPlugins(t, "", g), clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
			x.deliver(objects.Added, cores("p", "4"))
			x.wantCalls("waits", g, "PreFilter p 1", "Filter p n with 0", "Reserve p n", "Permit p n", "PreBindPreFlight p n")
			x.wantPods("waits", "p in queue and cache")
			play(x, g)
		})
	}
	t.Run("allowed", func(t *testing.T) {
		waiting(t, func(x *scenario, g *testPlugin) {
			g.handle.GetWaitingPod("p").Allow("Guest")
			x.wantCalls("allowed", g, "PreBind p n", "PostBind p n")
			x.wantPods("allowed", "p promised n")
			x.wantBinds("allowed", "p@1 n")
			x.confirm(cores("p", "4"), "n")
			if err := x.Idle(x.ctx); err != nil {
				t.Errorf("Idle: %v", err)
			}
		})
	})
	t.Run("the outcome comes before the news that it was allowed", func(t *testing.T) {
		waiting(t, func(x *scenario, g *testPlugin) {
			x.inbox.put(func() {
				job := bind.Job{Binding: objects.Binding{Pod: cores("p", "4"), Node: "n"}}
				x.bound([]bind.Job{job}, []error{nil})
				x.bindProgress(&job, bind.Permitted)
			})
			x.wantPods("bound: no attempt is under way", "p promised n")
		})
	})
	t.Run("rejected", func(t *testing.T) {
		waiting(t, func(x *scenario, g *testPlugin) {
			g.handle.GetWaitingPod("p").Reject("Guest", "not today")
			x.wantCalls("rejected", g, "Unreserve p n")
			x.wantPods("rejected: its own room is no reason to try it again", "p unschedulable")
			x.wantMessage("p", "0/1 nodes are available: 1 not today.")
		})
	})
	t.Run("timeout", func(t *testing.T) {
		waiting(t, func(x *scenario, g *testPlugin) {
			x.deliver(objects.Added, cores("q", "4"))
			x.wantPods("full", "p in queue and cache", "q unschedulable")
			g.take()
			g.tell("Permit", nil)
			elapse(time.Minute)
			x.wantPods("timed out, and the room is another's", "p unschedulable", "q promised n")
			x.wantMessage("p", "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin Guest.")
		})
	})
	t.Run("an event during the wait counts", func(t *testing.T) {
		g := newTestPlugin()
		g.says["Permit"], g.wait = wait(), time.Minute
		runScenarioWith(t, withPlugins(t, "", g), clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
			x.deliver(objects.Added, cores("p", "4"))
			x.deliver(objects.Added, nodesOf("1", "o")[0])
			g.handle.GetWaitingPod("p").Reject("Guest", "not today")
			synctest.Wait()
			if got := x.queueOf("p"); got == "unschedulable" {
				t.Errorf("got %s, want it tried again for the node", got)
			}
		})
	})
	t.Run("deleted", func(t *testing.T) {
		waiting(t, func(x *scenario, g *testPlugin) {
			x.deliver(objects.Deleted, cores("p", "4"))
			x.wantCalls("gone", g, "Unreserve p n")
			x.wantPods("gone")
			x.wantBinds("gone")
		})
	})
	t.Run("about to be deleted", func(t *testing.T) {
		waiting(t, func(x *scenario, g *testPlugin) {
			x.update(cores("p", "4"), "2", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
			x.wantCalls("gone", g, "Unreserve p n")
			x.wantPods("dropped")
		})
	})
	t.Run("called off", func(t *testing.T) {
		waiting(t, func(x *scenario, g *testPlugin) {
			var off bool
			if err := x.call(x.ctx, func() { off = x.callOff("p", "DefaultPreemption") }); err != nil || !off {
				t.Fatalf("got %t, %v, want it called off", off, err)
			}
			x.wantCalls("called off", g, "Unreserve p n")
			x.wantPods("called off", "p backoff")
			x.wantMessage("p", "preempted")
		})
	})
	t.Run("the lease is lost", func(t *testing.T) {
		waiting(t, func(x *scenario, g *testPlugin) {
			x.cancel()
			<-x.Scheduler.ended
			x.binder.mu.Lock()
			defer x.binder.mu.Unlock()
			if calls := g.take(); len(calls) != 0 || len(x.binder.seen) != 0 {
				t.Errorf("got calls %q and binds %q after the end, want none", calls, x.binder.seen)
			}
		})
	})
	t.Run("draining waits for it", func(t *testing.T) {
		waiting(t, func(x *scenario, g *testPlugin) {
			drained := make(chan error, 1)
			go func() { drained <- x.Drain(x.ctx) }()
			synctest.Wait()
			g.handle.GetWaitingPod("p").Allow("Guest")
			if err := <-drained; err != nil {
				t.Errorf("Drain: %v", err)
			}
			x.binder.mu.Lock()
			defer x.binder.mu.Unlock()
			if !slices.Equal(x.binder.seen, []string{"p@1 n"}) {
				t.Errorf("got binds %q", x.binder.seen)
			}
		})
	})
}

// queueOf is where a pod is in the queue.
func (x *scenario) queueOf(uid string) (place string) {
	x.t.Helper()
	if err := x.call(x.ctx, func() {
		x.queue.Each(func(p *queue.Pod) {
			if string(p.Obj.UID) == uid {
				place = p.Place().String()
			}
		})
	}); err != nil {
		x.t.Fatal(err)
	}
	return place
}

func TestPreBindIsCalledOff(t *testing.T) {
	g := newTestPlugin()
	runScenarioWith(t, withPlugins(t, "", g), clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		g.hold = make(chan struct{})
		x.deliver(objects.Added, cores("p", "4"))
		g.take()
		var off bool
		if err := x.call(x.ctx, func() { off = x.callOff("p", "DefaultPreemption") }); err != nil || !off {
			t.Fatalf("got %t, %v, want it called off", off, err)
		}
		x.wantCalls("called off", g, "Unreserve p n")
		x.wantPods("called off", "p backoff")
		x.wantMessage("p", "preempted by DefaultPreemption")
		x.wantBinds("called off")
	})
}

func TestAPodIsDeletedDuringPreBind(t *testing.T) {
	g := newTestPlugin()
	runScenarioWith(t, withPlugins(t, "", g), clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		g.hold = make(chan struct{})
		x.deliver(objects.Added, cores("p", "4"))
		g.take()
		x.binder.say(always(objects.ErrNotFound))
		x.deliver(objects.Deleted, cores("p", "4"))
		x.wantPods("its room is free")
		close(g.hold)
		x.wantCalls("the bind finds out", g, "Unreserve p n")
		x.wantPods("gone")
	})
}

func TestGuestsTurnPodsAway(t *testing.T) {
	g := newTestPlugin()
	g.events = []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel},
		QueueingHintFn: func(_ klog.Logger, p *v1.Pod, _, now any) (fwk.QueueingHint, error) {
			g.note("hint %s %s", p.Name, now.(*v1.Node).Labels["for"])
			if now.(*v1.Node).Labels["for"] == p.Name {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		},
	}}
	g.fits = func(node string) *fwk.Status { return no("not on " + node) }
	g.says["PostFilter"] = no("nor can I help")
	runScenarioWith(t, withPlugins(t, "", g), clusterOf(append(nodesOf("4", "n", "o"), nodesOf("1", "small")...)), nil, func(x *scenario) {
		x.deliver(objects.Added, cores("p", "2"))
		x.deliver(objects.Added, cores("q", "2"))
		x.wantMessage("p", "0/3 nodes are available: 1 Insufficient cpu, 1 not on n, 1 not on o. no new claims to deallocate, preemption: 0/3 nodes are available: ")
		x.wantMessage("p", "nor can I help")
		x.wantHelp("a plugin's reasons are its own", "1 not on n: nodes that plugin Guest takes", "1 not on o: nodes that plugin Guest takes",
			"1 cpu: larger than the nodes that nothing else refuses: larger nodes, or smaller requests")
		x.wantPods("turned away", "p unschedulable", "q unschedulable")
		g.take()
		g.fits = nil
		labelled := nodesOf("4", "n")[0]
		labelled.Labels = map[string]string{"for": "q"}
		x.deliver(objects.Modified, labelled)
		x.wantPods("the event helps one of them, of one class", "p unschedulable", "q promised "+x.nodeOf("q"))
	})
}

// nodeOf is the node that a pod has.
func (x *scenario) nodeOf(uid string) (node string) {
	x.t.Helper()
	if err := x.call(x.ctx, func() { _, node, _ = x.state.Pod(types.UID(uid)) }); err != nil {
		x.t.Fatal(err)
	}
	return node
}

func TestPreFilterNarrows(t *testing.T) {
	g := newTestPlugin()
	g.only = []string{"o", "small", "nowhere"}
	runScenarioWith(t, withPlugins(t, "", g), clusterOf(append(nodesOf("4", "n", "o"), nodesOf("1", "small")...)), nil, func(x *scenario) {
		x.deliver(objects.Added, cores("p", "4"))
		x.wantPods("on the one that is left", "p promised o")
		x.deliver(objects.Added, cores("q", "4"))
		x.wantMessage("q", "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [Guest], 2 Insufficient cpu.")
		g.only = []string{}
		x.deliver(objects.Added, cores("r", "4"))
		x.wantMessage("r", "0/3 nodes are available: node(s) didn't satisfy plugin Guest.")
		g.only = nil
		g.tell("PreFilter", fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "over quota"))
		x.deliver(objects.Added, cores("s", "1"))
		x.wantMessage("s", "0/3 nodes are available: over quota.")
	})
}

func TestGuestsHoldPodsBack(t *testing.T) {
	g := newTestPlugin()
	g.says["PreEnqueue"] = no("not yet")
	runScenarioWith(t, withPlugins(t, "", g), clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		x.deliver(objects.Added, cores("p", "1"))
		x.wantPods("held back", "p gated")
		x.wantMessage("p", "not yet")
		g.tell("PreEnqueue", nil)
		x.deliver(objects.Added, nodesOf("1", "o")[0])
		x.wantPods("an event lets it in", "p promised n")
	})
}

// byName orders the queue.
type byName struct{ *testPlugin }

func (byName) Name() string { return "ByName" }

func (byName) Less(a, b fwk.QueuedPodInfo) bool {
	return a.GetPodInfo().GetPod().Name < b.GetPodInfo().GetPod().Name
}

// sorter is nothing but a QueueSort plugin.
type sorter struct{ less byName }

func (sorter) Name() string                       { return "ByName" }
func (s sorter) Less(a, b fwk.QueuedPodInfo) bool { return s.less.Less(a, b) }

func TestAGuestOrdersTheQueue(t *testing.T) {
	runScenarioWith(t, withPlugins(t, "{queueSort: {disabled: [{name: '*'}], enabled: [{name: ByName}]}}", sorter{}), clusterOf(nil), nil, func(x *scenario) {
		if x.outOfTree.Review(&queue.Pod{Obj: cores("p", "1")}, nil) != nil {
			t.Error("a profile whose plugins take no part in attempts is decided with plugins")
		}
		for _, name := range []string{"c", "a", "b"} {
			p := cores(name, "1")
			p.Spec.Priority = map[string]*int32{"c": new(int32(100))}[name]
			x.deliver(objects.Added, p)
		}
		elapse(5 * time.Second)
		x.deliver(objects.Added, nodesOf("4", "n")[0])
		elapse(30 * time.Second)
		x.wantBinds("by name", "a@1 n", "b@1 n", "c@1 n")
	})
}

// A plugin that panics fails one pod, wherever that is; others are placed, and the term goes on.
func TestAGuestThatPanicsFailsOnePod(t *testing.T) {
	const bindsFirst = "{multiPoint: {enabled: [{name: Guest}]}, bind: {disabled: [{name: '*'}], enabled: [{name: Guest}, {name: DefaultBinder}]}}"
	for point, want := range map[string]struct {
		place   string // of the pod that it panics about
		message string
		says    map[string]*fwk.Status
	}{
		"PreEnqueue":       {"poison gated", "panic: at PreEnqueue", nil},
		"PreFilter":        {"poison backoff", `running PreFilter plugin "Guest": panic: at PreFilter`, nil},
		"Filter":           {"poison backoff", `running "Guest" filter plugin: panic: at Filter`, nil},
		"PostFilter":       {"poison unschedulable", "2 none", map[string]*fwk.Status{"Filter poison": no("none")}},
		"PreScore":         {"poison backoff", `running PreScore plugin "Guest": panic: at PreScore`, nil},
		"Score":            {"poison backoff", `plugin "Guest" failed with: panic: at Score`, nil},
		"Reserve":          {"poison backoff", `running Reserve plugin "Guest": panic: at Reserve`, nil},
		"Unreserve":        {"poison backoff", "no permit", map[string]*fwk.Status{"Permit poison": bad("no permit")}},
		"Permit":           {"poison backoff", `running Permit plugin "Guest": panic: at Permit`, nil},
		"PreBindPreFlight": {"poison backoff", `running PreBindPreFlight "Guest": panic: at PreBindPreFlight`, nil},
		"PreBind":          {"poison backoff", `running PreBind plugin "Guest": panic: at PreBind`, nil},
		"Bind":             {"poison backoff", `running Bind plugin "Guest": panic: at Bind`, nil},
		"PostBind":         {"poison promised n", "", nil},
	} {
		t.Run(point, func(t *testing.T) {
			g, registry := newTestPlugin(), prometheus.NewRegistry()
			g.panics = point
			g.says["Bind"] = fwk.NewStatus(fwk.Skip)
			maps.Copy(g.says, want.says)
			runScenarioWith(t, func(cfg *SchedulerConfig) {
				withPlugins(t, bindsFirst, testBindPlugin{g})(cfg)
				cfg.Registerer = registry
			}, clusterOf(nodesOf("4", "n", "o")), nil, func(x *scenario) {
				x.deliver(objects.Added, cores("poison", "1"))
				x.deliver(objects.Added, cores("q", "4"))
				q := x.nodeOf("q")
				x.wantPods("after a panic", want.place, "q promised "+q)
				if q == "" {
					t.Error("the other pod has no node")
				}
				x.wantMessage("poison", want.message)
				// Nodes are looked at at once: there may be two.
				if got := gathered(t, registry, "shardsched_panics_total"); len(got) != 1 || !strings.HasPrefix(got[0], "shardsched_panics_total{where=plugin} ") {
					t.Errorf("metric: got %v, want panics of a plugin", got)
				}
			})
		})
	}
}
