package conformance

import (
	"fmt"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func hold(t *testing.T, s *Scenario) *Result {
	t.Helper()
	r, err := Run(klog.NewContext(t.Context(), klog.Logger{}), s, Split{Shards: 3, Batch: 7})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Differences {
		t.Errorf("%s", d)
	}
	return r
}

func round(objects ...oracle.Object) (r Round) {
	for _, obj := range objects {
		r = append(r, set(obj))
	}
	return r
}

// A node that alone has an image, and reports another size for it.
func TestImageThatChangesItsSize(t *testing.T) {
	node := func(name string, size int64) *v1.Node {
		b := build.Node(name).CPU("4").Memory("8Gi")
		if size > 0 {
			b.Image(size, "x:latest")
		}
		return b.Obj()
	}
	r := hold(t, &Scenario{Rounds: []Round{
		round(node("a", 500<<20), node("b", 0)),
		round(node("a", 1000<<20)),
		round(build.Pod("p").Image("x").Obj()),
	}})
	if r.Decisions != 1 {
		t.Errorf("got %d decisions, want 1", r.Decisions)
	}
}

// A profile's added affinity, for a pod whose own affinity matches every node and whose
// constraint honours it.
func TestAddedAffinityBesideSpread(t *testing.T) {
	config := newConfiguration()
	config.Profiles = []configv1.KubeSchedulerProfile{{
		SchedulerName: ptr.To(v1.DefaultSchedulerName),
		PluginConfig: []configv1.PluginConfig{{Name: "NodeAffinity", Args: runtime.RawExtension{Raw: []byte(
			`{"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "ours", "operator": "Exists"}]}]}}}`)}}},
	}}
	pod := build.Pod("p").Required(v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: v1.NodeSelectorOpNotIn, Values: []string{""}},
	}}).Obj()
	pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.ScheduleAnyway}}
	r := hold(t, &Scenario{Config: config, Rounds: []Round{
		round(build.Node("a").CPU("4").Obj(), build.Node("b").CPU("4").Label("ours", "").Obj(), pod),
	}})
	if r.Decisions != 1 {
		t.Errorf("got %d decisions, want 1", r.Decisions)
	}
}

// Random scenarios: of every family that our scheduler evaluates, with batches and shards
// of several sizes.
func TestRandomScenarios(t *testing.T) {
	const parts, seeds = 2, 500
	var decisions atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for part := range uint64(parts) {
			t.Run(fmt.Sprintf("%d of %d", part+1, parts), func(t *testing.T) {
				t.Parallel()
				for seed := part + 1; seed <= seeds && !t.Failed(); seed += parts {
					s := Random(seed, 40, Evaluated())
					r, err := Run(klog.NewContext(t.Context(), klog.Logger{}), s, SplitOf(seed))
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					for _, d := range r.Differences {
						t.Errorf("seed %d: %s", seed, d)
					}
					decisions.Add(int64(r.Decisions))
				}
			})
		}
	})
	const enough = 20_000
	if n := decisions.Load(); n < enough && !t.Failed() {
		t.Errorf("got %d decisions, want %d or more", n, enough)
	}
	t.Logf("%d decisions", decisions.Load())
}

// Pods that carry terms of many topology keys, among pods of several priorities, some of them nominated.
func TestRandomCarriers(t *testing.T) {
	const seeds = 150
	var all Result
	for seed := uint64(1); seed <= seeds && !t.Failed(); seed++ {
		s := Random(seed, 40, []Family{Carriers, Preempting, Nominated, Defaults})
		r, err := Run(klog.NewContext(t.Context(), klog.Logger{}), s, SplitOf(seed))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, d := range r.Differences {
			t.Errorf("seed %d: %s", seed, d)
		}
		all.Add(r)
	}
	if all.Pinned < 500 || all.Preemptions < 100 {
		t.Errorf("%d classes with pinned sums, %d preemptions, want 500 and 100 or more", all.Pinned, all.Preemptions)
	}
	t.Logf("%s, %d classes with pinned sums", &all, all.Pinned)
}

// Pods with claims of devices.
func TestRandomDevices(t *testing.T) { randomDevices(t, Devices, 100, 3000, 700) }

// Pods with claims, on nodes that leave and come while pools of several nodes take the names of theirs.
func TestRandomPools(t *testing.T) { randomDevices(t, Pools, 150, 4000, 500) }

func randomDevices(t *testing.T, family Family, seeds uint64, enough, claims int) {
	var all Result
	for seed := uint64(1); seed <= seeds && !t.Failed(); seed++ {
		r, err := Run(klog.NewContext(t.Context(), klog.Logger{}), Random(seed, 30, []Family{family}), SplitOf(seed))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, d := range r.Differences {
			t.Errorf("seed %d: %s", seed, d)
		}
		all.Add(r)
	}
	if all.Exhausted*100 > all.Decisions {
		t.Errorf("%d of %d decisions end at the bound of a search, want one of a hundred at the most", all.Exhausted, all.Decisions)
	}
	if !t.Failed() && (all.Decisions < enough || all.Claims < claims) {
		t.Errorf("got %v with %d claims, want %d decisions and %d claims or more", &all, all.Claims, enough, claims)
	}
	t.Logf("%v, %d claims", &all, all.Claims)
}

// The workloads of kube-scheduler's own benchmark, small.
func TestShapes(t *testing.T) {
	for _, shape := range Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			r := hold(t, shape.Scenario(24))
			if placed := r.Decisions - r.Refusals; placed < 12 {
				t.Errorf("%d of %d pods placed, want a dozen or more", placed, r.Decisions)
			}
		})
	}
}
