package groups

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func pod(name, group, node string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	p.Spec.NodeName = node
	if group != "" {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}
	return p
}

func gang(name string, minCount int32) *v1alpha2.PodGroup {
	return &v1alpha2.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1alpha2.PodGroupSpec{
			SchedulingPolicy: v1alpha2.PodGroupSchedulingPolicy{Gang: &v1alpha2.GangSchedulingPolicy{MinCount: minCount}},
		},
	}
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

func TestAPodGroupIsReadAsASpec(t *testing.T) {
	obj := gang("g", 4)
	whole, priority := v1alpha2.DisruptionModePodGroup, int32(7)
	obj.Generation = 3
	obj.Spec.DisruptionMode, obj.Spec.Priority = &whole, &priority
	obj.Spec.SchedulingConstraints = &v1alpha2.PodGroupSchedulingConstraints{Topology: []v1alpha2.TopologyConstraint{{Key: "rack"}}}
	s, err := SpecOf(obj)
	if err != nil || s.Name != named("g") || s.UID != "uid-g" || s.Generation != 3 || s.Object != obj || !s.Gang || s.MinCount != 4 ||
		!s.Constrained || s.TopologyKey != "rack" || !s.Whole || s.Priority != 7 {
		t.Errorf("spec is %+v, %v", s, err)
	}
	s, err = SpecOf(&v1alpha2.PodGroup{Spec: v1alpha2.PodGroupSpec{SchedulingConstraints: &v1alpha2.PodGroupSchedulingConstraints{}}})
	if err != nil || s.Gang || s.MinCount != 0 || !s.Constrained || s.TopologyKey != "" || s.Whole || s.Priority != 0 {
		t.Errorf("spec of a basic PodGroup with empty constraints is %+v, %v", s, err)
	}
}

func TestMembersAreGatedUntilThereAreEnoughOfThem(t *testing.T) {
	g := New(All())
	g.PodSet(pod("a", "g", ""), true)
	x := g.Of(pod("a", "g", ""))
	if got, want := x.Gate(), `waiting for pods's pod group "g" to appear in scheduling queue`; got != want {
		t.Errorf("without the PodGroup, the gate says %q, want %q", got, want)
	}
	g.Set(gang("g", 2))
	if got, want := x.Gate(), "waiting for minCount pods from a gang to appear in scheduling queue"; got != want {
		t.Errorf("with one of two members, the gate says %q, want %q", got, want)
	}
	g.PodSet(pod("other", "g", ""), false) // another scheduler's
	if x.Existing() != 1 {
		t.Errorf("another scheduler's pod without a node is counted: %d", x.Existing())
	}
	g.PodSet(pod("other", "g", "n1"), false)
	if x.Gate() != "" || x.Existing() != 2 || x.Scheduled() != 1 || x.Need() != 1 {
		t.Errorf("with another scheduler's on a node: gate %q, %d members, %d scheduled, need %d", x.Gate(), x.Existing(), x.Scheduled(),
			x.Need())
	}
	g.PodGone(pod("other", "g", "n1"))
	if x.Gate() == "" {
		t.Error("a pod that has ended is counted")
	}
	g.Set(&v1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}})
	if x.Gate() != "" || x.Need() != 1 {
		t.Errorf("basic: gate %q, need %d", x.Gate(), x.Need())
	}
}

func TestAGangThatNeedsMoreThanATransactionTakesIsHeldBack(t *testing.T) {
	g := New(All())
	g.Set(gang("g", math.MaxInt32))
	if got, want := g.Get(named("g")).Gate(), "minCount is 2147483647, at most 8192 pods are scheduled together"; got != want {
		t.Errorf("the gate says %q, want %q", got, want)
	}
	g.Set(gang("g", MaxMembers+1))
	for i := range MaxMembers + 1 {
		g.PodSet(pod(fmt.Sprint("p", i), "g", ""), true)
	}
	x := g.Get(named("g"))
	if x.Gate() == "" {
		t.Errorf("with all of its members, it is not held back")
	}
	g.PodSet(pod("p0", "g", "n"), true)
	if got := x.Gate(); got != "" {
		t.Errorf("with %d needed, the gate says %q", x.Need(), got)
	}
}

func TestWithoutTheGateOfGangsMinCountIsNobodys(t *testing.T) {
	g := New(Gates{Workload: true})
	g.PodSet(pod("a", "g", ""), true)
	g.Set(gang("g", math.MaxInt32))
	if x := g.Get(named("g")); x.Gate() != "" || x.Need() != 1 {
		t.Errorf("gate %q, need %d", x.Gate(), x.Need())
	}
}

func TestAPodGroupThatIsMadeAgainHasTheMembersOfTheOldOne(t *testing.T) {
	g := New(All())
	g.Set(gang("g", 2))
	g.PodSet(pod("a", "g", "n"), true)
	g.Remove(named("g"))
	g.Set(gang("g", 3))
	x := g.Get(named("g"))
	if x.Existing() != 1 || x.Scheduled() != 1 || x.Need() != 2 {
		t.Errorf("%d members, %d scheduled, need %d", x.Existing(), x.Scheduled(), x.Need())
	}
	g.Remove(named("g"))
	g.PodGone(pod("a", "g", "n"))
	if g.Len() != 0 {
		t.Errorf("%d pod groups are left of which nothing is", g.Len())
	}
}

func TestABadAnnotationIsAnErrorOfThePodGroupUntilItIsMended(t *testing.T) {
	g, obj := New(All()), gang("g", 2)
	obj.Annotations = map[string]string{SliceSize: "many"}
	g.Set(obj)
	x := g.Get(named("g"))
	if x.Err() == nil || x.Spec() == nil || x.Spec().MinCount != 2 {
		t.Errorf("error %v, spec %+v", x.Err(), x.Spec())
	}
	g.Set(gang("g", 2))
	if x.Err() != nil {
		t.Errorf("mended: %v", x.Err())
	}
}

func TestWithTheGatesOffThereIsNothing(t *testing.T) {
	g, p := New(Gates{Gang: true}), pod("a", "g", "")
	if n := testing.AllocsPerRun(10, func() {
		g.PodSet(p, true)
		g.Assumed(p, "n")
		g.Forgotten(p)
		g.PodGone(p)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	g.Set(gang("g", 1))
	g.Remove(named("g"))
	for x := range g.All() {
		t.Errorf("there is %v", x)
	}
	if g.Of(p) != nil || g.Get(named("g")) != nil || g.Len() != 0 || g.Gates() != (Gates{}) {
		t.Error("there is something")
	}
}

// reference counts members by looking at all pods each time.
type reference struct {
	specs   map[string]int32
	pods    map[string]*v1.Pod
	ours    map[string]bool
	assumed map[string]string
}

func (r *reference) counts(group string) (existing, scheduled int, nodes []string) {
	all := map[string]bool{}
	for name, p := range r.pods {
		node := cmp.Or(p.Spec.NodeName, r.assumed[name])
		if *p.Spec.SchedulingGroup.PodGroupName != group || p.Spec.NodeName == "" && !r.ours[name] {
			continue
		}
		existing++
		if node != "" {
			scheduled++
			all[node] = true
		}
	}
	return existing, scheduled, slices.Sorted(maps.Keys(all))
}

func TestGroupsCountAsAReferenceThatLooksAtAllPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New(All())
		ref := &reference{specs: map[string]int32{}, pods: map[string]*v1.Pod{}, ours: map[string]bool{}, assumed: map[string]string{}}
		group := func() string { return rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group") }
		node := rapid.SampledFrom([]string{"n1", "n2", "n3"})
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				n := group()
				ref.specs[n] = rapid.Int32Range(1, 5).Draw(t, "min")
				g.Set(gang(n, ref.specs[n]))
			},
			"remove": func(t *rapid.T) { n := group(); delete(ref.specs, n); g.Remove(named(n)) },
			"pod": func(t *rapid.T) {
				i := rapid.IntRange(0, 7).Draw(t, "pod")
				name, in := fmt.Sprint("p", i), []string{"g", "h"}[i%2]
				old := ref.pods[name]
				p := pod(name, in, "")
				if old != nil && old.Spec.NodeName != "" {
					p.Spec.NodeName = old.Spec.NodeName
				} else if rapid.Bool().Draw(t, "bound") {
					p.Spec.NodeName = node.Draw(t, "node")
					delete(ref.assumed, name)
				}
				if old == nil {
					ref.ours[name] = rapid.Bool().Draw(t, "ours")
				}
				ref.pods[name] = p
				g.PodSet(p, ref.ours[name])
			},
			"gone": func(t *rapid.T) {
				name := fmt.Sprint("p", rapid.IntRange(0, 7).Draw(t, "pod"))
				if p := ref.pods[name]; p != nil {
					g.PodGone(p)
				}
				delete(ref.pods, name)
				delete(ref.assumed, name)
			},
			"assume": func(t *rapid.T) {
				name, on := fmt.Sprint("p", rapid.IntRange(0, 7).Draw(t, "pod")), node.Draw(t, "node")
				p := ref.pods[name]
				if p == nil {
					g.Assumed(pod(name, "g", ""), on)
				} else {
					g.Assumed(p, on)
				}
				if p != nil && p.Spec.NodeName == "" && ref.ours[name] && ref.assumed[name] == "" {
					ref.assumed[name] = on
				}
			},
			"forget": func(t *rapid.T) {
				name := fmt.Sprint("p", rapid.IntRange(0, 7).Draw(t, "pod"))
				if p := ref.pods[name]; p != nil {
					g.Forgotten(p)
				}
				delete(ref.assumed, name)
			},
			"": func(t *rapid.T) {
				there := 0
				for _, n := range []string{"g", "h"} {
					existing, scheduled, nodes := ref.counts(n)
					minCount, spec := ref.specs[n]
					x := g.Get(named(n))
					if (x != nil) != (spec || existing > 0) {
						t.Fatalf("%s: there is %v, want %d members, PodGroup %v", n, x, existing, spec)
					}
					if x == nil {
						continue
					}
					there++
					need := 1
					if spec {
						need = max(1, int(minCount)-scheduled)
					}
					if x.Existing() != existing || x.Scheduled() != scheduled || !slices.Equal(x.Nodes(), nodes) || x.Need() != need ||
						len(x.Members()) != existing {
						t.Fatalf("%s: %d members, %d scheduled on %v, need %d, want %d, %d, %v, %d", n, x.Existing(), x.Scheduled(), x.Nodes(),
							x.Need(), existing, scheduled, nodes, need)
					}
					if gated := !spec || existing < int(minCount); (x.Gate() != "") != gated {
						t.Fatalf("%s: gate %q, want gated %v", n, x.Gate(), gated)
					}
				}
				if g.Len() != there {
					t.Fatalf("%d pod groups, want %d", g.Len(), there)
				}
			},
		})
	})
}
