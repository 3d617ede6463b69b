package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/tracing"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// advisor is extenders that answer inside the bubble: the path of a call is /<extender>/<verb>.
type advisor struct {
	mu sync.Mutex
	// answers by path; none: an error of the connection.
	answers map[string]func(ctx context.Context, body []byte) (any, error)
	seen    []string // "<path> <pod>: nodes"
}

func newAdvisor() *advisor {
	return &advisor{answers: map[string]func(context.Context, []byte) (any, error){}}
}

// RoundTrip is part of http.RoundTripper.
func (a *advisor) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var q struct {
		Pod       *v1.Pod
		PodName   string
		NodeNames *[]string
		Node      string
	}
	_ = json.Unmarshal(body, &q)
	a.mu.Lock()
	line := r.URL.Path
	if q.Pod != nil {
		line += " " + q.Pod.Name + ":"
	} else {
		line += " " + q.PodName + ": " + q.Node
	}
	if q.NodeNames != nil {
		line += " " + strings.Join(*q.NodeNames, " ")
	}
	a.seen = append(a.seen, line)
	answer := a.answers[r.URL.Path]
	a.mu.Unlock()
	if answer == nil {
		return nil, errors.New("nobody there")
	}
	out, err := answer(r.Context(), body)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(raw))), Request: r}, nil
}

// filter has a filter keep the nodes that it is asked about and that are among keep, and say of
// others what failed says.
func (a *advisor) filter(path string, failed map[string]string, keep ...string) {
	a.on(path, func(_ context.Context, body []byte) (any, error) {
		var q extenderv1.ExtenderArgs
		if err := json.Unmarshal(body, &q); err != nil {
			return nil, err
		}
		kept := []string{}
		for _, n := range *q.NodeNames {
			if slices.Contains(keep, n) {
				kept = append(kept, n)
			}
		}
		return extenderv1.ExtenderFilterResult{NodeNames: &kept, FailedNodes: failed}, nil
	})
}

func (a *advisor) on(path string, answer func(context.Context, []byte) (any, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[path] = answer
}

// hang keeps calls under way until they are let go, and then has them answered so.
func (a *advisor) hang(path string) (letGo func(then func(context.Context, []byte) (any, error))) {
	held := make(chan struct{})
	var answer func(context.Context, []byte) (any, error)
	a.on(path, func(ctx context.Context, body []byte) (any, error) {
		select {
		case <-held:
			return answer(ctx, body)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return func(then func(context.Context, []byte) (any, error)) {
		answer = then
		close(held)
		synctest.Wait()
	}
}

func (a *advisor) want(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.seen, want) {
		t.Errorf("%s: got calls %q, want %q", when, a.seen, want)
	}
}

// keepAll keeps every node.
func keepAll(_ context.Context, body []byte) (any, error) {
	var q extenderv1.ExtenderArgs
	err := json.Unmarshal(body, &q)
	return extenderv1.ExtenderFilterResult{NodeNames: q.NodeNames}, err
}

// foo is an extender of that name, which manages the resource of pods that want it.
func foo(verbs ...string) configv1.Extender {
	e := configv1.Extender{
		URLPrefix: "http://x/foo", NodeCacheCapable: true, Weight: 2,
		ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/foo", IgnoredByScheduler: true}},
	}
	for _, v := range verbs {
		switch v {
		case "filter":
			e.FilterVerb = v
		case "prioritize":
			e.PrioritizeVerb = v
		case "bind":
			e.BindVerb = v
		}
	}
	return e
}

// wanting is a pod that extender foo is interested in: a limit alone is no request of the pod's.
func wanting(name, cpu string) *v1.Pod {
	p := cores(name, cpu)
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"example.com/foo": resource.MustParse("1")}
	return p
}

// runScenarioAdvised runs a scenario with extenders.
func runScenarioAdvised(t *testing.T, all *objects.Snapshot, play func(*scenario, *advisor), list ...configv1.Extender) {
	t.Helper()
	a := newAdvisor()
	runScenarioWith(t, func(c *SchedulerConfig) { c.Extenders, c.extenderTransport = list, a }, all, nil, func(x *scenario) { play(x, a) })
}

func TestExtendersFilterAndScore(t *testing.T) {
	runScenarioAdvised(t, clusterOf(nodesOf("4", "a", "b", "c", "d")), func(x *scenario, a *advisor) {
		a.filter("/foo/filter", map[string]string{"a": "no foo"}, "b", "c", "d")
		a.on("/foo/prioritize", func(context.Context, []byte) (any, error) {
			return extenderv1.HostPriorityList{{Host: "c", Score: 7}, {Host: "b", Score: 1}, {Host: "a", Score: 10}, {Host: "nobody", Score: 10}}, nil
		})
		x.deliver(objects.Added, wanting("p", "1"))
		x.wantPods("as the extender scores", "p promised c")
		a.want(t, "filter, then scores of what is left", "/foo/filter p: a b c d", "/foo/prioritize p: b c d")
		var score int64
		if err := x.call(x.ctx, func() { score = x.history.Last("p").Score }); err != nil {
			t.Fatal(err)
		}
		x.deliver(objects.Added, cores("q", "1"))
		a.want(t, "a pod of no interest", "/foo/filter p: a b c d", "/foo/prioritize p: b c d")
		var plain int64
		if err := x.call(x.ctx, func() { plain = x.history.Last("q").Score }); err != nil {
			t.Fatal(err)
		}
		if score-plain != 140 {
			t.Errorf("scores are %d and %d, want 140 more for 7 of 10 with weight 2", score, plain)
		}
	}, foo("filter", "prioritize"))
}

func TestExtendersRefuseAllNodes(t *testing.T) {
	runScenarioAdvised(t, clusterOf(nodesOf("4", "a", "b", "c"), bound(cores("full", "4"), "c")), func(x *scenario, a *advisor) {
		a.filter("/foo/filter", map[string]string{"a": "no foo", "nobody": "never heard of"})
		x.deliver(objects.Added, wanting("p", "1"))
		a.want(t, "nodes that pass are asked about", "/foo/filter p: a b")
		x.wantPods("refused", "p unschedulable")
		x.wantMessage("p", "0/3 nodes are available: 1 Insufficient cpu, 1 no foo.")
		x.wantHelp("nodes that extender http://x/foo takes of those that it refuses for a reason", "1 no foo: nodes that extender http://x/foo takes",
			"1 cpu: full on every node that is big enough: more such nodes, pods that leave, or a higher priority")
		elapse(10 * time.Second)
		a.want(t, "nothing happens", "/foo/filter p: a b")
		// Any event has it tried again.
		a.filter("/foo/filter", nil, "b")
		x.deliver(objects.Added, bound(cores("another", "1"), "a"))
		x.wantPods("tried again", "p promised b")
	}, foo("filter"))
}

// wantHelp checks what the causes are for which the first workload's pods pend, and what would help.
func (x *scenario) wantHelp(when string, want ...string) {
	x.t.Helper()
	out, err := x.Pending(x.ctx, &pb.ListPendingRequest{})
	if err != nil {
		x.t.Fatal(err)
	}
	var got []string
	for _, c := range out.Groups[0].Causes {
		got = append(got, fmt.Sprintf("%d %s: %s", c.Nodes, c.Cause, c.Help))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		x.t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

// An extender that leaves out nodes without a word is named as who has refused them.
func TestAnExtenderThatGivesNoReasonIsNamed(t *testing.T) {
	runScenarioAdvised(t, clusterOf(nodesOf("4", "a", "b")), func(x *scenario, a *advisor) {
		a.filter("/foo/filter", nil)
		x.deliver(objects.Added, wanting("p", "1"))
		x.wantHelp("no reason", "0 extender http://x/foo refuses nodes, without a reason: nodes that extender http://x/foo takes")
	}, foo("filter"))
	runScenarioAdvised(t, clusterOf(nodesOf("4", "a", "b"), bound(cores("full", "4"), "b")), func(x *scenario, a *advisor) {
		a.filter("/foo/filter", nil)
		x.deliver(objects.Added, wanting("p", "1"))
		x.wantHelp("no reason of one of two",
			"0 extender http://x/foo refuses nodes, without a reason: nodes that extender http://x/foo takes",
			"1 cpu: full on every node that is big enough: more such nodes, pods that leave, or a higher priority")
	}, foo("filter"))
}

// bound is a pod on a node.
func bound(p *v1.Pod, node string) *v1.Pod {
	p.Spec.NodeName = node
	return p
}

func TestASlowExtenderHarmsOnlyItsPods(t *testing.T) {
	runScenarioAdvised(t, clusterOf(nodesOf("400", "a", "b")), func(x *scenario, a *advisor) {
		a.hang("/foo/filter")
		for i := range 40 {
			x.deliver(objects.Added, wanting(fmt.Sprintf("slow%02d", i), "1"))
		}
		for i := range 100 {
			x.deliver(objects.Added, cores(fmt.Sprintf("p%d", i), "1"))
		}
		if n := len(x.binder.seen); n != 100 {
			t.Errorf("%d pods are bound while the extender hangs, want 100", n)
		}
		if n := len(a.seen); n != extender.DefaultInFlight {
			t.Errorf("%d calls are under way, want %d", n, extender.DefaultInFlight)
		}
		a.filter("/foo/filter", nil, "a", "b")
		elapse(6 * time.Second)
		x.wantMessage("slow00", "context deadline exceeded")
		elapse(time.Minute)
		if n := len(x.binder.seen); n != 140 {
			t.Errorf("%d pods are bound when it answers again, want 140", n)
		}
	}, foo("filter"))
}

func TestPodsTakeTurnsInTheQueuesOrder(t *testing.T) {
	runScenarioAdvised(t, clusterOf(nodesOf("400", "a")), func(x *scenario, a *advisor) {
		letGo := a.hang("/foo/filter")
		for i := range extender.DefaultInFlight {
			x.deliver(objects.Added, wanting(fmt.Sprintf("first%02d", i), "1"))
		}
		for i, name := range []string{"low", "high", "gone"} {
			p := wanting(name, "1")
			p.Spec.Priority = new(int32)
			*p.Spec.Priority = int32(i)
			x.deliver(objects.Added, p)
		}
		x.deliver(objects.Deleted, wanting("gone", "1"))
		letGo(keepAll)
		var order []string
		for _, line := range a.seen[extender.DefaultInFlight:] {
			order = append(order, strings.Fields(line)[1])
		}
		slices.Sort(order) // both find a place free
		if !slices.Equal(order, []string{"high:", "low:"}) {
			t.Errorf("asked about %q after the first, want high and low", order)
		}
		if n := len(x.binder.seen); n != extender.DefaultInFlight+2 {
			t.Errorf("%d pods are bound, want all but the one that is gone", n)
		}
	}, foo("filter"))
}

func TestAnAnswerIsHeldAgainstTheTablesOfNow(t *testing.T) {
	runScenarioAdvised(t, clusterOf(nodesOf("4", "a", "b")), func(x *scenario, a *advisor) {
		letGo := a.hang("/foo/filter")
		x.deliver(objects.Added, wanting("p", "3"))
		x.deliver(objects.Added, wanting("q", "3"))
		x.deliver(objects.Added, cores("quick", "3"))
		x.wantPods("one does not wait", "p in flight", "q in flight", "quick promised b")
		a.want(t, "asked about both nodes", "/foo/filter p: a b", "/foo/filter q: a b")
		letGo(keepAll)
		first, second := "p", "q" // as the answers come
		if err := x.call(x.ctx, func() {
			if x.queue.Get("p") != nil {
				first, second = "q", "p"
			}
		}); err != nil {
			t.Fatal(err)
		}
		x.wantPods("one place is left", first+" promised a", second+" unschedulable", "quick promised b")
		x.wantMessage(types.UID(second), "0/2 nodes are available: 2 Insufficient cpu.")
	}, foo("filter"))
}

func TestANodeThatComesWhileAnExtenderIsAsked(t *testing.T) {
	runScenarioAdvised(t, clusterOf(nodesOf("4", "a")), func(x *scenario, a *advisor) {
		letGo := a.hang("/foo/filter")
		x.deliver(objects.Added, wanting("p", "3"))
		x.deliver(objects.Added, nodesOf("4", "b")[0])
		letGo(func(ctx context.Context, body []byte) (any, error) {
			a.filter("/foo/filter", nil, "b")
			return extenderv1.ExtenderFilterResult{}, nil
		})
		a.want(t, "it is asked again", "/foo/filter p: a", "/foo/filter p: a b")
		x.wantPods("placed", "p promised b")
	}, foo("filter"))
}

func TestAPodGoesWhileAnExtenderIsAsked(t *testing.T) {
	runScenarioAdvised(t, clusterOf(nodesOf("4", "a")), func(x *scenario, a *advisor) {
		letGo := a.hang("/foo/filter")
		x.deliver(objects.Added, wanting("p", "3"))
		x.deliver(objects.Deleted, wanting("p", "3"))
		letGo(keepAll)
		x.wantPods("gone")
		x.wantNothingOf("p")
		if err := x.Idle(x.ctx); err != nil {
			t.Errorf("Idle: %v", err)
		}
	}, foo("filter"))
}

func TestAPodsOwnNodeIsAskedAboutAlone(t *testing.T) {
	nominated := func(name, node string) *v1.Pod {
		p := wanting(name, "1")
		p.Status.NominatedNodeName = node
		return p
	}
	runScenarioAdvised(t, clusterOf(nodesOf("4", "a", "b", "c")), func(x *scenario, a *advisor) {
		a.filter("/foo/filter", nil, "a", "b")
		a.on("/foo/prioritize", func(context.Context, []byte) (any, error) {
			return extenderv1.HostPriorityList{{Host: "a", Score: 10}}, nil
		})
		x.deliver(objects.Added, nominated("p", "b"))
		x.wantPods("kept", "p promised b")
		a.want(t, "alone, and not scored", "/foo/filter p: b")
		x.deliver(objects.Added, nominated("q", "c"))
		x.wantPods("not kept", "p promised b", "q promised a")
	}, foo("filter", "prioritize"))
}

func TestAnExtenderThatFails(t *testing.T) {
	ignorable := foo("filter", "prioritize")
	ignorable.URLPrefix, ignorable.Ignorable, ignorable.ManagedResources = "http://x/bar", true, nil
	runScenarioAdvised(t, clusterOf(nodesOf("4", "a")), func(x *scenario, a *advisor) {
		x.deliver(objects.Added, cores("p", "1"))
		x.wantPods("one that may be ignored", "p promised a")
		x.deliver(objects.Added, wanting("q", "1"))
		x.wantPods("one that may not", "p promised a", "q backoff")
		x.wantMessage("q", `Post "http://x/foo/filter": nobody there`)
		a.filter("/foo/filter", nil, "a")
		elapse(2 * time.Second)
		x.wantPods("it is back", "p promised a", "q promised a")
	}, ignorable, foo("filter"))
}

func TestAnExtenderBinds(t *testing.T) {
	for name, c := range map[string]struct {
		ignorable, commits bool
		answer             any // nil: nobody there
		pods, binds        []string
	}{
		"and has told those who need to know": {answer: extenderv1.ExtenderBindingResult{}, commits: true, pods: []string{"p promised a"}},
		"and the binder commits it":           {answer: extenderv1.ExtenderBindingResult{}, pods: []string{"p promised a"}, binds: []string{"p@1 a"}},
		"in vain":                             {answer: extenderv1.ExtenderBindingResult{Error: "no"}, commits: true, pods: []string{"p backoff"}},
		"in vain, and may be ignored":         {ignorable: true, commits: true, pods: []string{"p promised a"}, binds: []string{"p@1 a"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := foo("bind")
			e.Ignorable = c.ignorable
			a := newAdvisor()
			if c.answer != nil {
				a.on("/foo/bind", func(context.Context, []byte) (any, error) { return c.answer, nil })
			}
			runScenarioWith(t, func(cfg *SchedulerConfig) {
				cfg.Extenders, cfg.extenderTransport, cfg.ExtendersCommit = []configv1.Extender{e}, a, c.commits
			}, clusterOf(nodesOf("4", "a")), nil, func(x *scenario) {
				x.deliver(objects.Added, wanting("p", "1"))
				x.wantPods("p", c.pods...)
				a.want(t, "asked once", "/foo/bind p: a")
				x.wantBinds("the binder", c.binds...)
				if c.pods[0] == "p backoff" {
					x.wantMessage("p", "no")
				}
			})
		})
	}
}

func TestAnExtenderDoesNotBindForAnOldLeader(t *testing.T) {
	a := newAdvisor()
	a.on("/foo/bind", func(context.Context, []byte) (any, error) { return extenderv1.ExtenderBindingResult{}, nil })
	e := foo("bind")
	e.Ignorable = true
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		cfg.Extenders, cfg.extenderTransport, cfg.Fence = []configv1.Extender{e}, a, func() error { return lease.ErrDeposed }
	}, clusterOf(nodesOf("4", "a")), nil, func(x *scenario) {
		x.Deliver([]objects.Event{added(wanting("p", "1"))})
		x.wantEnd(lease.ErrDeposed)
		a.want(t, "nothing is asked")
		x.wantBindsAfter(t)
	})
}

func (x *scenario) wantBindsAfter(t *testing.T) {
	t.Helper()
	x.binder.mu.Lock()
	defer x.binder.mu.Unlock()
	if len(x.binder.seen) > 0 {
		t.Errorf("binds are %q, want none", x.binder.seen)
	}
}

// With a loop that waits nothing depends on how fast extenders are. Without a binder no extender binds either: the
// pods may be those of a live cluster.
func TestExtendersInline(t *testing.T) {
	a := newAdvisor()
	a.filter("/foo/filter", nil, "b")
	runScenarioWith(t, func(c *SchedulerConfig) {
		c.Extenders, c.extenderTransport, c.ExtendersInline, c.Binder = []configv1.Extender{foo("filter", "bind")}, a, true, nil
	}, clusterOf(nodesOf("4", "a", "b")), nil, func(x *scenario) {
		x.deliver(objects.Added, wanting("p", "1"))
		x.wantPods("as it says", "p on b")
		a.want(t, "bound by nobody", "/foo/filter p: a b")
		if err := x.Idle(x.ctx); err != nil {
			t.Errorf("Idle: %v", err)
		}
	})
}

func TestExtendersChooseVictims(t *testing.T) {
	e := foo()
	e.PreemptVerb = "preempt"
	ignorable := e
	ignorable.URLPrefix, ignorable.Ignorable = "http://x/bar", true
	meta := func(node string, uids ...string) any {
		v := &extenderv1.MetaVictims{}
		for _, u := range uids {
			v.Pods = append(v.Pods, &extenderv1.MetaPod{UID: u})
		}
		return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{node: v}}
	}
	low := func(name, node string, priority int32) *v1.Pod {
		p := bound(cores(name, "2"), node)
		p.Spec.Priority = &priority
		return p
	}
	for name, c := range map[string]struct {
		answer          func(context.Context, []byte) (any, error)
		gone, message   string
		alsoWhileAsking func(*scenario)
	}{
		"as it is":      {answer: func(context.Context, []byte) (any, error) { return meta("b", "b1"), nil }, gone: "b1"},
		"other victims": {answer: func(context.Context, []byte) (any, error) { return meta("b", "b2"), nil }, gone: "b2"},
		"none of them":  {answer: func(context.Context, []byte) (any, error) { return extenderv1.ExtenderPreemptionResult{}, nil }, message: "preemption: no candidate node for preemption"},
		"no victims":    {answer: func(context.Context, []byte) (any, error) { return meta("b"), nil }, message: `preemption: expected at least one victim pod on node "b"`},
		"another node":  {answer: func(context.Context, []byte) (any, error) { return meta("z", "x"), nil }, message: `preemption: nodeinfo not found for node name "z"`},
		"a pod that is not there": {
			answer:  func(context.Context, []byte) (any, error) { return meta("b", "a1"), nil },
			message: "preemption: extender: http://x/foo claims to preempt pod (UID: &{a1}) on node: b, but the pod is not found on that node",
		},
		"an error": {message: `preemption: Post "http://x/foo/preempt": nobody there`},
		"a victim that goes meanwhile": {
			answer:          func(context.Context, []byte) (any, error) { return meta("b", "b1"), nil },
			alsoWhileAsking: func(x *scenario) { x.deliver(objects.Deleted, low("b1", "b", 5)) },
			gone:            "nobody: it fits",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdvisor()
			runScenarioWith(t, func(cfg *SchedulerConfig) {
				cfg.Extenders, cfg.extenderTransport, cfg.Profiles = []configv1.Extender{ignorable, e}, a, withPreemption()
			}, clusterOf(nodesOf("4", "a", "b"), low("a1", "a", 1), low("a2", "a", 1), low("b1", "b", 5), low("b2", "b", 5)), nil, func(x *scenario) {
				letGo := a.hang("/foo/preempt")
				if c.answer == nil {
					delete(a.answers, "/foo/preempt")
				}
				p := wanting("p", "2")
				p.Spec.Priority = new(int32)
				*p.Spec.Priority = 10
				x.deliver(objects.Added, p)
				x.deliver(objects.Added, cores("tiny", "0"))
				if c.alsoWhileAsking != nil {
					c.alsoWhileAsking(x)
				}
				letGo(c.answer)
				if got := len(x.binder.seen); got == 0 {
					t.Error("another pod waits")
				}
				if c.message != "" {
					x.wantMessage("p", "0/2 nodes are available: 2 Insufficient cpu. ")
					x.wantMessage("p", c.message)
				}
				for _, name := range []string{"a1", "a2", "b1", "b2"} {
					gone := false
					if err := x.call(x.ctx, func() { _, node, _ := x.state.Pod(types.UID(name)); gone = node == "" }); err != nil {
						t.Fatal(err)
					}
					if want := name == c.gone || c.alsoWhileAsking != nil && name == "b1"; gone != want {
						t.Errorf("%s is gone: %v, want %v", name, gone, want)
					}
				}
				want := []string{"/foo/preempt p:", "/bar/preempt p:"}
				if c.message != "" {
					want = want[:1] // nothing is left to ask about
				}
				a.want(t, "asked once each", want...)
			})
		})
	}
}

// TestTheTimeOfExtendersIsASpan: an attempt's trace tells how long it has waited for extenders.
func TestTheTimeOfExtendersIsASpan(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	a := newAdvisor()
	tracer := tracing.New(tracing.Config{
		Provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithIDGenerator(tracing.IDs{Random: rand.Uint64})),
		Ratio:    1, Random: rand.Uint64,
	})
	configure := func(c *SchedulerConfig) {
		c.Extenders, c.extenderTransport, c.Tracer = []configv1.Extender{foo("filter")}, a, tracer
	}
	runScenarioWith(t, configure, clusterOf(nodesOf("4", "a")), nil, func(x *scenario) {
		a.filter("/foo/filter", nil, "a")
		x.deliver(objects.Added, wanting("p", "1"))
		x.wantPods("placed", "p promised a")
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(spans.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name == "extenders" }) {
		t.Errorf("no span of the extenders among %d", len(spans.GetSpans()))
	}
}
