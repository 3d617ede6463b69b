package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

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

// A gang that finds no domain at all, or no domain with room for a slice, is not tried again before a node comes to one.
func TestAGangWithoutDomainsSleepsUntilANodeComes(t *testing.T) {
	slices := func() *build.PodGroupBuilder {
		return build.Gang("g", 2).Annotation(groups.SliceTopology, "rack").Annotation(groups.SliceSize, "2")
	}
	for name, c := range map[string]struct {
		group *build.PodGroupBuilder
		nodes string
		least int // CPUs that a node needs for the gang
	}{
		"no node has the label":              {build.Gang("g", 2).Within("rack"), "- - a1 4 0", 2},
		"no node has the label of slices":    {slices(), "- - a1 4 0", 2},
		"no domain has room for a slice":     {slices(), "- r a1 1 0", 1},
		"slices, and the pods fit nowhere":   {slices(), "- r a1 1 1", 2},
		"one of two keys has no node at all": {build.Gang("g", 2).Within("rack").Annotation(groups.PreferredTopology, "block"), "- - a1 4 0", 2},
	} {
		r := (&racked{group: c.group.Obj()}).rackedNodes(c.nodes).members("1", "a", "b")
		cfg := topologyConfig(1, false)
		cfg.MaxBackoff = -1 // what is retried at the pace of backoff is retried for ever
		x := r.decide(t, cfg)
		for _, uid := range []types.UID{"a", "b"} {
			if p := x.queue.Get(uid); p.Place() != queue.Unschedulable || p.Attempts != 1 {
				t.Errorf("%s: %s is %v after %d attempts, want it to wait after the first", name, uid, p.Place(), p.Attempts)
			}
		}
		comes := func(b *build.NodeBuilder) {
			x.event(&objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: b.Memory("64Gi").Pods("110").Obj()})
			x.turn(t)
		}
		comes(build.Node("other").CPU("0"))
		if got := x.queue.Get("a").Attempts; got != 1 && !strings.Contains(name, "slice") { // which nodes help a slice nobody knows
			t.Errorf("%s: a node that is in no domain has the gang tried again", name)
		}
		if comes(build.Node("n").CPU(fmt.Sprint(c.least)).Label("rack", "r")); x.gang(r).Scheduled() != 2 {
			t.Errorf("%s: the gang has %d nodes once there is a domain: %s", name, x.gang(r).Scheduled(), x.gang(r).Standing().Line())
		}
		x.fanout.Close()
	}
}
