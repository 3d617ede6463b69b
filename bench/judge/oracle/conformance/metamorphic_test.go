package conformance

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/internal/testkit/build"
	"github.com/shardsched/shardsched/worker"
)

// decideAll has our scheduler decide a scenario, and returns the decisions of each round. Before each it calls before.
func decideAll(t *testing.T, s *Scenario, split Split, before ...func(own *ours, round int)) (out [][]Decision) {
	t.Helper()
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	config, err := s.Config.file()
	if err != nil {
		t.Fatal(err)
	}
	kept := newKeeper(ctx, s)
	own, err := startOurs(ctx, config, s, split, kept)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := own.end(); err != nil {
			t.Error(err)
		}
		if err := kept.end(); err != nil {
			t.Error(err)
		}
	}()
	api := newAPIServer()
	for i, r := range s.Rounds {
		for _, f := range before {
			f(own, i)
		}
		decisions, err := own.step(ctx, api.round(r))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range decisions {
			if pod := api.podNamed(d.Pod); pod != nil && d.Node != "" {
				api.place(pod, d.Node, nil)
			}
		}
		out = append(out, decisions)
	}
	return out
}

// groupScenarios are the seeds' scenarios of pod groups, without claims: decideAll has no API server that binds them. Nobody preempts in
// them: when pods are tried again that gain by an eviction goes by who is in the batch, for single pods, too.
func groupScenarios(seeds uint64, f func(seed uint64, s *Scenario)) {
	for seed := uint64(1); seed <= seeds; seed++ {
		s := Random(seed, 30, []Family{Groups, Gates, Spread, Affinity})
		for _, r := range s.Rounds {
			for _, e := range r {
				if p, ok := e.Object.(*v1.Pod); ok {
					p.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
				}
			}
		}
		f(seed, s)
	}
}

// told are decisions without what need not be equal: their numbers.
func told(rounds [][]Decision, keep func(*Decision) bool) (out []string) {
	for i, decisions := range rounds {
		for _, d := range decisions {
			if keep(&d) {
				out = append(out, fmt.Sprintf("round %d: %s %s to %q of %d, score %d, held for %q in %q: %s", i, d.PodGroup, d.Pod, d.Node,
					d.Feasible, d.Score, d.Held, d.Domain, d.Message))
			}
		}
	}
	return out
}

func everything(*Decision) bool { return true }

// differ fails where two lists are not the same.
func differ(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("%s: decision %d:\n got %s\nwant %s", what, i, g, w)
			return
		}
	}
}

// given are the nodes that are given, without the pods' names.
func given(rounds [][]Decision) (out []string) {
	for i, decisions := range rounds {
		for _, d := range decisions {
			if d.Node != "" {
				out = append(out, fmt.Sprintf("round %d: %q of %d, score %d, in %q", i, d.Node, d.Feasible, d.Score, d.Domain))
			}
		}
	}
	return out
}

// Shards change nothing, whatever the size of batches. That size changes nothing in the first round. Later it may change how often pods are
// tried in vain, and so who comes first of pods that are alike, and of no pod group, too:
//
//   - The terms of all pods of a batch are known before its first pod is decided. So the size has a say in whether pods that wait are told
//     apart by the terms of others.
//   - An event that makes room has one pod tried for all that nothing tells apart, and more of them where something does. Those beyond
//     the room are refused as the first was.
//   - A pod that was tried in vain goes behind those of its priority.
//
// It has no say in where a pod goes at its turn, nor may a pod wait that fits. So the same nodes are given, in the same order, also once
// all have been tried again that wait, whatever they wait for.
func TestHowNodesAreSplitChangesNoGang(t *testing.T) {
	const flush = 7 // rounds of a minute
	groupScenarios(120, func(seed uint64, s *Scenario) {
		s.Rounds = append(s.Rounds, make([]Round, flush)...)
		var first [][]Decision
		for i, batch := range []int{512, 1, 7, 64} {
			all := decideAll(t, s, Split{Shards: 1, Batch: batch})
			if seed <= 40 {
				split := Split{Shards: []int{3, 2, 5, 16}[i], Batch: batch}
				differ(t, fmt.Sprintf("seed %d, %+v", seed, split), told(decideAll(t, s, split), everything), told(all, everything))
			}
			if i == 0 {
				first = all
			}
			differ(t, fmt.Sprintf("seed %d, first round in batches of %d", seed, batch), told(all[:1], everything), told(first[:1], everything))
			differ(t, fmt.Sprintf("seed %d, nodes in batches of %d", seed, batch), given(all), given(first))
		}
	})
}

// startWorker starts a worker on loopback, which is killed when its context ends.
func startWorker(ctx context.Context, t *testing.T, id string) fanout.Member {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(worker.Config{Cluster: "conformance", ID: id, Address: l.Addr().String(), Cores: 1})
	go func() { _ = w.Run(ctx, worker.RunConfig{Listener: l}) }() // how it ends is not what is tested
	m := w.Member()
	return fanout.Member{ID: m.Id, Address: m.Address, Cores: m.Cores, Version: m.Version}
}

// Workers answer, and one of them dies while pods are decided, now sooner and now later.
func TestAWorkerThatDiesChangesNoGang(t *testing.T) {
	groupScenarios(24, func(seed uint64, s *Scenario) {
		split := Split{Shards: 4, Batch: 16}
		want := told(decideAll(t, s, split), everything)
		var stop []context.CancelFunc
		workers := func(own *ours, round int) {
			if round == 0 {
				var members []fanout.Member
				for i := range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					members, stop = append(members, startWorker(ctx, t, fmt.Sprint(i))), append(stop, cancel)
				}
				own.scheduler.SetMembers(members)
			}
			if round < 2 {
				time.AfterFunc(time.Duration(seed%8)*time.Millisecond, stop[round])
			}
		}
		differ(t, fmt.Sprintf("seed %d", seed), told(decideAll(t, s, split, workers), everything), want)
		for _, f := range stop {
			f()
		}
	})
}

// tooLarge is a gang of which no member but one fits anywhere, and that one is held back; priority says when it is tried.
func tooLarge(priority int32) (out Round) {
	out = Round{set(build.Gang("too-large", 2).Obj())}
	for i, cpu := range []string{"10m", "1P"} {
		p := build.Pod(fmt.Sprintf("too-large-%d", i)).Member("too-large").CPU(cpu).Priority(priority).Obj()
		never := v1.PreemptNever
		p.Spec.PreemptionPolicy = &never
		out = append(out, set(p))
	}
	return out
}

// counts tells whether the default profile has GangScheduling, without which the member that fits is placed.
func counts(s *Scenario) bool {
	if s.Config == nil || s.Config.Profiles[0].Plugins == nil || len(s.Config.Profiles[0].Plugins.MultiPoint.Disabled) == 0 {
		return true
	}
	list := s.Config.Profiles[0].Plugins.MultiPoint.Enabled
	return slices.ContainsFunc(list, func(p configv1.Plugin) bool { return p.Name == names.GangScheduling })
}

func TestAGangThatFailsChangesNoOtherDecision(t *testing.T) {
	failed := 0
	groupScenarios(60, func(seed uint64, s *Scenario) {
		if !counts(s) {
			return
		}
		others := func(d *Decision) bool {
			if d.PodGroup != "default/too-large" {
				return true
			}
			if failed++; d.Node != "" {
				t.Fatalf("seed %d: %s is placed on %s", seed, d.Pod, d.Node)
			}
			return false
		}
		want := told(decideAll(t, s, SplitOf(seed)), others)
		with := s.clone()
		i := int(seed) % len(with.Rounds)
		with.Rounds[i] = append(slices.Clone(with.Rounds[i]), tooLarge([]int32{-1_000_000, 0, 1_000_000}[seed%3])...)
		differ(t, fmt.Sprintf("seed %d", seed), told(decideAll(t, with, SplitOf(seed)), others), want)
	})
	if failed < 60 {
		t.Errorf("the gang was tried %d times, want 60 or more", failed)
	}
}

// lone is a cluster of nodes of several sizes with some pods, and a gang of one class.
func lone(seed uint64, members int, group *schedulingv1alpha2.PodGroup) *Scenario {
	r := Round{}
	for i := range 6 {
		r = append(r, set(build.Node(fmt.Sprintf("n%d", i)).CPU(fmt.Sprint(1+(seed*7+uint64(i)*5)%4)).Memory("64Gi").Pods("20").Obj()))
	}
	for i := range 4 {
		r = append(r, set(build.Pod(fmt.Sprintf("there-%d", i)).Node(fmt.Sprintf("n%d", (seed+uint64(i)*3)%6)).CPU("600m").Obj()))
	}
	r = append(r, set(group))
	for i := range members {
		r = append(r, set(build.Pod(fmt.Sprintf("member-%d", i)).Member(group.Name).CPU("700m").Obj()))
	}
	return &Scenario{PodGroups: &PodGroups{}, Rounds: []Round{r}}
}

// placed are the nodes of those that were placed, by pod.
func placed(rounds [][]Decision) map[string]string {
	out := map[string]string{}
	for _, decisions := range rounds {
		for _, d := range decisions {
			if d.Node != "" {
				out[d.Pod] = d.Node
			}
		}
	}
	return out
}

func TestALargerMinCountStartsNoMore(t *testing.T) {
	for seed := range uint64(20) {
		before, started := 1, 0
		for least := int32(1); least <= 24; least++ {
			n := len(placed(decideAll(t, lone(seed, 24, build.Gang("g", least).Obj()), SplitOf(seed))))
			if n > 0 {
				started++
			}
			if n > 0 && before == 0 {
				t.Errorf("seed %d: with minCount %d %d members are placed, with one less nobody is", seed, least, n)
			}
			before = n
		}
		if started == 0 || started == 24 {
			t.Errorf("seed %d: the gang starts with %d of 24 minCounts, want some", seed, started)
		}
	}
}

func TestFewerOtherPodsPlaceNoFewerMembers(t *testing.T) {
	for seed := range uint64(40) {
		s := lone(seed, 24, build.PodGroup("g").Obj())
		want := len(placed(decideAll(t, s, SplitOf(seed))))
		for gone := range 4 {
			fewer := s.clone()
			name := fmt.Sprintf("there-%d", gone)
			fewer.Rounds[0] = slices.DeleteFunc(fewer.Rounds[0], func(e Event) bool { return e.Object.GetName() == name })
			if got := len(placed(decideAll(t, fewer, SplitOf(seed)))); got < want {
				t.Errorf("seed %d without %s: got %d members placed, want %d or more", seed, name, got, want)
			}
		}
	}
}

func TestEqualMembersMayComeInAnyOrder(t *testing.T) {
	for seed := range uint64(40) {
		s := lone(seed, 8, build.Gang("g", 4).Obj())
		want := slices.Sorted(maps.Values(placed(decideAll(t, s, SplitOf(seed)))))
		turned := s.clone()
		slices.Reverse(turned.Rounds[0][len(turned.Rounds[0])-8:])
		if got := slices.Sorted(maps.Values(placed(decideAll(t, turned, SplitOf(seed))))); !slices.Equal(got, want) {
			t.Errorf("seed %d: got nodes %v, want %v", seed, got, want)
		}
	}
}

func TestNodesThatNoMemberCanUseChangeNothing(t *testing.T) {
	for seed := range uint64(40) {
		s := lone(seed, 8, build.Gang("g", 4).Obj())
		want := placed(decideAll(t, s, SplitOf(seed)))
		more := s.clone()
		var useless Round
		for i := range 5 {
			useless = append(useless, set(build.Node(fmt.Sprintf("useless-%d", i)).CPU("64").Memory("64Gi").Unschedulable().Obj()))
		}
		more.Rounds[0] = append(useless, more.Rounds[0]...)
		if got := placed(decideAll(t, more, SplitOf(seed))); !maps.Equal(got, want) {
			t.Errorf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}
