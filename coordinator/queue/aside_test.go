package queue

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Pods that are set aside are popped by what they wait for, in the queue's order, behind none that has come since; what
// happens to them meanwhile happens as to all that are active.
func TestPodsThatAreSetAside(t *testing.T) {
	now := time.Unix(1e9, 0)
	q := newOf(Config{Now: func() time.Time { return now }})
	for i := range 5 {
		q.Add(build.Pod(fmt.Sprint(i)).UID(fmt.Sprint(i)).Priority(int32(i)).Obj())
	}
	for i, p := range q.PopBatch(9, nil) {
		q.SetAside(p, ForCounters, uint64(1+i%2)) // 4, 2 and 0 for 1, the others for 2
	}
	names := func(pods []*Pod) (out []string) {
		for _, p := range pods {
			out = append(out, p.Obj.Name)
		}
		return out
	}
	q.Add(build.Pod("plain").UID("plain").Obj())
	if got := names(q.PopBatch(9, nil)); !slices.Equal(got, []string{"plain"}) || q.Len(Active) != 5 {
		t.Errorf("got %q, and %d active, want the plain one and 5", got, q.Len(Active))
	}
	q.Delete("2")
	if got := q.AsideFor(ForCounters); got != 1 {
		t.Errorf("the first waits for %d, want 1", got)
	}
	pods := q.PopAside(ForCounters, 1, 9, nil)
	if got := names(pods); !slices.Equal(got, []string{"4", "0"}) {
		t.Errorf("popped %q, want 4 and 0", got)
	}
	q.Add(build.Pod("important").UID("important").Priority(99).Obj())
	for _, p := range pods {
		if !q.Turn(p) || p.Attempts != 1 {
			t.Errorf("pod %s loses its turn in attempt %d to one that has come since", p.Obj.Name, p.Attempts)
		}
	}
	q.Unschedulable(pods[0], []string{"NodeResourcesFit"}, "no")
	q.GiveBack(pods[1])
	if got := names(q.PopBatch(9, nil)); !slices.Equal(got, []string{"important", "0"}) {
		t.Errorf("popped %q, want those that are not set aside", got)
	}
	if got := names(q.PopAside(ForCounters, 2, 1, nil)); !slices.Equal(got, []string{"3"}) {
		t.Errorf("popped %q, want the first of two", got)
	}
}

// Namespaces take turns among pods that are set aside, however many one of them has, and of what priority.
func TestNamespacesTakeTurnsAside(t *testing.T) {
	q := newOf(Config{})
	for i := range 5 {
		name := fmt.Sprint("loud-", i)
		q.Add(build.Pod(name).Namespace("loud").UID(name).Priority(9).Obj())
	}
	for i := range 2 {
		name := fmt.Sprint("calm-", i)
		q.Add(build.Pod(name).Namespace("calm").UID(name).Obj())
	}
	for i, p := range q.PopBatch(9, nil) {
		q.SetAside(p, ForCounters, uint64(1+i))
	}
	var got []string
	for q.Aside(ForCounters) > 0 {
		for _, p := range q.PopAside(ForCounters, q.AsideFor(ForCounters), 9, nil) {
			got = append(got, p.Obj.Name)
		}
	}
	if want := []string{"loud-0", "calm-0", "loud-1", "calm-1", "loud-2", "loud-3", "loud-4"}; !slices.Equal(got, want) {
		t.Errorf("popped %q, want %q", got, want)
	}
}

// However many pods are set aside, few are looked at to pop some.
func TestFewPodsAreLookedAtAside(t *testing.T) {
	looks := 0
	q := newOf(Config{OutOfTree: &OutOfTree{Less: func(a, b *Pod) bool { looks++; return before(a, b) }}})
	const pods = 10000
	for i := range pods {
		name := fmt.Sprint(i)
		q.Add(build.Pod(name).Namespace(fmt.Sprint(i % 100)).UID(name).Obj())
	}
	for i, p := range q.PopBatch(pods, nil) {
		q.SetAside(p, ForCounters, uint64(1+i%500))
	}
	for i := range 100 {
		looks = 0
		if n := len(q.PopAside(ForCounters, q.AsideFor(ForCounters), 2, nil)); n != 2 || looks > 400 {
			t.Fatalf("turn %d: got %d pods after %d looks, want 2 after 400 at the most", i, n, looks)
		}
	}
}

// TestAsideAgainstModel holds the pods that are set aside against a walk over all of them.
func TestAsideAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		q, turn, turns := newOf(Config{Now: func() time.Time { return now }}), uint64(0), map[string]uint64{}
		list := func() (out []*Pod) {
			for _, p := range q.pods {
				if p.place == Active && p.Aside != 0 {
					out = append(out, p)
				}
			}
			slices.SortFunc(out, func(a, b *Pod) int {
				if before(a, b) {
					return -1
				}
				return 1
			})
			return out
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			uid := types.UID(fmt.Sprint(rapid.IntRange(0, 15).Draw(t, "pod")))
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				name := string(uid)
				q.Update(build.Pod(name).Namespace(fmt.Sprint("ns", len(name), name[0]%3)).UID(name).Priority(int32(rapid.IntRange(0, 2).Draw(t, "priority"))).Obj())
			case 2:
				for _, p := range q.PopBatch(9, nil) {
					if _, known := turns[p.Obj.Namespace]; !known {
						turns[p.Obj.Namespace] = turn
					}
					q.SetAside(p, ForCounters, uint64(rapid.IntRange(1, 4).Draw(t, "what")))
				}
			case 3:
				q.Delete(uid)
			default:
				what, n := uint64(rapid.IntRange(1, 4).Draw(t, "what")), rapid.IntRange(0, 4).Draw(t, "n")
				if rapid.Bool().Draw(t, "next") {
					what = q.AsideFor(ForCounters)
				}
				want := slices.DeleteFunc(list(), func(p *Pod) bool { return p.Aside != what })
				turn++
				want = want[:min(n, len(want))]
				got := q.PopAside(ForCounters, what, n, nil)
				if !slices.Equal(got, want) {
					t.Fatalf("popped %v, want %v", got, want)
				}
				for _, p := range got {
					turns[p.Obj.Namespace] = turn
					if rapid.Bool().Draw(t, "done") {
						q.Done(p.Obj.UID)
					} else {
						q.GiveBack(p)
					}
				}
			}
			next, want := uint64(0), list()
			if len(want) > 0 {
				next = slices.MinFunc(want, func(a, b *Pod) int { return cmp.Compare(turns[a.Obj.Namespace], turns[b.Obj.Namespace]) }).Aside
			}
			if got := q.AsideFor(ForCounters); got != next || q.Aside(ForCounters) != len(want) {
				t.Fatalf("the next of %d waits for %d, want %d of %d", q.Aside(ForCounters), got, next, len(want))
			}
		}
	})
}

// With a pod group that is set aside, mates are that are active and were not popped with it: nothing of it is popped before its turn.
func TestMatesAreSetAsideTogether(t *testing.T) {
	x := newGangs(t)
	x.set("g", 1)
	for i := range groups.MaxMembers + 3 {
		p := member(fmt.Sprint("g-", i), "g").Obj()
		x.states.PodSet(p, true)
		x.Add(p)
	}
	pods := x.PopBatch(1, nil)
	g := pods[0].Group
	for _, p := range pods {
		x.SetAside(p, ForGangs, 7)
	}
	if len(pods) != groups.MaxMembers || x.Aside(ForGangs) != groups.MaxMembers {
		t.Fatalf("%d pods are popped, and %d set aside, want %d", len(pods), x.Aside(ForGangs), groups.MaxMembers)
	}
	x.SetMatesAside(g, ForGangs, 7)
	if pods = x.PopBatch(9, nil); len(pods) != 0 || x.Aside(ForGangs) != groups.MaxMembers+3 {
		t.Errorf("%d pods are popped, and %d set aside, want none and all", len(pods), x.Aside(ForGangs))
	}
	if pods = x.PopAside(ForGangs, x.AsideFor(ForGangs), 1, nil); len(pods) != groups.MaxMembers {
		t.Errorf("%d pods are popped in its turn, want %d", len(pods), groups.MaxMembers)
	}
}
