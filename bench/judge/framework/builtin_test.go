package framework

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/bench/judge/oracle/conformance"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
	ours "github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/outoftree"
)

// asker asks its Handle about nodes with other pods on them, and turns every pod away.
type asker struct {
	named
	handle fwk.Handle
	ask    func(asked fwk.PluginsRunner, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo)
}

func (a *asker) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	a.ask(a.handle, state, pod, nodes)
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not now")
}

func (a *asker) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (a *asker) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

const askerFile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Asker}]}
    postFilter: {disabled: [{name: '*'}]}
`

// start starts one of our schedulers with a plugin.
func start(t *testing.T, shards int, file, name string, plugin fwk.Plugin, log *observe.DecisionLog) *coordinator.Scheduler {
	t.Helper()
	c, err := config.ReaderFor([]string{name}).Parse("test", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := c.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	s, err := coordinator.NewScheduler(coordinator.SchedulerConfig{
		Cluster: "test", Term: 1, Shards: shards, Profiles: profiles, Decisions: log,
		OutOfTree: &outoftree.Config{Profiles: c.OutOfTree(), Registry: ours.Registry{
			name: func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
				if a, ok := plugin.(*asker); ok {
					a.handle = h
				}
				return plugin, nil
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

// answers asks about each node as it is, empty, with some pods less and with some more, and about the
// scores of those that fit. It gives what is said of each.
func answers(seed uint64, asked fwk.PluginsRunner, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, info func(*v1.Pod) fwk.PodInfo) map[string]string {
	ctx, out := klog.NewContext(context.Background(), klog.Logger{}), map[string]string{}
	draw := func(n uint64, about ...any) bool {
		h := fnv.New64a()
		fmt.Fprintln(h, append(about, seed)...)
		return h.Sum64()>>7%n == 0
	}
	var all []*v1.Pod
	for _, node := range nodes {
		for _, p := range node.GetPods() {
			all = append(all, p.GetPod())
		}
	}
	slices.SortFunc(all, func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	var fit []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		for kind, change := range map[string]struct{ leaves, comes func(p *v1.Pod) bool }{
			"as it is": {}, "empty": {leaves: func(*v1.Pod) bool { return true }},
			"less": {leaves: func(p *v1.Pod) bool { return draw(2, "leaves", p.UID) }},
			"more": {comes: func(p *v1.Pod) bool { return draw(8, "comes", name, p.UID) }},
			"both": {
				leaves: func(p *v1.Pod) bool { return draw(2, "goes", p.UID) },
				comes:  func(p *v1.Pod) bool { return draw(8, "in", name, p.UID) },
			},
		} {
			view, copied := node.Snapshot(), state.Clone()
			for _, p := range node.GetPods() {
				if change.leaves == nil || !change.leaves(p.GetPod()) {
					continue
				}
				if err := view.RemovePod(klog.FromContext(ctx), p.GetPod()); err != nil {
					out[name+" "+kind] = err.Error()
				}
				if s := asked.RunPreFilterExtensionRemovePod(ctx, copied, pod, p, view); !s.IsSuccess() {
					out[name+" "+kind] = "removing: " + s.Message()
				}
			}
			for _, p := range all {
				if change.comes == nil || !change.comes(p) {
					continue
				}
				p = p.DeepCopy()
				p.UID, p.Name, p.Spec.NodeName = types.UID("more-"+string(p.UID)), "more-"+p.Name, ""
				view.AddPodInfo(info(p))
				if s := asked.RunPreFilterExtensionAddPod(ctx, copied, pod, info(p), view); !s.IsSuccess() {
					out[name+" "+kind] = "adding: " + s.Message()
				}
			}
			s := asked.RunFilterPlugins(ctx, copied, pod, view)
			if s.IsSuccess() {
				out[name+" "+kind] += "Success"
				if kind == "as it is" {
					fit = append(fit, node)
				}
				continue
			}
			reasons := slices.Clone(s.Reasons())
			slices.Sort(reasons)
			out[name+" "+kind] += fmt.Sprint(s.Code(), " ", s.Plugin(), " ", strings.Join(reasons, ", "))
		}
	}
	if len(fit) < 2 {
		return out
	}
	if s := asked.RunPreScorePlugins(ctx, state, pod, fit); !s.IsSuccess() {
		return out
	}
	scores, s := asked.RunScorePlugins(ctx, state, pod, fit)
	if !s.IsSuccess() {
		out["scores"] = s.Message()
	}
	for _, of := range scores {
		total := of.TotalScore
		for _, x := range of.Scores {
			if x.Score == 0 { // such plugins may be left out
				continue
			}
			out[of.Name+" by "+x.Name] = fmt.Sprint("Scores ", x.Score)
			total -= x.Score
		}
		out[of.Name+" scores"] = fmt.Sprint("Scores ", of.TotalScore)
		if total != 0 {
			out[of.Name+" scores"] += " which its plugins do not add up to"
		}
	}
	return out
}

func eventOf(e conformance.Event) objects.Event {
	x := objects.Event{Type: objects.Modified}
	if e.Type == conformance.Removed {
		x.Type = objects.Deleted
	}
	switch obj := e.Object.(type) {
	case *v1.Node:
		x.Kind, x.Node = objects.KindNode, obj
	case *v1.Pod:
		x.Kind, x.Pod = objects.KindPod, obj
	default:
		o := obj.(objects.Object)
		x.Kind, x.Object = objects.KindOf(o), o
	}
	return x
}

// twice tells whether two pods of a node hold the same host port: where one of them leaves, it is free
// for upstream.
func twice(pods []*v1.Pod) bool {
	seen := map[int32]int{}
	for i, p := range pods {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			for _, port := range c.Ports {
				if by, ok := seen[port.HostPort]; ok && by != i && port.HostPort > 0 {
					return true
				}
				seen[port.HostPort] = i
			}
		}
	}
	return false
}

// fed is a cluster that both schedulers know, without the pods that wait.
type fed struct {
	scheduler *coordinator.Scheduler
	upstream  *oracle.Oracle
	there     map[string][]*v1.Pod
	pending   []*v1.Pod
}

// feed tells both of a scenario's objects, of which pods that are there stay.
func feed(t *testing.T, s *coordinator.Scheduler, scenario *conformance.Scenario) *fed {
	t.Helper()
	c, err := oracle.DefaultConfig()
	if err != nil {
		t.Fatal(err)
	}
	f := &fed{scheduler: s, there: map[string][]*v1.Pod{}}
	if f.upstream, err = oracle.New(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, round := range scenario.Rounds {
		for _, e := range round {
			if e.Object == nil {
				continue
			}
			if p, ok := e.Object.(*v1.Pod); ok {
				if e.Type == conformance.Removed {
					continue
				}
				if p.Spec.NodeName == "" {
					p = p.DeepCopy()
					p.Status.NominatedNodeName = ""
					if p.Spec.SchedulerName == v1.DefaultSchedulerName && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0 {
						f.pending = append(f.pending, p)
					}
					continue
				}
				f.there[p.Spec.NodeName] = append(f.there[p.Spec.NodeName], p)
			}
			if e.Type == conformance.Removed {
				err = f.upstream.Remove(e.Object)
			} else if e.Type == conformance.Set {
				err = f.upstream.Set(e.Object)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.tell(t, e)
		}
	}
	f.pending = f.pending[:min(len(f.pending), 8)]
	return f
}

// tell tells our scheduler of an event, and waits until it has done its work.
func (f *fed) tell(t *testing.T, e conformance.Event) {
	t.Helper()
	f.scheduler.Deliver([]objects.Event{eventOf(e)})
	if err := f.scheduler.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// try has our scheduler try a pod, which is gone again after that.
func (f *fed) try(t *testing.T, p *v1.Pod) {
	t.Helper()
	f.tell(t, conformance.Event{Type: conformance.Set, Object: p})
	f.tell(t, conformance.Event{Type: conformance.Removed, Object: p})
}

func upstreamInfo(t *testing.T) func(p *v1.Pod) fwk.PodInfo {
	return func(p *v1.Pod) fwk.PodInfo {
		i, err := framework.NewPodInfo(p)
		if err != nil {
			t.Errorf("view of %s: %v", p.Name, err)
		}
		return i
	}
}

// A plugin that asks by its Handle is told of built-in plugins what upstream's say, of each node with
// some of its pods gone and others there.
func TestBuiltInPluginsByTheHandle(t *testing.T) {
	families := []conformance.Family{conformance.Spread, conformance.Defaults, conformance.Affinity, conformance.Disks, conformance.Volumes, conformance.Features, conformance.Preempting}
	compared, refused := 0, 0
	for seed := uint64(1); seed <= 200 && !t.Failed(); seed++ {
		if seed%3 == 0 {
			continue // these have profiles of their own
		}
		var got map[string]string
		a := &asker{named: "Asker", ask: func(asked fwk.PluginsRunner, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) {
			got = answers(seed, asked, state, pod, nodes, func(p *v1.Pod) fwk.PodInfo {
				i, err := ours.NewPodInfo(p)
				if err != nil {
					t.Errorf("view of %s: %v", p.Name, err)
				}
				return i
			})
		}}
		f := feed(t, start(t, 1+int(seed%3), askerFile, "Asker", a, nil), conformance.Random(seed, 8, families))
		for _, p := range f.pending {
			got = nil
			f.try(t, p)
			var want map[string]string
			if _, err := f.upstream.Ask(t.Context(), p, func(asked fwk.PluginsRunner, state fwk.CycleState, nodes []fwk.NodeInfo) {
				want = answers(seed, asked, state, p, nodes, upstreamInfo(t))
			}); err != nil {
				t.Fatal(err)
			}
			for _, about := range slices.Sorted(maps.Keys(want)) {
				compared++
				if strings.HasPrefix(want[about], "Uns") {
					refused++
				}
				node, _, _ := strings.Cut(about, " ")
				if got[about] != want[about] && !(twice(f.there[node]) && strings.Contains(got[about], "NodePorts")) {
					t.Errorf("seed %d: pod %s on %s: got %q, want %q", seed, p.Name, about, got[about], want[about])
				}
			}
		}
	}
	t.Logf("%d answers, %d of them refusals", compared, refused)
	if compared < 5000 || refused < 1000 || refused > compared-1000 {
		t.Errorf("got %d answers, %d of them refusals: want more of each", compared, refused)
	}
}

// rater refuses some nodes and scores the others, by their names.
type rater struct {
	named
	seed uint64
}

const raterFile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Rater, weight: 3}]}
    postFilter: {disabled: [{name: '*'}]}
`

func (r *rater) draw(node string, n uint64) int64 {
	h := fnv.New64a()
	fmt.Fprintln(h, r.seed, node)
	return int64(h.Sum64() >> 9 % n)
}

func (r *rater) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if r.draw(node.Node().Name, 4) == 0 {
		return fwk.NewStatus(fwk.Unschedulable, "not rated")
	}
	return nil
}

func (r *rater) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return r.draw(node.Node().Name, 50), nil
}

func (r *rater) ScoreExtensions() fwk.ScoreExtensions { return r }

// NormalizeScore is part of fwk.ScoreExtensions: twice the score.
func (r *rater) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	for i := range scores {
		scores[i].Score *= 2
	}
	return nil
}

func (r *rater) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// Where a guest filters and scores, a pod gets a node with the highest total that upstream's plugins
// and the guest come to over the nodes that are left, and this is its score.
func TestTotalsOfGuestsAndBuiltInPlugins(t *testing.T) {
	families := []conformance.Family{conformance.Spread, conformance.Defaults, conformance.Affinity, conformance.Disks, conformance.Features}
	compared := 0
	for seed := uint64(1); seed <= 200 && !t.Failed(); seed++ {
		if seed%3 == 0 {
			continue // these have profiles of their own
		}
		guest, out := &rater{"Rater", seed}, &bytes.Buffer{}
		log := observe.NewDecisionLog(out)
		f := feed(t, start(t, 1+int(seed%3), raterFile, "Rater", guest, log), conformance.Random(seed, 12, families))
		for _, p := range f.pending {
			out.Reset()
			f.try(t, p)
			if err := log.Flush(); err != nil {
				t.Fatal(err)
			}
			var got struct {
				Node            string
				Score, Feasible int64
			}
			line, _, _ := strings.Cut(out.String(), "\n")
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatalf("decision %q: %v", line, err)
			}
			ctx := klog.NewContext(t.Context(), klog.Logger{})
			if _, err := f.upstream.Ask(t.Context(), p, func(asked fwk.PluginsRunner, state fwk.CycleState, nodes []fwk.NodeInfo) {
				var fit []fwk.NodeInfo
				for _, node := range nodes {
					if asked.RunFilterPlugins(ctx, state, p, node).IsSuccess() && guest.Filter(ctx, state, p, node).IsSuccess() {
						fit = append(fit, node)
					}
				}
				if len(fit) < 2 {
					return
				}
				if s := asked.RunPreScorePlugins(ctx, state, p, fit); !s.IsSuccess() {
					return
				}
				scores, s := asked.RunScorePlugins(ctx, state, p, fit)
				if !s.IsSuccess() {
					t.Errorf("seed %d: pod %s: %v", seed, p.Name, s)
					return
				}
				compared++
				best, own := int64(0), int64(-1)
				for _, of := range scores {
					total := of.TotalScore + 3*2*guest.draw(of.Name, 50)
					if best = max(best, total); of.Name == got.Node {
						own = total
					}
				}
				if got.Score != own || own != best || got.Feasible != int64(len(fit)) {
					t.Errorf("seed %d: pod %s: got node %s with %d of %d, want %d, the best of %d, where it has %d", seed, p.Name, got.Node, got.Score, got.Feasible, best, len(fit), own)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d pods", compared)
	if compared < 200 {
		t.Errorf("%d pods had a choice, want more", compared)
	}
}
