package queue

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// gangMachine drives a queue with pod groups and pods that are of none. Beside the queue's own invariants it holds what makes a pod
// group one entry.
type gangMachine struct {
	*gangs
	flying [][]*Pod // popped together
}

func TestPodGroupsAreOneEntry(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := &gangMachine{gangs: newGangs(t)}
		rt.Repeat(map[string]func(*rapid.T){
			"": x.check, "set": x.drawGroup, "add": x.addPod, "delete": x.deletePod, "pop": x.popSome, "end": x.endOne, "time": x.wait,
			"event": x.event, "activate": x.activate, "update": x.update, "favour": x.favour,
		})
		x.leaveNobody(rt)
	})
}

func (x *gangMachine) check(t *rapid.T) {
	check(t, x.Queue)
	members := 0
	for name, g := range x.groups {
		stalled, tried := 0, 0
		for i, p := range g.pods {
			if p.Group != g || p.mate != i || x.pods[p.Obj.UID] != p {
				t.Fatalf("pod group %s: pod %s does not know its place", name, p.Obj.UID)
			}
			if p.stalled {
				stalled++
			}
			if p.place != Unschedulable && p.place != Gated {
				tried++
			}
			if p.place == Backoff {
				t.Fatalf("member %s may be popped before its time", p.Obj.UID)
			}
		}
		if stalled != g.stalled || tried != g.tried || len(g.pods) == 0 {
			t.Fatalf("pod group %s: %d of %d are stalled and %d are tried, want %d and %d", name, g.stalled, len(g.pods), g.tried, stalled, tried)
		}
		if state := x.states.Get(name); stalled > 0 && state.Gate() == "" {
			t.Fatalf("pod group %s: %d are held back by nothing", name, stalled)
		}
		members += len(g.pods)
	}
	if !slices.IsSortedFunc(x.deadlines, byTime) {
		t.Fatalf("deadlines are out of order")
	}
	for _, d := range x.deadlines {
		if x.groups[d.group.name] != d.group || !d.group.due.Equal(d.at) {
			t.Fatalf("pod group %s has a deadline that is not its own", d.group.name)
		}
	}
	for _, p := range x.pods {
		if p.Group != nil {
			members--
		}
	}
	if members != 0 {
		t.Fatalf("pod groups have %d pods too many", members)
	}
}

func (x *gangMachine) drawGroup(t *rapid.T) {
	name := rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group")
	if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
		x.states.Remove(types.NamespacedName{Namespace: "default", Name: name})
		return
	}
	obj := build.Gang(name, int32(rapid.IntRange(1, 4).Draw(t, "min")))
	if rapid.IntRange(0, 2).Draw(t, "impatient") == 0 {
		obj.Annotation(groups.GiveUpAfter, "20s").Annotation(groups.RetryAfter, "30s")
	}
	x.states.Set(obj.Obj())
	x.Regroup(types.NamespacedName{Namespace: "default", Name: name}, rapid.Bool().Draw(t, "changed"))
}

func (x *gangMachine) draw(t *rapid.T) (b *build.PodBuilder) {
	i := rapid.IntRange(0, 11).Draw(t, "pod")
	b = build.Pod(fmt.Sprint("p", i))
	if group := []string{"", "g", "h"}[i%3]; group != "" {
		b.Member(group)
	}
	if i == 4 && rapid.Bool().Draw(t, "gate") {
		b.Gate("own")
	}
	return b.Priority(int32(i % 2))
}

func (x *gangMachine) addPod(t *rapid.T) {
	p := x.draw(t).Obj()
	x.states.PodSet(p, true)
	x.Update(p)
}

func (x *gangMachine) update(t *rapid.T) {
	p := x.draw(t).Label("a", rapid.SampledFrom([]string{"1", "2"}).Draw(t, "label")).Obj()
	if x.Has(p.UID) {
		x.Update(p)
	}
}

func (x *gangMachine) deletePod(t *rapid.T) {
	p := x.draw(t).Obj()
	x.states.PodGone(p)
	x.Delete(p.UID)
}

func (x *gangMachine) activate(t *rapid.T) { x.Activate(x.draw(t).Obj().UID) }

func (x *gangMachine) popSome(t *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(t, "n")
	pods := x.PopBatch(n, nil)
	for i := 0; i < len(pods); {
		g, to := pods[i].Group, i+1
		for g != nil && to < len(pods) && pods[to].Group == g {
			to++
		}
		together := pods[i:to]
		if slices.ContainsFunc(pods[to:], func(p *Pod) bool { return g != nil && p.Group == g }) {
			t.Fatalf("pod group %s is in two parts", g.name)
		}
		if !slices.IsSortedFunc(together, inGang) {
			t.Fatalf("members are out of order")
		}
		if g != nil {
			for _, p := range g.pods {
				if p.place != InFlight && p.place != Gated {
					t.Fatalf("member %s is left behind in %s", p.Obj.UID, p.place)
				}
			}
		}
		x.flying = append(x.flying, slices.Clone(together))
		i = to
	}
}

func (x *gangMachine) endOne(t *rapid.T) {
	if len(x.flying) == 0 {
		return
	}
	i := rapid.IntRange(0, len(x.flying)-1).Draw(t, "flight")
	pods := x.flying[i]
	x.flying = slices.Delete(x.flying, i, i+1)
	x.Turn(pods[0])
	x.end(pods, rapid.IntRange(0, 4).Draw(t, "end"), rapid.IntRange(0, len(pods)-1).Draw(t, "fit"))
}

func (x *gangMachine) end(pods []*Pod, how, fit int) {
	for i, p := range pods {
		switch {
		case how == 0:
			if p.place == InFlight && !p.deleted {
				x.states.Assumed(p.Obj, "n")
			}
			x.Done(p.Obj.UID)
		case how == 1:
			x.Queue.Error(p, errors.New("boom"))
		case how == 2:
			x.GiveBack(p)
		default:
			p.ClassID = uint64(1 + i%(5-how)) // 4: all are of one class
			x.Unschedulable(p, []string{"room", "own"}[:1+i%2], "no")
		}
	}
	if how > 2 {
		x.GroupFailed(pods[0].Group, (how-3)*len(pods), fit)
	}
}

func (x *gangMachine) wait(t *rapid.T) {
	x.now = x.now.Add(time.Duration(rapid.SampledFrom([]int{300, 1000, 2500, 11000, 301000}).Draw(t, "ms")) * time.Millisecond)
	x.Flush()
}

func (x *gangMachine) event(t *rapid.T) {
	node := rapid.SampledFrom([]string{"n", "m"}).Draw(t, "node")
	x.room[node] = int64(rapid.IntRange(0, 3).Draw(t, "room"))
	x.Move(AssignedPodDeleted(build.Pod("gone").Node(node).Obj()))
}

// leaveNobody: whatever has happened, each pod that no gate holds is tried within the time for which pods wait for events at the most.
func (x *gangMachine) leaveNobody(t *rapid.T) {
	for _, pods := range x.flying {
		x.end(pods, 4, 0)
	}
	x.now = x.now.Add(DefaultMaxUnschedulable + time.Minute)
	x.PopBatch(1000, nil)
	check(t, x.Queue)
	for _, p := range x.pods {
		if p.place != InFlight && p.place != Gated {
			t.Fatalf("pod %s stays in %s", p.Obj.UID, p.place)
		}
	}
}

func (x *gangMachine) favour(t *rapid.T) {
	x.Favour(x.GroupOf(name(rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group"))), rapid.Bool().Draw(t, "on"))
}
