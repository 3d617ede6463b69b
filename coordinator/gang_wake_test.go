package coordinator

import (
	"testing"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// One pod of higher priority has left, one of lower priority can be pushed out: together they have room for the gang of two.
func TestAGangIsTriedWhereRoomAndVictimsAreEnoughTogether(t *testing.T) {
	low := build.Pod("low").UID("low").CPU("1").Node("m").Obj()
	high := build.Pod("high").UID("high").CPU("1").Priority(100).Node("n").Obj()
	x := playGang(t, SchedulerConfig{Profiles: withPreemption(), MaxBackoff: -1}, build.Gang("g", 2).Obj(), nodesOf("1", "m", "n"),
		low, high, member1("a").Priority(10).Obj(), member1("b").Priority(10).Obj())
	if got := len(x.decided(t)); got != 2 || x.queue.Get("a").Place() != queue.Unschedulable {
		t.Fatalf("got %d decisions, want one for each member, which waits then", got)
	}
	x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: high})
	x.turn(t)
	for _, uid := range []string{"a", "b"} {
		if _, node, _ := x.state.Pod(build.Pod(uid).UID(uid).Obj().UID); node == "" {
			t.Errorf("member %s has no node", uid)
		}
	}
}

// Without the gate GangScheduling nothing but having been given up holds members back.
func TestAPodGroupThatIsDeletedIsNotGivenUpAnyMore(t *testing.T) {
	group := build.PodGroup("g").Obj()
	x := playGang(t, SchedulerConfig{Groups: groups.Gates{Workload: true}}, group, nodesOf("1", "n"), member1("large").CPU("2").Obj())
	x.groups.Get(x.group).GiveUp("given up")
	x.queue.Activate("large")
	if got := x.queue.Get("large").Place(); got != queue.Gated {
		t.Fatalf("a member of a pod group that is given up is in %s, want %s", got, queue.Gated)
	}
	x.groups.Remove(x.group)
	forIntake{x.Scheduler}.PodGroupGone(group)
	if got := x.queue.Get("large").Place(); got == queue.Gated {
		t.Error("it is gated for good")
	}
}
