package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// licences is a plugin that lets so many pods that are labelled as its own be in the cluster. It keeps
// their number in the cycle's state, and a record of what it is told.
type licences struct {
	limit int
	// early has PreFilter refuse, and refuses is what Filter says of a node before all else.
	early   *fwk.Status
	refuses map[string]*fwk.Status
	// stuck is the pod whose removal fails.
	stuck string

	mu    sync.Mutex
	calls []string
}

type inUse int

func (n *inUse) Clone() fwk.StateData { c := *n; return &c }

const inUseKey fwk.StateKey = "licences"

func (*licences) Name() string { return "Licences" }

func (l *licences) note(format string, a ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, fmt.Sprintf(format, a...))
}

func holdsOne(p *v1.Pod) bool { return p.Labels["licence"] != "" }

func (l *licences) PreFilter(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	n := inUse(0)
	for _, node := range nodes {
		for _, p := range node.GetPods() {
			if holdsOne(p.GetPod()) {
				n++
			}
		}
	}
	state.Write(inUseKey, &n)
	return nil, l.early
}

func (l *licences) PreFilterExtensions() fwk.PreFilterExtensions { return l }

func (l *licences) move(state fwk.CycleState, other fwk.PodInfo, by inUse) {
	data, err := state.Read(inUseKey)
	if err != nil {
		panic(err)
	}
	if holdsOne(other.GetPod()) {
		*data.(*inUse) += by
	}
}

func (l *licences) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	l.note("add %s of %d on %s", other.GetPod().Name, len(node.GetPods()), node.Node().Name)
	l.move(state, other, +1)
	return nil
}

func (l *licences) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	l.note("remove %s leaves %d on %s", other.GetPod().Name, len(node.GetPods()), node.Node().Name)
	l.move(state, other, -1)
	if other.GetPod().Name == l.stuck {
		return bad("it is stuck")
	}
	return nil
}

func (l *licences) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(inUseKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	l.note("filter %s with %d", node.Node().Name, *data.(*inUse))
	if s := l.refuses[node.Node().Name]; s != nil {
		return s
	}
	if int(*data.(*inUse)) >= l.limit {
		return no("no licence is free")
	}
	return nil
}

// preemptWithPlugin is preemptOn in a profile with a plugin.
func preemptWithPlugin(t *testing.T, l *licences, nodes []*v1.Node, pods []*v1.Pod, play func(x *scenario, a *fakeEvictor)) {
	t.Helper()
	a := &fakeEvictor{}
	configure := withPlugins(t, "", l)
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		configure(cfg)
		cfg.Evictor = a
	}, clusterOf(nodes, pods...), nil, func(x *scenario) { play(x, a) })
}

func holder(name, node string, priority int32) *v1.Pod {
	return build.Pod(name).CPU("1").Priority(priority).Node(node).Label("licence", "yes").Obj()
}

func plain(name, node string, priority int32) *v1.Pod {
	return build.Pod(name).CPU("1").Priority(priority).Node(node).Obj()
}

// What a plugin counts goes with the pods that leave: only where its own do is there a candidate, and
// those that it has no need of come back.
func TestAGuestIsToldWhoLeaves(t *testing.T) {
	l := &licences{limit: 1}
	preemptWithPlugin(t, l, nodesOf("4", "m", "n"), []*v1.Pod{
		plain("a", "m", 1), holder("b", "n", 5), plain("c", "n", 2), build.Pod("p").CPU("1").Priority(10).Obj(),
	}, func(x *scenario, a *fakeEvictor) {
		if got, want := a.orders(), []string{"p on n: b"}; !slices.Equal(got, want) {
			t.Fatalf("evictions: got %q, want %q", got, want)
		}
		var onN []string
		for _, c := range l.calls {
			if strings.Contains(c, "on n") || strings.Contains(c, "filter n") {
				onN = append(onN, c)
			}
		}
		want := []string{
			"filter n with 1", // before anybody leaves
			"remove b leaves 1 on n", "remove c leaves 0 on n", "filter n with 0",
			"add b of 1 on n", "filter n with 1", "remove b leaves 0 on n",
			"add c of 1 on n", "filter n with 0",
		}
		if !slices.Equal(onN, want) {
			t.Errorf("calls about n: got\n\t%q, want\n\t%q", onN, want)
		}
		x.wantPending(t, "decided", "p", queue.Unschedulable, "", "n")
		sum, err := x.Summary(x.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, point := range []string{"PreFilter", "Filter"} {
			if !slices.ContainsFunc(sum.Plugins, func(p *pb.PluginLatency) bool {
				return p.Plugin == l.Name() && p.ExtensionPoint == point && p.Latency.Count > 0
			}) {
				t.Errorf("got no time of %s at %s in the summary", l.Name(), point)
			}
		}
	})
}

// A node is a candidate only where the plugins' own status may be changed by victims.
func TestAGuestSaysThatNothingHelps(t *testing.T) {
	never := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not this node")
	for name, c := range map[string]struct {
		plugin  *licences
		orders  []string
		message string
	}{
		"on one": {
			plugin: &licences{limit: 2, refuses: map[string]*fwk.Status{"m": never}},
			orders: []string{"p on n: b"},
		},
		"on all": {
			plugin:  &licences{limit: 1, refuses: map[string]*fwk.Status{"m": never, "n": never}},
			message: "0/2 nodes are available: 2 not this node. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
		},
		"with all gone": {
			plugin:  &licences{limit: 0},
			message: "0/2 nodes are available: 2 no licence is free. no new claims to deallocate, preemption: 0/2 nodes are available: 2 no licence is free.",
		},
		"in PreFilter": {
			plugin: &licences{limit: 9, early: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "never")},
			// DynamicResources' PreFilter has run: the plugin is behind it.
			message: "0/2 nodes are available: never. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
		},
		"in PreFilter for now, and then nothing is wrong": {
			plugin:  &licences{limit: 9, early: no("not yet")},
			message: `0/2 nodes are available: not yet. preemption: [expected at least one victim pod on node "m", expected at least one victim pod on node "n"]`,
		},
		"in PreFilter for now": {
			plugin: &licences{limit: 2, early: no("not yet")},
			orders: []string{"p on m: a"},
		},
		"an error on one node": {
			plugin: &licences{limit: 2, stuck: "a"},
			orders: []string{"p on n: b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := build.Pod("p").CPU("1").Priority(10).Obj()
			preemptWithPlugin(t, c.plugin, nodesOf("4", "m", "n"), []*v1.Pod{holder("a", "m", 1), holder("b", "n", 5), p}, func(x *scenario, a *fakeEvictor) {
				if got := a.orders(); !slices.Equal(got, c.orders) {
					t.Errorf("evictions: got %q, want %q", got, c.orders)
				}
				if c.message != "" && x.message(p.UID) != c.message {
					t.Errorf("message: got\n\t%q, want\n\t%q", x.message(p.UID), c.message)
				}
			})
		})
	}
}
