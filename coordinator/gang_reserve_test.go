package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// crowded is a gang of 4 on two nodes of 2 CPUs, one of which another pod has.
func crowded(t *testing.T, cfg SchedulerConfig) *gangScene {
	old := build.Pod("old").UID("old").CPU("1").Node("n-1").Obj()
	nodes := append(nodesOf("2", "n-0"), nodesOf("2", "n-1")...)
	cfg.MaxBackoff = -1
	x := playGang(t, cfg, build.Gang("g", 4).Obj(), nodes, append([]*v1.Pod{old}, members("a", "b", "c", "d")...)...)
	if n := x.queue.Len(queue.Unschedulable); n != 4 {
		t.Fatalf("%d members wait, want all", n)
	}
	return x
}

func (x *gangScene) arrives(t *testing.T, p *v1.Pod) {
	t.Helper()
	x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
	x.turn(t)
}

func (x *gangScene) leaves(t *testing.T, name, node string) {
	t.Helper()
	x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: build.Pod(name).UID(name).CPU("1").Node(node).Obj()})
	x.turn(t)
}

// on tells on which nodes pods are, in order.
func (x *gangScene) on(uids ...string) string {
	var list []string
	for _, uid := range uids {
		_, node, _ := x.state.Pod(build.Pod("").UID(uid).Obj().UID)
		list = append(list, node)
	}
	return strings.Join(list, " ")
}

func TestRoomThatAGangLacksIsTakenByOthersUnlessItIsHeld(t *testing.T) {
	for _, held := range []bool{false, true} {
		x := crowded(t, SchedulerConfig{GangReservation: held})
		x.arrives(t, build.Pod("small").UID("small").CPU("1").Obj())
		if got := x.on("small"); (got == "") != held {
			t.Errorf("held %v: a pod of the same priority is on %q", held, got)
		}
		x.leaves(t, "old", "n-1")
		if got := x.on("a", "b", "c", "d"); (strings.TrimSpace(got) != "") != held {
			t.Errorf("held %v: once there is as much room as it lacked, the gang is on %q", held, got)
		}
		if x.reservation.holder.Name != "" {
			t.Errorf("held %v: room is held for %v, which has started", held, x.reservation.holder)
		}
	}
}

func TestHeldRoomIsNobodysOfHigherPriority(t *testing.T) {
	x := crowded(t, SchedulerConfig{GangReservation: true})
	x.arrives(t, build.Pod("high").UID("high").CPU("1").Priority(1).Obj())
	if x.on("high") == "" {
		t.Error("a pod of higher priority waits for a gang")
	}
}

func TestHeldRoomIsFreeOnceTheGangIsGone(t *testing.T) {
	x := crowded(t, SchedulerConfig{GangReservation: true})
	x.arrives(t, build.Pod("small").UID("small").CPU("1").Obj())
	for _, p := range members("a", "b", "c", "d") {
		p.Status.NominatedNodeName = x.queue.Get(p.UID).NominatedNode
		x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: p}) // as the status tells it
		x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: p})
	}
	x.turn(t)
	if x.on("small") == "" {
		t.Error("room is held for a gang that is gone")
	}
}

// Room that is held for a gang is free once it can't start, however much waits for it: it is gated, for a member is gone or its
// PodGroup is.
func TestHeldRoomIsFreeOnceTheGangIsGated(t *testing.T) {
	for name, gate := range map[string]func(x *gangScene){
		"a member less": func(x *gangScene) {
			x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: members("d")[0]})
		},
		"no PodGroup": func(x *gangScene) {
			for _, e := range []objects.EventType{objects.Added, objects.Deleted} { // the scene has it from elsewhere
				x.event(&objects.Event{Type: e, Kind: objects.KindPodGroup, Object: build.Gang("g", 4).Obj()})
			}
		},
	} {
		told := &recordingReporter{}
		x := crowded(t, SchedulerConfig{GangReservation: true, Reporter: told})
		x.arrives(t, build.Pod("small").UID("small").CPU("1").Obj())
		if x.on("small") != "" {
			t.Fatalf("%s: no room is held before", name)
		}
		gate(x)
		if x.reviewHold(); x.reservation.holder.Name != "" {
			t.Errorf("%s: room is held for %v, which can't start", name, x.reservation.holder)
		}
		for range 2 {
			x.Scheduler.turn(quiet(), x.cfg.Now())
		}
		if x.on("small") == "" || x.reservation.holder.Name != "" {
			t.Errorf("%s: room is still held for %v", name, x.reservation.holder)
		}
		for _, uid := range []types.UID{"a", "b", "c", "d"} {
			if p := x.queue.Get(uid); p != nil && p.NominatedNode != "" {
				t.Errorf("%s: %s is nominated to %s", name, uid, p.NominatedNode)
			}
			if p := x.queue.Get(uid); p != nil && uid != "d" && !slices.Contains(told.heard(), p.Obj.Name+" unnominated") {
				t.Errorf("%s: told %q, want that %s is nominated no more", name, told.heard(), uid)
			}
		}
	}
}

func TestRoomIsHeldForTheFirstGangAlone(t *testing.T) {
	x := crowded(t, SchedulerConfig{GangReservation: true})
	add := func(group string, priority int32) {
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPodGroup, Object: build.Gang(group, 4).Obj()})
		for _, name := range []string{"0", "1", "2", "3"} {
			x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod,
				Pod: build.Pod(group + name).UID(group + name).CPU("1").Priority(priority).Member(group).Obj()})
		}
		x.turn(t)
	}
	holds := func(uid string) bool { return x.queue.Get(build.Pod("").UID(uid).Obj().UID).NominatedNode != "" }
	add("equal", 0)
	if !holds("a") || holds("equal0") || x.reservation.holder.Name != "g" {
		t.Errorf("room is held for %v, want the first gang", x.reservation.holder)
	}
	want := "room, some of which is held for pod group default/g"
	if v := x.groups.Of(build.Pod("").Member("equal").Obj()).Verdict(); v.Waits != want {
		t.Errorf("the second gang waits for %q, want %q", v.Waits, want)
	}
	add("higher", 1)
	if holds("a") || !holds("higher0") || x.reservation.holder.Name != "higher" {
		t.Errorf("room is held for %v, want the gang of higher priority", x.reservation.holder)
	}
}

// Explanations tell who holds what for whom: of the pod group, of one that waits behind it, and of a pod.
func TestWhoHoldsRoomForWhomIsTold(t *testing.T) {
	x := crowded(t, SchedulerConfig{GangReservation: true})
	x.groups.Set(build.Gang("other", 1).Obj())
	x.arrives(t, build.Pod("mate").UID("mate").CPU("1").Member("other").Obj())
	x.arrives(t, build.Pod("small").UID("small").CPU("1").Obj())
	x.arrives(t, build.Pod("high").UID("high").CPU("9").Priority(7).Obj())
	const held = " is held until it starts, from pods of priority 0 and below, on n-0 (2), n-1 (1)"
	for name, want := range map[string]string{"g": "room for 3 pods of this pod group" + held, "other": "room for 3 pods of pod group default/g" + held} {
		e, err := observe.NewPodGroup(&pb.ExplainPodGroupRequest{Namespace: "default", Name: name},
			observe.PodGroupReader{Groups: x.groups, Queue: x.queue, Placed: x.state, Held: x.reserved})
		if err != nil {
			t.Fatal(err)
		}
		for !e.Read().Step() {
		}
		e.Read().End()
		if out, err := e.Answer(); err != nil || !slices.Contains(out.GetNotes(), want) {
			t.Errorf("pod group %s: got notes %q, %v; want %q", name, out.GetNotes(), err, want)
		}
	}
	for name, want := range map[string]string{
		"a": "room for 3 pods of this pod group" + held, "small": "room for 3 pods of pod group default/g" + held, "high": "",
	} {
		if note := x.explained(t, name, 0).GetNote(); !strings.HasPrefix(note, want) || want == "" && note != "" {
			t.Errorf("pod %s: got note %q, want %q", name, note, want)
		}
	}
}

// A member whose victims are told to leave is gated until all are told. The room that its pod group has, and theirs, stays held for it.
func TestRoomThatVictimsLeaveStaysHeld(t *testing.T) {
	evictor := &fakeEvictor{}
	old := build.Pod("old").UID("old").CPU("1").Priority(1).Node("n-1").Obj()
	pods := []*v1.Pod{old}
	for _, name := range []string{"a", "b", "c", "d"} {
		pods = append(pods, build.Pod(name).UID(name).CPU("1").Priority(1).Member("g").Obj())
	}
	x := playGang(t, SchedulerConfig{GangReservation: true, Profiles: withPreemption(), Evictor: evictor}, build.Gang("g", 4).Obj(),
		append(nodesOf("2", "n-0"), nodesOf("2", "n-1")...), pods...)
	victims := []*v1.Pod{build.Pod("low1").UID("low1").CPU("500m").Node("n-2").Obj(), build.Pod("low2").UID("low2").CPU("500m").Node("n-2").Obj()}
	for _, p := range victims {
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
	}
	node := nodesOf("1", "n-2")[0]
	node.Labels = map[string]string{"only": "n-2"}
	x.event(&objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: node})
	x.queue.Activate("a", "b", "c", "d")
	x.turn(t)
	if n := len(evictor.leavers()); n != 2 || x.reservation.holder.Name != "g" {
		t.Fatalf("%d pods leave, and room is held for %v; want 2, for g", n, x.reservation.holder)
	}
	x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: victims[0]})
	x.Scheduler.turn(quiet(), x.cfg.Now())
	thief := build.Pod("thief").UID("thief").CPU("1").Obj()
	thief.Spec.NodeSelector = node.Labels
	x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: thief})
	x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: victims[1]})
	x.turn(t)
	if got := x.on("thief"); got != "" {
		t.Errorf("a pod of lower priority is on %s, which pods have left for the gang", got)
	}
}

// Where the profile does not have GangScheduling count, members that are left need nothing together.
func TestNoRoomIsHeldWhereGangSchedulingDoesNotCount(t *testing.T) {
	for scheduled := range 4 {
		config := rules.DefaultConfig(v1.DefaultSchedulerName)
		config.PostFilters, config.PodGroups = nil, compile.PodGroupPlugins{Gates: true}
		profile, err := rules.NewProfile(config)
		if err != nil {
			t.Fatal(err)
		}
		pods := members("a", "b", "c", "d")
		for _, p := range pods[:scheduled] {
			p.Spec.NodeName = "n-0"
		}
		x := playGang(t, SchedulerConfig{GangReservation: true, Profiles: map[string]*compile.Profile{v1.DefaultSchedulerName: profile}},
			build.Gang("g", 4).Obj(), nodesOf(fmt.Sprint(scheduled), "n-0"), pods...)
		if x.reservation.holder.Name != "" {
			t.Errorf("%d members are scheduled: room is held for %v", scheduled, x.reservation.holder)
		}
	}
}

// A leader before this one held room for a gang. It stays held, unless the gang lacks a member by now.
func TestRoomThatAnEarlierLeaderHeld(t *testing.T) {
	for _, c := range []struct {
		knownBy string
		names   []string
	}{
		{"the journal", []string{"a", "b", "c"}}, {"the status", []string{"a", "b", "c"}},
		{"the journal", []string{"a", "b", "c", "d"}}, {"the status", []string{"a", "b", "c", "d"}},
	} {
		knownBy, whole := c.knownBy, len(c.names) == 4
		told, entries := &recordingReporter{}, map[types.UID]*pb.QueueEntry{}
		pods := []*v1.Pod{build.Pod("old").UID("old").CPU("1").Node("n-1").Obj()}
		for i, p := range members(c.names...) {
			if node := []string{"n-0", "n-0", "n-1", ""}[i]; knownBy == "the status" {
				p.Status.NominatedNodeName = node
			} else {
				entries[p.UID] = &pb.QueueEntry{Pod: "default/" + p.Name, Attempts: 1, NominatedNode: node, UnschedulableCount: 1,
					RejectedBy: []string{queue.GangScheduling}}
			}
			pods = append(pods, p)
		}
		cfg := SchedulerConfig{GangReservation: true, Reporter: told, Groups: groups.Gates{Workload: true, Gang: true}}
		x := &gangScene{trial: newTrial(t, cfg, 0)}
		t.Cleanup(x.fanout.Close)
		x.groups.Set(build.Gang("g", 4).Obj())
		x.Load(&objects.Snapshot{Nodes: append(nodesOf("2", "n-0"), nodesOf("2", "n-1")...), Pods: pods}, entries)
		for _, p := range pods[1:4] {
			if slices.Contains(told.heard(), p.Name+" unnominated") == whole {
				t.Errorf("%q, known by %s: told %q of %s", c.names, knownBy, told.heard(), p.Name)
			}
			p = p.DeepCopy()
			p.Annotations = map[string]string{"a": "change"}
			x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: p})
		}
		x.arrives(t, build.Pod("small").UID("small").CPU("1").Obj())
		if got := x.on("small"); (got == "") != whole {
			t.Errorf("%q, known by %s: a pod of the same priority is on %q", c.names, knownBy, got)
		}
	}
}
