package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// notes are those of an explanation of a pod group.
func (x *gangScene) notes(t *testing.T, name string) []string {
	t.Helper()
	e, err := observe.NewPodGroup(&pb.ExplainPodGroupRequest{Namespace: "default", Name: name}, x.podGroupReader())
	if err != nil {
		t.Fatal(err)
	}
	for !e.Read().Step() {
	}
	e.Read().End()
	out, err := e.Answer()
	if err != nil {
		t.Fatal(err)
	}
	return out.GetNotes()
}

// wantHeld checks whether room is held for the gang, and why not.
func (x *gangScene) wantHeld(t *testing.T, held bool, why string) {
	t.Helper()
	if got := x.reservation.holder == x.group; got != held {
		t.Errorf("room is held: %v, want %v", got, held)
	}
	if notes := x.notes(t, x.group.Name); why != "" && !slices.Contains(notes, "no room is held for this pod group: "+why) {
		t.Errorf("got notes %q, want %q", notes, why)
	}
}

// Room is held for a gang only where it would fit if no other pod were there: in one domain where it has to be in one, in whole slices,
// and with all of its kinds of pods.
func TestRoomIsHeldForAGangThatMayFitAlone(t *testing.T) {
	rack := func(cpu, rack string, names ...string) (out []*v1.Node) {
		for _, n := range nodesOf(cpu, names...) {
			n.Labels = map[string]string{"rack": rack, "kubernetes.io/hostname": n.Name}
			out = append(out, n)
		}
		return out
	}
	two := append(rack("4", "r1", "n-0", "n-1"), rack("2", "r2", "n-2", "n-3", "n-4")...) // of racks with 8 and 6 CPUs
	olds := func() (out []*v1.Pod) {
		for _, n := range two {
			out = append(out, build.Pod("old-"+n.Name).UID("old-"+n.Name).CPU("1").Node(n.Name).Obj())
		}
		return out
	}
	cfg := topologyConfig(1, false)
	cfg.GangReservation = true
	for name, c := range map[string]struct {
		group *build.PodGroupBuilder
		cpu   map[string]int // members by what they ask for
		why   string         // room is not held; "": it is
	}{
		"all":             {build.Gang("g", 14), map[string]int{"1": 14}, ""},
		"one more":        {build.Gang("g", 15), map[string]int{"1": 15}, "if no other pod were on any node, 14 of the 15 pods that are needed would fit"},
		"in a rack":       {build.Gang("g", 8).Within("rack"), map[string]int{"1": 8}, ""},
		"more than there": {build.Gang("g", 9).Within("rack"), map[string]int{"1": 9}, "if no other pod were on any node, 8 of the 9 pods that are needed would fit within one domain of rack"},
		"one too large": {build.Gang("g", 3), map[string]int{"1": 2, "5": 1},
			"if no other pod were on any node, 2 of the 3 pods that are needed would fit"},
		"all different": {build.Gang("g", 10), map[string]int{"1500m": 4, "1600m": 3, "1700m": 3},
			"if no other pod were on any node, 7 of the 10 pods that are needed would fit"},
		"slices": {build.Gang("g", 9).Annotation(groups.SliceTopology, "kubernetes.io/hostname").Annotation(groups.SliceSize, "3"), map[string]int{"1": 9},
			"if no other pod were on any node, 6 of the 9 pods that are needed would fit"},
	} {
		t.Run(name, func(t *testing.T) {
			pods := olds()
			for cpu, n := range c.cpu {
				for i := range n {
					id := cpu + "-" + string(rune('a'+i))
					pods = append(pods, build.Pod(id).UID(id).CPU(cpu).Member("g").Obj())
				}
			}
			x := playGang(t, cfg, c.group.Obj(), two, pods...)
			x.wantHeld(t, c.why == "", c.why)
		})
	}
}

// What a gang would have without others is judged anew where nodes or the gang have changed, and only then.
func TestAGangIsJudgedOnceForItsRoom(t *testing.T) {
	x := playGang(t, SchedulerConfig{GangReservation: true, MaxBackoff: -1}, build.Gang("g", 4).Obj(), nodesOf("3", "n-0"),
		members("a", "b", "c", "d")...)
	x.wantHeld(t, false, "if no other pod were on any node, 3 of the 4 pods that are needed would fit")
	x.arrives(t, build.Pod("small").UID("small").CPU("1").Obj())
	if x.on("small") == "" {
		t.Error("a pod waits for a gang that can't start")
	}
	tries := 0
	again := func() {
		tries++
		x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPodGroup, Object: build.Gang("g", 4).Annotation("try", fmt.Sprint(tries)).Obj()})
		x.turn(t)
	}
	room := x.reservation.judged[x.group]
	room.most = 4
	x.reservation.judged[x.group] = room
	if again(); x.reservation.holder != x.group {
		t.Error("it is judged anew though nothing has changed")
	}
	nodes := x.state.NodesVersion()
	x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindNode, Node: build.Node("n-0").CPU("3").Memory("64Gi").Pods("110").Label("a", "b").Obj()})
	if again(); x.state.NodesVersion() == nodes {
		t.Fatal("the node is as it was")
	}
	x.wantHeld(t, false, "if no other pod were on any node, 3 of the 4 pods that are needed would fit")
	x.event(&objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: nodesOf("1", "n-1")[0]})
	if again(); x.reservation.holder != x.group { // the small pod is in the way
		t.Error("room is not held though the gang would fit by now")
	}
}

// Room is not held for ever: after ten minutes others may have it, and another gang may hold room, for as long again.
func TestRoomIsHeldForTenMinutesInARow(t *testing.T) {
	x := crowded(t, SchedulerConfig{GangReservation: true})
	now := epoch
	x.cfg.QueueNow = func() time.Time { return now }
	x.arrives(t, build.Pod("small").UID("small").CPU("1").Obj())
	review := func(after time.Duration) {
		now = now.Add(after)
		x.reviewHold()
		x.turn(t)
	}
	if review(mostHeld - time.Second); x.on("small") != "" {
		t.Fatal("room is not held to the end")
	}
	if d := x.untilWake(); d > time.Second {
		t.Errorf("the loop sleeps for %v, want no longer than room is held", d)
	}
	if review(time.Second); x.on("small") == "" {
		t.Error("a pod waits for room that was held for too long")
	}
	x.wantHeld(t, false, "it was held for 10m0s, and the pod group has not started; others may have it until "+
		epoch.Add(2*mostHeld).UTC().Format(time.RFC3339))
	tried := func(group string) {
		x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPodGroup, Object: build.Gang(group, 4).Annotation("a", now.String()).Obj()})
		x.turn(t)
	}
	if tried("g"); x.reservation.holder.Name != "" {
		t.Error("room is held again at once")
	}
	x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPodGroup, Object: build.Gang("other", 4).Obj()})
	for _, name := range strings.Fields("0 1 2 3") {
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: build.Pod(name).UID(name).CPU("1").Member("other").Obj()})
	}
	if x.turn(t); x.reservation.holder.Name != "other" {
		t.Errorf("room is held for %v, want the other gang", x.reservation.holder)
	}
	review(mostHeld)
	if tried("g"); x.reservation.holder.Name != "g" {
		t.Errorf("room is held for %v, want the first gang again", x.reservation.holder)
	}
}
