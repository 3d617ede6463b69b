package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Plugins come before extenders: these are asked about what plugins have let pass, and the scores of
// both are added up.
func TestGuestsAndExtendersTogether(t *testing.T) {
	g := newTestPlugin()
	configure, a := withPlugins(t, "", g), newAdvisor()
	runScenarioWith(t, func(c *SchedulerConfig) {
		configure(c)
		c.Extenders, c.extenderTransport = []configv1.Extender{foo("filter", "prioritize")}, a
	}, clusterOf(nodesOf("4", "a", "b", "c", "d")), nil, func(x *scenario) {
		g.fits = func(node string) *fwk.Status {
			if node == "a" {
				return no("not a")
			}
			return nil
		}
		g.score = func(node string) int64 { return map[string]int64{"b": 90, "c": 100, "d": 60}[node] }
		a.filter("/foo/filter", map[string]string{"c": "no foo"}, "a", "b", "d")
		a.on("/foo/prioritize", func(context.Context, []byte) (any, error) {
			return extenderv1.HostPriorityList{{Host: "d", Score: 2}}, nil // 10 × 2 × 2 = 40
		})
		x.deliver(objects.Added, wanting("p", "1"))
		a.want(t, "of what the plugin lets pass", "/foo/filter p: b c d", "/foo/prioritize p: b d")
		x.wantPods("90 against 60 and 40", "p promised d")
		if list := g.handle.Extenders(); len(list) != 1 || list[0].Name() != "http://x/foo" || !list[0].IsFilter() {
			t.Errorf("got extenders %v of the handle, want foo", list)
		}
		// With nothing left, both tell why.
		a.filter("/foo/filter", map[string]string{"b": "no foo", "c": "no foo", "d": "no foo"})
		x.deliver(objects.Added, wanting("q", "1"))
		x.wantMessage("q", "0/4 nodes are available: 1 not a, 3 no foo.")
	})
}

// sorting has small names first, and keeps nothing.
type sorting struct{}

func (sorting) Name() string { return "Sorting" }

func (sorting) Less(a, b fwk.QueuedPodInfo) bool {
	return a.GetPodInfo().GetPod().Name < b.GetPodInfo().GetPod().Name
}

func TestTwoProfilesWithOneOrder(t *testing.T) {
	made := 0
	file := `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {queueSort: {enabled: [{name: Sorting}], disabled: [{name: '*'}]}}
- schedulerName: other
  plugins: {queueSort: {enabled: [{name: Sorting}], disabled: [{name: '*'}]}}
`
	c, err := config.ReaderFor([]string{"Sorting"}).Parse("test", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		cfg.OutOfTree = &outoftree.Config{Profiles: c.OutOfTree(), Registry: framework.Registry{
			"Sorting": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
				made++
				return sorting{}, nil
			},
		}}
		if cfg.Profiles, err = c.Profiles(); err != nil {
			t.Fatal(err)
		}
	}, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		pods := []*v1.Pod{cores("d", "1"), cores("b", "1"), cores("c", "1"), cores("a", "1")}
		pods[1].Spec.SchedulerName, pods[3].Spec.SchedulerName = "other", "other"
		if err := x.call(x.ctx, func() {
			for _, p := range pods {
				x.event(&objects.Event{Type: objects.Added, Kind: "Pod", Pod: p})
			}
		}); err != nil {
			t.Fatal(err)
		}
		x.wantBinds("in the plugin's order, whatever the profile", "a@1 n", "b@1 n", "c@1 n", "d@1 n")
		if made != 2 {
			t.Errorf("the plugin was made %d times, want once for each profile", made)
		}
	})
}

// A plugin sees pods of no lower priority that are nominated to a node as if they were there, told of
// each before it is asked, and is asked without them too.
func TestGuestsAreShownNominatedPods(t *testing.T) {
	l := &licences{limit: 2}
	runScenarioWith(t, withPlugins(t, "{multiPoint: {enabled: [{name: Licences}]}, postFilter: {disabled: [{name: '*'}]}}", l), clusterOf(nodesOf("4", "n"), holder("a", "n", 9)), nil, func(x *scenario) {
		waits := build.Pod("first").UID("first").CPU("4").Priority(5).Label("licence", "yes").Nominated("n").Obj()
		x.deliver(objects.Added, waits)
		synctest.Wait()
		if got, _, nominated := x.pending(t, "first"); got != queue.Unschedulable || nominated != "n" {
			t.Fatalf("got %v nominated to %q, want it to wait for n", got, nominated)
		}
		l.mu.Lock()
		l.calls = nil
		l.mu.Unlock()
		x.deliver(objects.Added, build.Pod("p").UID("p").Label("licence", "yes").Priority(5).Obj())
		x.wantMessage("p", "0/1 nodes are available: 1 no licence is free.")
		want := []string{"add first of 2 on n", "filter n with 2"}
		l.mu.Lock()
		got := slices.Clone(l.calls)
		l.calls = nil
		l.mu.Unlock()
		if len(got) < 2 || !slices.Equal(got[:2], want) {
			t.Errorf("got calls %q, want %q first", got, want)
		}
		// One of higher priority does not mind it.
		x.deliver(objects.Added, build.Pod("high").UID("high").Label("licence", "yes").Priority(6).Obj())
		x.wantPods("it is placed", "first unschedulable", "p unschedulable", "high promised n")
		if got := l.calls; slices.ContainsFunc(got, func(c string) bool { return strings.HasPrefix(c, "add first") }) {
			t.Errorf("got calls %q, want none about the nominated pod", got)
		}
	})
}

// inquirer is a plugin that asks the built-in plugins where no node is left, and once it is too late.
type inquirer struct {
	*testPlugin
	mu   sync.Mutex
	said []string
	late func() *fwk.Status
}

func (a *inquirer) PostFilter(ctx context.Context, state fwk.CycleState, p *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	nodes, err := a.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	view := nodes[0].Snapshot()
	ask := func() *fwk.Status { return a.handle.RunFilterPluginsWithNominatedPods(ctx, state, p, view) }
	a.said = append(a.said, ask().Message())
	for _, other := range nodes[0].GetPods() {
		if err := view.RemovePod(klog.Background(), other.GetPod()); err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	a.said = append(a.said, ask().Message())
	a.said = append(a.said, a.handle.RunFilterPlugins(ctx, framework.NewCycleState(), p, view).Message())
	a.late = ask
	return nil, no("asked")
}

func TestAGuestAsksTheBuiltInPlugins(t *testing.T) {
	a := &inquirer{testPlugin: newTestPlugin()}
	runScenarioWith(t, withPlugins(t, "{postFilter: {enabled: [{name: Guest}], disabled: [{name: '*'}]}}", a), clusterOf(nodesOf("4", "n"), bound(cores("there", "4"), "n")), nil, func(x *scenario) {
		x.deliver(objects.Added, cores("p", "1"))
		x.wantMessage("p", "0/1 nodes are available: 1 Insufficient cpu. asked")
		a.mu.Lock()
		defer a.mu.Unlock()
		want := []string{"Insufficient cpu", "", "the built-in plugins have prepared nothing in this state: not found"}
		if !slices.Equal(a.said, want) {
			t.Errorf("got %q, want %q", a.said, want)
		}
		if s := a.late(); s.Code() != fwk.Error || !strings.Contains(s.Message(), "during a scheduling cycle only") {
			t.Errorf("got %v afterwards, want an error", s)
		}
	})
}

// surveyor is a plugin that asks the built-in plugins of each node before any is looked at.
type surveyor struct {
	*testPlugin
	said []string
}

func (a *surveyor) PreFilter(ctx context.Context, state fwk.CycleState, p *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	for _, n := range nodes {
		a.said = append(a.said, p.Name+" "+n.Node().Name+": "+a.handle.RunFilterPlugins(ctx, state, p, n).Message())
	}
	return nil, nil
}

// Two pods of a batch share a claim, which gets its volume with the first of them: the built-in plugins tell a plugin so.
func TestAGuestIsToldOfTheClassOfNow(t *testing.T) {
	a := &surveyor{testPlugin: newTestPlugin()}
	all := clusterOf([]*v1.Node{
		build.Node("a").CPU("4").Memory("8Gi").Label("on", "a").Obj(), build.Node("b").CPU("4").Memory("8Gi").Label("on", "b").Obj(),
	})
	all.Cluster = []objects.Object{
		build.WaitingClass("late", "kubernetes.io/no-provisioner"), build.Claim("c", "late").Obj(),
		build.Volume("va", "late").On("on", "a").Obj(), build.Volume("vb", "late").On("on", "b").Obj(),
	}
	all.Pods = []*v1.Pod{build.Pod("p1").UID("p1").Claim("c").Obj(), build.Pod("p2").UID("p2").Claim("c").Obj()}
	configure := withPlugins(t, "", a)
	runScenarioWith(t, func(cfg *SchedulerConfig) { configure(cfg); cfg.VolumeWriter = &claimStore{} }, all, nil, func(x *scenario) {
		synctest.Wait()
		refused := slices.DeleteFunc(slices.Clone(a.said), func(s string) bool { return strings.HasSuffix(s, ": ") })
		if len(a.said) != 4 || len(refused) != 1 || !strings.HasPrefix(refused[0], "p2 ") || !strings.Contains(refused[0], "volume") {
			t.Errorf("got %q, want the volume of its claim to keep p2 off one of two nodes, and p1 off none", a.said)
		}
	})
}

// A pod that is deleted while it waits on Permit gets its event all the same.
func TestAPodThatIsGoneHasWaitedInVain(t *testing.T) {
	g, told := newTestPlugin(), &recordingReporter{}
	g.says["Permit"], g.wait = wait(), time.Minute
	configure := withPlugins(t, "", g)
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		configure(cfg)
		told.configure(cfg)
	}, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		x.deliver(objects.Added, cores("p", "4"))
		told.want(t, "it waits", "p expected on n")
		x.deliver(objects.Deleted, cores("p", "4"))
		told.want(t, "it is gone", "p expected on n", "p abandoned: 0/1 nodes are available: 1 removed.")
		x.wantPods("gone")
	})
}

// What is said of a plugin's PostFilter is what upstream's framework makes of its status.
func TestWhatAGuestsPostFilterSays(t *testing.T) {
	for _, c := range []struct {
		status  *fwk.Status
		message string
	}{
		{no("not today"), "not today"},
		{fwk.NewStatus(fwk.Pending, "soon"), "soon"},
		{fwk.NewStatus(fwk.Unschedulable, "one", "two"), "one, two"},
		{fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "never"), "never"},
		{bad("broken"), "broken"},
		{fwk.NewStatus(fwk.Error, "told").WithError(errors.New("cause")), "cause"},
		{fwk.NewStatus(fwk.Success, "good news"), "good news"},
		// Upstream crashes on these.
		{fwk.NewStatus(fwk.Skip, "not me"), "PostFilter plugin Guest returned Skip"},
		{fwk.NewStatus(fwk.Wait, "later"), "PostFilter plugin Guest returned Wait"},
	} {
		g := newTestPlugin()
		g.says["PostFilter"] = c.status
		runScenarioWith(t, withPlugins(t, "{postFilter: {enabled: [{name: Guest}], disabled: [{name: '*'}]}}", g), clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
			x.deliver(objects.Added, cores("p", "5"))
			x.wantMessage("p", "0/1 nodes are available: 1 Insufficient cpu. "+c.message)
		})
	}
}

// Where a built-in PreFilter has rejected the pod, a plugin's PostFilter is told of all nodes why.
func TestAPostFilterBehindAPreFilter(t *testing.T) {
	g := newTestPlugin()
	g.says["PostFilter"] = no("asked")
	runScenarioWith(t, withPlugins(t, "{postFilter: {enabled: [{name: Guest}], disabled: [{name: '*'}]}}", g), clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		x.deliver(objects.Added, build.Pod("p").UID("p").Claim("nowhere").Obj())
		x.wantCalls("rejected", g, `PostFilter p n=[persistentvolumeclaim "nowhere" not found]`)
		x.wantMessage("p", `0/1 nodes are available: persistentvolumeclaim "nowhere" not found. asked`)
	})
}

// closing is a plugin that tells when it is closed.
type closing struct {
	sorting
	closed *int
}

func (c closing) Close() error {
	*c.closed++
	return nil
}

// What is wrong with a plugin is told before there is a scheduler, in upstream's words.
func TestGuestsAreCheckedAtTheStart(t *testing.T) {
	closed := 0
	two := framework.ProfileConfig{Args: []framework.PluginArgs{{Name: "Picky", Args: &runtime.Unknown{Raw: []byte(`{"no": 1}`)}}}}
	two.Plugins.Bind.Enabled = []configv1.Plugin{{Name: rules.DefaultBinder}}
	two.Plugins.QueueSort.Enabled = []configv1.Plugin{{Name: "Sorting"}}
	one := two
	one.Name, two.Name = "one", "two"
	two.Plugins.PostBind.Enabled = []configv1.Plugin{{Name: "Picky"}}
	g := &outoftree.Config{Profiles: []framework.ProfileConfig{one, two}, Registry: framework.Registry{
		"Sorting": func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			h.SharedInformerFactory().Core().V1().Pods().Informer()
			if ctx.Err() != nil || h.ClientSet() == nil {
				t.Errorf("got context %v and client %v, want both to work with", ctx.Err(), h.ClientSet())
			}
			return closing{closed: &closed}, nil
		},
		"Picky": func(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
			return nil, fmt.Errorf("unknown argument in %s", args.(*runtime.Unknown).Raw)
		},
	}}
	want := `initializing profiles: creating profile for scheduler name two: initializing plugin "Picky": unknown argument in {"no": 1}`
	if err := g.Check(t.Context()); err == nil || err.Error() != want || closed != 1 {
		t.Errorf("got %v and %d closed, want %s and the one that was made closed", err, closed, want)
	}
	g.Profiles = g.Profiles[:1]
	if err := g.Check(t.Context()); err != nil || closed != 2 {
		t.Errorf("got %v and %d closed in all, want no error", err, closed)
	}
	if err := (*outoftree.Config)(nil).Check(t.Context()); err != nil {
		t.Errorf("without plugins: %v", err)
	}
}

// The binding cycle of a placement is measured once, by its plugins.
func TestBindingCyclesAreMeasuredOnce(t *testing.T) {
	for name, c := range map[string]struct {
		configure func(*SchedulerConfig)
		preBinds  uint64
	}{
		"with a plugin": {withPlugins(t, "", newTestPlugin()), 1}, "without": {func(*SchedulerConfig) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			runScenarioWith(t, c.configure, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
				x.deliver(objects.Added, cores("p", "1"))
				x.wantPods("bound", "p promised n")
				set := x.metrics.Set()
				for what, got := range map[string]struct{ got, want uint64 }{
					"Bind":          {set.Histogram("scheduler_framework_extension_point_duration_seconds", "Bind", "Success", "default-scheduler").Count(), 1},
					"DefaultBinder": {set.Histogram("scheduler_plugin_execution_duration_seconds", "DefaultBinder", "Bind", "Success").Count(), 1},
					"PreBind":       {set.Histogram("scheduler_framework_extension_point_duration_seconds", "PreBind", "Success", "default-scheduler").Count(), c.preBinds},
				} {
					if got.got != got.want {
						t.Errorf("%s is measured %d times, want %d", what, got.got, got.want)
					}
				}
			})
		})
	}
}

// An explanation names those whom it does not ask.
func TestExplanationsNameWhomTheyDoNotAsk(t *testing.T) {
	g := newTestPlugin()
	configure, a := withPlugins(t, "", g), newAdvisor()
	runScenarioWith(t, func(c *SchedulerConfig) {
		configure(c)
		c.Extenders, c.extenderTransport = []configv1.Extender{foo("filter")}, a
	}, clusterOf(nodesOf("4", "a", "b")), nil, func(x *scenario) {
		a.filter("/foo/filter", map[string]string{"a": "no foo", "b": "no foo"})
		x.deliver(objects.Added, wanting("p", "1"))
		x.wantPods("refused", "p unschedulable")
		g.take()
		seen := len(a.seen)
		out, err := x.Explain(x.ctx, &pb.ExplainRequest{Namespace: "default", Name: "p"})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"plugin Guest", "extender http://x/foo"}
		if !slices.Equal(out.NotAsked, want) || out.Note != "" || out.Feasible != 2 || len(g.take()) > 0 || len(a.seen) != seen {
			t.Errorf("got %q and %d feasible nodes, note %q, want %q and 2, with nobody asked", out.NotAsked, out.Feasible, out.Note, want)
		}
		if got := out.GetDecision().GetMessage(); !strings.Contains(got, "2 no foo") {
			t.Errorf("got decision %q, want what the extender said in it", got)
		}
	})
}
