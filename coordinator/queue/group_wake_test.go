package queue

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// What wakes a pod group beside an event that makes room. Without it the pod group would wait for DefaultMaxUnschedulable.

// wakes wants that so many pods are popped once all backoffs are over.
func (x *gangs) wakes(want string) {
	x.Helper()
	x.now = x.now.Add(time.Minute)
	_, got := x.pop(1)
	x.wants(got, want)
}

func TestMembersAreTriedWithoutOneThatIsDeleted(t *testing.T) {
	x := newGangs(t)
	x.set("g", 2)
	for _, name := range []string{"large", "a", "b"} {
		x.add(member(name, "g").Obj())
	}
	pods, _ := x.pop(1)
	x.fail(pods, 0, 0)
	x.states.PodGone(pods[0].Obj)
	x.Delete(pods[0].Obj.UID)
	x.wakes("a b")
}

func TestMembersAreTriedWhereFewerOfThemHaveToFit(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 3)
	pods, _ := x.pop(1)
	x.fail(pods, 3, 2)
	x.states.PodSet(member("bound", "g").Node("n").Obj(), false) // by another scheduler
	x.Regroup(name("g"), false)
	check(t, x.Queue)
	x.wakes("g-0 g-1 g-2")
}

func TestMembersAreTriedWhereANodeComesToAnotherDomain(t *testing.T) {
	x := newGangs(t)
	for group, key := range map[string]string{"in-racks": "rack", "in-zones": "zone"} {
		x.states.Set(build.Gang(group, 2).Within(key).Obj())
		for i := range 2 {
			x.add(member(fmt.Sprintf("%s-%d", group, i), group).Obj())
		}
	}
	for range 2 {
		pods, _ := x.pop(1)
		x.fail(pods, 2, 0)
	}
	node := func(rack string) *v1.Node { return build.Node("n").Label("rack", rack).Label("zone", "z").Obj() }
	for _, e := range NodeUpdated(node("r1"), node("r2")) {
		x.Move(e)
	}
	x.wakes("in-racks-0 in-racks-1")
	for group := range map[string]bool{"in-racks": true, "in-zones": true} {
		for i := range 2 {
			p := x.Find("default", fmt.Sprintf("%s-%d", group, i))
			x.states.PodGone(p.Obj)
			x.Delete(p.Obj.UID)
			x.End(p)
		}
	}
	if len(x.topologies) != 0 {
		t.Errorf("topologies of no pod group are kept: %v", x.topologies)
	}
}

// A gang that was called waits for something else now: the room is another's.
func TestAnotherGangIsCalledInPlaceOfOneThatHasOtherReasons(t *testing.T) {
	x := newGangs(t)
	x.waitFor(2, "a", "b")
	x.freed("n", 2)
	pods, got := x.pop(9)
	x.wants(got, "a-0 a-1")
	for _, p := range pods {
		x.Unschedulable(p, []string{"own"}, "no")
	}
	x.GroupFailed(pods[0].Group, 2, 0)
	check(t, x.Queue)
	_, got = x.pop(9)
	x.wants(got, "b-0 b-1")
}

func TestAnotherGangIsCalledInPlaceOfOneThatIsGated(t *testing.T) {
	x := newGangs(t)
	x.waitFor(2, "a", "b")
	gone := x.Find("default", "a-1")
	x.states.PodGone(gone.Obj)
	x.Delete(gone.Obj.UID)
	x.freed("n", 2)
	_, got := x.pop(9)
	x.wants(got, "b-0 b-1")
}

func TestAnotherGangIsCalledInPlaceOfOneThatIsDeletedInFlight(t *testing.T) {
	x := newGangs(t)
	x.waitFor(2, "a", "b")
	x.freed("n", 2)
	pods, got := x.pop(9)
	x.wants(got, "a-0 a-1")
	for _, p := range pods {
		x.states.PodGone(p.Obj)
		x.Delete(p.Obj.UID)
		x.Done(p.Obj.UID)
	}
	check(t, x.Queue)
	_, got = x.pop(9)
	x.wants(got, "b-0 b-1")
}

// What another gang finds does not count the room that members are nominated to.
func TestAGangThatIsNominatedWaitsForNoCount(t *testing.T) {
	x := newGangs(t)
	x.gang("a", 4)
	pods, _ := x.pop(1)
	for i, p := range pods {
		p.ClassID = 7
		x.Unschedulable(p, []string{GangScheduling, "room"}, "no")
		if i < 3 {
			x.Nominate(p, fmt.Sprint("n", i))
		}
	}
	x.GroupFailed(pods[0].Group, 4, 3)
	x.gang("b", 4)
	pods, _ = x.pop(1)
	x.fail(pods, 4, 0)
	x.freed("m", 1)
	x.wakes("a-0 a-1 a-2 a-3")
}

// Room for one more may be enough together with the room of pods that can be pushed out, which nobody counts.
func TestAGangIsTriedToFindOutWherePodsMayBePushedOut(t *testing.T) {
	x := newGangs(t)
	x.waitFor(4, "a", "b")
	x.freed("n", 1)
	if _, got := x.pop(9); got != "" {
		t.Fatalf("popped %q with room for 1 of 4, and nobody to be pushed out", got)
	}
	x.preempts = true
	x.freed("n", 1)
	x.freed("n", 1)
	pods, got := x.pop(9)
	x.wants(got, "a-0 a-1 a-2 a-3") // one of them is tried at a time
	x.fail(pods, 4, 0)
	x.freed("n", 1)
	_, got = x.pop(9)
	x.wants(got, "b-0 b-1 b-2 b-3")
}

// alikeByLabel has the pods that wait for room judged together only where they have one value of the label a.
func (x *gangs) alikeByLabel() {
	bit := x.rules.names["room"]
	x.rules.plugins[bit.index()].Alike = func(p *v1.Pod) (l likeness) {
		copy(l[:], p.Labels["a"])
		return l
	}
	x.rules.alike |= bit
}

func TestAGangWhoseMembersAreJudgedApartWaitsForNoCount(t *testing.T) {
	x := newGangs(t)
	x.alikeByLabel()
	x.set("g", 2)
	for _, name := range []string{"1", "2"} {
		x.add(member(name, "g").Label("a", name).Obj())
	}
	pods, _ := x.pop(1)
	x.fail(pods, 2, 1)
	for _, p := range pods { // one bucket would know what was counted, and go with its pod
		if p.bucket.mates.of != anyMates {
			t.Errorf("pod %s waits for a count", p.Obj.Name)
		}
	}
}

func TestWhatIsCountedOutlivesAChangeOfAPod(t *testing.T) {
	x := newGangs(t)
	x.set("g", 2)
	x.add(member("held", "g").Gate("own").Obj())
	x.add(member("p", "g").Obj())
	pods, _ := x.pop(1)
	x.fail(pods, 2, 0)
	x.now = x.now.Add(time.Minute)
	x.freed("n", 1)
	changed := member("p", "g").Obj()
	changed.Annotations = map[string]string{"a": "b"}
	x.Update(changed)
	check(t, x.Queue)
	if _, got := x.pop(1); got != "" {
		t.Fatalf("popped %q with room for 1 of 2", got)
	}
	x.freed("m", 1)
	x.wakes("p")
}

// Some profiles have no GangScheduling: a pod group that was given up is not held back by its minCount then.
func TestAGangThatWasGivenUpIsLetInThoughItsMinCountIsNotReached(t *testing.T) {
	x := newGangs(t)
	x.rules.plugins[x.rules.names[GangScheduling].index()].PreEnqueue = func(p *v1.Pod) string {
		if g := x.states.Of(p); g.GivenUp() {
			return g.Gate()
		}
		return ""
	}
	x.states.Set(build.Gang("g", 3).Annotation(groups.GiveUpAfter, "10m").Annotation(groups.RetryAfter, "5m").Obj())
	x.add(member("a", "g").Obj())
	x.failAll()
	x.after(10*time.Minute + time.Second)
	if x.Len(Gated) != 1 {
		t.Fatalf("%d are gated, want the one that is given up", x.Len(Gated))
	}
	x.after(5*time.Minute + time.Second)
	if x.Len(Gated) != 0 {
		t.Error("it is gated for good")
	}
}

// TestALargePodGroupIsTriedInTurns: with no pod more than MaxMembers in an attempt, all have had one before any has two.
func TestALargePodGroupIsTriedInTurns(t *testing.T) {
	x := newGangs(t)
	x.set("g", 1)
	const more = 10
	for i := range 2*groups.MaxMembers + more {
		p := member(fmt.Sprintf("p%05d", i), "g").Obj()
		x.states.PodSet(p, true)
		x.Add(p)
	}
	for round := range 3 {
		pods := x.PopBatch(1, nil)
		fresh := 0
		for _, p := range pods {
			if p.Attempts == 1 {
				fresh++
			}
			p.ClassID = 7
			x.Unschedulable(p, []string{"room"}, "no")
		}
		x.GroupFailed(pods[0].Group, 0, 0)
		if want := []int{groups.MaxMembers, groups.MaxMembers, more}[round]; fresh != want || len(pods) != groups.MaxMembers {
			t.Fatalf("round %d: popped %d, %d for the first time, want %d of %d", round, len(pods), fresh, want, groups.MaxMembers)
		}
	}
	if pods := x.PopBatch(1, nil); len(pods) != 0 {
		t.Errorf("popped %d though all back off", len(pods))
	}
	if x.Len(Unschedulable) != 2*groups.MaxMembers+more {
		t.Errorf("%d wait for an event, want all", x.Len(Unschedulable))
	}
}

// TestCallingManyGangsIsNotQuadratic: one event makes room for 2,000 gangs of two.
func TestCallingManyGangsIsNotQuadratic(t *testing.T) {
	x := newGangs(t)
	compared := 0
	x.index.before = func(a, b *Pod) bool {
		compared++
		return before(a, b)
	}
	const n = 2000
	for i := range n {
		group := fmt.Sprintf("g%04d", i)
		x.states.Set(build.Gang(group, 2).Obj())
		for _, name := range []string{group + "-0", group + "-1"} {
			p := member(name, group).Obj()
			x.states.PodSet(p, true)
			x.Add(p)
		}
		for _, p := range x.PopBatch(1, nil) {
			p.ClassID = 7
			x.Unschedulable(p, []string{"room"}, "no")
		}
		x.GroupFailed(x.GroupOf(name(group)), 2, 0)
	}
	x.now = x.now.Add(time.Minute)
	compared, x.room["n"] = 0, 2*n
	if tried := x.Move(AssignedPodDeleted(build.Pod("gone").Node("n").Obj())); tried != n {
		t.Errorf("%d gangs are called, want all %d", tried, n)
	}
	if most := 2 * n * 100; compared > most {
		t.Errorf("pods were compared %d times, want at most %d", compared, most)
	}
}
