package groups

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// What is kept of whole pod groups is what a walk over all of them finds, and each change of it is told.
func TestWholesAreThoseOfAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		g, version, before := New(All()), uint64(0), map[string]string{}
		for range 200 {
			name := fmt.Sprint("g", r.IntN(3))
			pod := build.Pod(fmt.Sprint("p", r.IntN(8)))
			pod.UID(pod.Obj().Name).Member(name)
			switch r.IntN(8) {
			case 0:
				b := build.PodGroup(name).Priority(int32(r.IntN(3)))
				if r.IntN(3) > 0 {
					b.Whole()
				}
				g.Set(b.Obj())
			case 1:
				g.Remove(types.NamespacedName{Namespace: "default", Name: name})
			case 2, 3:
				g.PodSet(pod.Node(fmt.Sprint("n", r.IntN(3))).Obj(), true)
			case 4:
				g.PodSet(pod.Obj(), true)
			case 5:
				g.Assumed(pod.Obj(), fmt.Sprint("n", r.IntN(3)))
			case 6:
				g.Forgotten(pod.Obj())
			case 7:
				g.PodGone(pod.Obj())
			}
			nodes, priorities, now := map[string]int{}, map[int32]int{}, map[string]string{}
			var wholes []string
			for x := range g.All() {
				if !x.Whole() || x.Scheduled() == 0 {
					continue
				}
				wholes = append(wholes, x.name.Name)
				priorities[x.spec.Priority]++
				text := fmt.Sprint(x.spec.Priority)
				for _, m := range x.Members() {
					if m.Node != "" {
						text += " " + m.Pod.Name + " on " + m.Node
					}
				}
				now[x.name.Name] = text
				for node := range x.EachNode() {
					nodes[node]++
				}
			}
			if !maps.Equal(nodes, g.wholes.on) || !maps.Equal(priorities, g.wholes.priorities) {
				t.Fatalf("got nodes %v and priorities %v, want %v and %v", g.wholes.on, g.wholes.priorities, nodes, priorities)
			}
			var got []string
			for x := range g.Wholes() {
				got = append(got, x.name.Name)
			}
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(wholes))) {
				t.Fatalf("got %v, want %v", got, wholes)
			}
			changes, ok := g.WholesSince(version)
			told := map[string]bool{}
			for _, c := range changes {
				told[c.Group.name.Name] = true
			}
			for _, x := range []string{"g0", "g1", "g2"} {
				if !ok || now[x] != before[x] && !told[x] {
					t.Fatalf("%s was %q and is %q: got changes %v, %v", x, before[x], now[x], told, ok)
				}
			}
			version, before = g.WholeVersion(), now
		}
	})
}

// Pods that are told to leave are so until they are gone, or nobody tells them any more.
func TestPodsOfWholeGroupsAreToldToLeave(t *testing.T) {
	g := New(All())
	g.Set(build.PodGroup("w").Whole().Obj())
	pods := []*v1.Pod{
		build.Pod("a").UID("a").Member("w").Node("n").Obj(), build.Pod("b").UID("b").Member("w").Node("n").Obj(),
		build.Pod("single").UID("single").Node("n").Obj(),
	}
	for _, p := range pods {
		g.PodSet(p, false)
	}
	leaving := func() (names []string) {
		for _, m := range g.Of(pods[0]).Members() {
			if m.Leaving {
				names = append(names, m.Pod.Name)
			}
		}
		return names
	}
	version := g.WholeVersion()
	g.Leave(pods, true)
	if changes, _ := g.WholesSince(version); len(changes) != 1 || changes[0].Minor || !slices.Equal(leaving(), []string{"a", "b"}) {
		t.Errorf("got changes %v and %v leaving, want one, and both", changes, leaving())
	}
	g.PodSet(build.Pod("a").UID("a").Member("w").Node("n").Terminating().Obj(), false)
	if g.Leave(pods, false); !slices.Equal(leaving(), []string{"a"}) {
		t.Errorf("got %v leaving, want the one that terminates", leaving())
	}
	for range 3 * maxWholeChanges {
		g.Recounted(pods[1])
	}
	if _, ok := g.WholesSince(version); ok {
		t.Error("got all changes, want too many")
	}
	if changes, ok := g.WholesSince(g.WholeVersion() - 2); !ok || len(changes) != 2 {
		t.Errorf("got %v, %v, want the last two", changes, ok)
	}
}
