package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func newQueue(now *time.Time) *Queue {
	return newOf(Config{Now: func() time.Time { return *now }})
}

// popOne pops the only pod there is.
func popOne(t *testing.T, q *Queue) *Pod {
	t.Helper()
	pods := q.PopBatch(2, nil)
	if len(pods) != 1 {
		t.Fatalf("popped %d pods, want 1", len(pods))
	}
	return pods[0]
}

func TestHostPortsConflict(t *testing.T) {
	const tcp, udp = pb.Protocol_PROTOCOL_TCP, pb.Protocol_PROTOCOL_UDP
	for _, c := range []struct {
		name string
		a, b *pb.HostPort
		want bool
	}{
		{"the same", &pb.HostPort{Ip: "1.2.3.4", Protocol: tcp, Port: 80}, &pb.HostPort{Ip: "1.2.3.4", Protocol: tcp, Port: 80}, true},
		{"every address against one", &pb.HostPort{Ip: "0.0.0.0", Protocol: tcp, Port: 80}, &pb.HostPort{Ip: "1.2.3.4", Protocol: tcp, Port: 80}, true},
		{"one against every address", &pb.HostPort{Ip: "1.2.3.4", Protocol: tcp, Port: 80}, &pb.HostPort{Ip: "0.0.0.0", Protocol: tcp, Port: 80}, true},
		{"two addresses", &pb.HostPort{Ip: "1.2.3.4", Protocol: tcp, Port: 80}, &pb.HostPort{Ip: "1.2.3.5", Protocol: tcp, Port: 80}, false},
		{"two protocols", &pb.HostPort{Ip: "0.0.0.0", Protocol: tcp, Port: 80}, &pb.HostPort{Ip: "0.0.0.0", Protocol: udp, Port: 80}, false},
		{"two ports", &pb.HostPort{Ip: "0.0.0.0", Protocol: tcp, Port: 80}, &pb.HostPort{Ip: "0.0.0.0", Protocol: tcp, Port: 81}, false},
	} {
		if got := frees([]*pb.HostPort{c.a}, []*pb.HostPort{c.b}); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

// frees tells whether a pod that held some ports frees one for a pod that wants others.
func frees(held, wanted []*pb.HostPort) bool {
	return freesPort(&Pod{usage: &pb.PodUsage{HostPorts: wanted}}, &Event{oldUsage: &pb.PodUsage{HostPorts: held}})
}

// TestFreedPorts holds the search for ports against a look at each pair.
func TestFreedPorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) []*pb.HostPort {
			b := build.Pod(name)
			for range rapid.IntRange(0, 12).Draw(t, name) {
				b.HostPort(rapid.SampledFrom([]string{"", "1.2.3.4", "1.2.3.5", "::", "!"}).Draw(t, "address"),
					rapid.SampledFrom([]v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP}).Draw(t, "protocol"), rapid.Int32Range(1, 12).Draw(t, "port"))
			}
			return compile.Usage(b.Obj()).GetHostPorts()
		}
		held, wanted := draw("gone"), draw("waiting")
		want := slices.ContainsFunc(held, func(a *pb.HostPort) bool {
			return slices.ContainsFunc(wanted, func(b *pb.HostPort) bool {
				return a.Port == b.Port && a.Protocol == b.Protocol && (a.Ip == b.Ip || a.Ip == "0.0.0.0" || b.Ip == "0.0.0.0")
			})
		})
		if got := frees(held, wanted); got != want {
			t.Fatalf("held %v, wanted %v: got %t, want %t", held, wanted, got, want)
		}
	})
}

// TestFreedManyPorts has nearly all ports in both pods, where a look at each pair would take minutes.
func TestFreedManyPorts(t *testing.T) {
	var held, wanted []*pb.HostPort
	for port := range uint32(60_000) {
		held = append(held, &pb.HostPort{Ip: "1.2.3.4", Protocol: pb.Protocol_PROTOCOL_TCP, Port: 1 + port})
		wanted = append(wanted, &pb.HostPort{Ip: "1.2.3.5", Protocol: pb.Protocol_PROTOCOL_TCP, Port: 1 + port})
	}
	for range 50 {
		if frees(held, wanted) {
			t.Fatal("got a port that is freed, want none")
		}
	}
}

// TestAffinityThatCanNotBeRead holds that a broken selector is left to the filter.
func TestAffinityThatCanNotBeRead(t *testing.T) {
	p := build.Pod("a").Required(build.Labels(build.Match("k", v1.NodeSelectorOpGt, "many"))).Obj()
	e := NodeAdded(build.Node("n").Label("k", "1").Obj())
	if !(matcher{}).matches(&Pod{Obj: p}, &e) {
		t.Error("got no help, want the pod to be tried")
	}
}

// TestPodsWithoutANodeFreeNothing holds upstream's rule for a deleted pod that was not on a
// node: it frees something only where it was nominated to one.
func TestPodsWithoutANodeFreeNothing(t *testing.T) {
	r, err := newRules(DefaultPlugins(nil))
	if err != nil {
		t.Fatal(err)
	}
	waiting := &Pod{Obj: build.Pod("a").HostPort("", "", 80).Obj()}
	gone := build.Pod("b").HostPort("", "", 80).Obj()
	for _, c := range []struct {
		name            string
		node, nominated string
		want            bool
	}{
		{"pending", "", "", false}, {"on a node", "n", "", true}, {"nominated", "", "n", true},
	} {
		gone.Spec.NodeName, gone.Status.NominatedNodeName = c.node, c.nominated
		e := AssignedPodDeleted(gone)
		for _, plugin := range []string{"NodeResourcesFit", "NodePorts"} {
			if got := r.helps(r.names[plugin], waiting, &e); got != c.want {
				t.Errorf("%s: %s: got %t, want %t", c.name, plugin, got, c.want)
			}
		}
	}
}

func TestNodeUpdatedNamesEachChange(t *testing.T) {
	old := build.Node("n").CPU("1").Unschedulable().Obj()
	now := build.Node("n").CPU("2").Label("a", "b").Taint("a:NoSchedule").Obj()
	now.Annotations = map[string]string{"a": "b"}
	now.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	var got []string
	for _, e := range NodeUpdated(old, now) {
		got = append(got, e.String())
	}
	want := "[NodeUpdateNodeTaint NodeUpdateNodeAllocatable NodeUpdateNodeLabel NodeUpdateNodeTaint NodeUpdateNodeCondition NodeUpdateNodeAnnotation]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	if n := len(NodeUpdated(old, old.DeepCopy())); n != 0 {
		t.Errorf("of an equal node: got %d events, want none", n)
	}
}

// TestTooManyEventsInFlight holds that memory is bounded and no event is missed: what was
// forgotten is taken to help.
func TestTooManyEventsInFlight(t *testing.T) {
	now := start
	q := newQueue(&now)
	q.Add(build.Pod("slow").CPU("4").Obj())
	slow := popOne(t, q)
	n := build.Node("n").Obj()
	for range maxEvents + 1 {
		q.Move(NodeAdded(n)) // helps nobody: the node has no cpu
	}
	q.Add(build.Pod("fast").CPU("4").Obj())
	fast := popOne(t, q)
	if got := q.flights.events.len(); got > maxEvents {
		t.Errorf("got %d events, want at most %d", got, maxEvents)
	}
	q.Unschedulable(fast, []string{"NodeResourcesFit"}, "no")
	q.Unschedulable(slow, []string{"NodeResourcesFit"}, "no")
	if fast.Place() != Unschedulable || slow.Place() != Backoff {
		t.Errorf("fast: got %q, want unschedulable; slow: got %q, want backoff", fast.Place(), slow.Place())
	}
	check(t, q)
}

func TestEndsOfAnAttemptThatIsOver(t *testing.T) {
	now := start
	q := newQueue(&now)
	q.Add(build.Pod("a").Obj())
	p := popOne(t, q)
	q.Error(p, errors.New("boom"))
	want := *p
	q.Error(p, errors.New("again"))
	q.Unschedulable(p, []string{"NodeName"}, "again")
	q.GiveBack(p)
	q.Done(p.Obj.UID)
	if p.ErrorCount != want.ErrorCount || p.Message != want.Message || p.Place() != ErrorBackoff {
		t.Errorf("got %d errors, %q, in %q; want %d, %q, as before", p.ErrorCount, p.Message, p.Place(), want.ErrorCount, want.Message)
	}
	check(t, q)
}

func TestRejectedByNobodyIsAnError(t *testing.T) {
	now := start
	q := newQueue(&now)
	q.Add(build.Pod("a").Obj())
	p := popOne(t, q)
	q.Unschedulable(p, nil, "no nodes available to schedule pods")
	if p.Place() != ErrorBackoff || p.ErrorCount != 1 {
		t.Errorf("got %d errors, in %q; want 1, in error backoff", p.ErrorCount, p.Place())
	}
}

// TestRestoreDistrustsTheOtherClock holds that a leader whose clock was ahead can not keep
// a pod from its successor.
func TestRestoreDistrustsTheOtherClock(t *testing.T) {
	now := start
	q := newQueue(&now)
	ahead := timestamppb.New(start.Add(24 * time.Hour))
	q.Restore(map[types.UID]*pb.QueueEntry{
		"pod-a": {Pod: "default/a", Attempts: 2, ErrorCount: 2, FirstAttempt: ahead, Queued: ahead, BackoffUntil: ahead},
		"gone":  {Pod: "default/gone", Attempts: 1},
	})
	q.Add(build.Pod("a").Obj())
	p := q.Find("default", "a")
	if want := start.Add(2 * time.Second); !p.BackoffUntil.Equal(want) || p.Timestamp.After(start) || p.FirstAttempt.After(start) {
		t.Errorf("got until %s, queued %s, first %s; want until %s and the rest at most %s", p.BackoffUntil, p.Timestamp, p.FirstAttempt, want, start)
	}
	if got := fmt.Sprint(q.Unclaimed()); got != "[gone]" {
		t.Errorf("unclaimed: got %s, want [gone]", got)
	}
}

func TestEntryCutsLongMessages(t *testing.T) {
	now := start
	q := newQueue(&now)
	q.Add(build.Pod("a").Obj())
	p := popOne(t, q)
	q.Error(p, errors.New(strings.Repeat("é", maxMessage)))
	e := q.Entry(p)
	if err := e.Validate(); err != nil {
		t.Fatal(err)
	}
	if n := len(e.Message); n > maxMessage || n < maxMessage-1 {
		t.Errorf("got %d bytes, want %d", n, maxMessage)
	}
}

// TestStatusUpdatesKeepTheClass holds that writing a pod's condition does not cost its
// class.
func TestStatusUpdatesKeepTheClass(t *testing.T) {
	now := start
	q := newQueue(&now)
	obj := build.Pod("a").CPU("1").Obj()
	q.Add(obj)
	p := popOne(t, q)
	p.ClassID = 7
	q.Unschedulable(p, []string{"NodeResourcesFit"}, "no")
	status := obj.DeepCopy()
	status.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse}}
	q.Update(status)
	if p.ClassID != 7 || p.Place() != Unschedulable {
		t.Errorf("got class %d in %q, want 7 in unschedulable", p.ClassID, p.Place())
	}
	spec := status.DeepCopy()
	spec.Spec.Tolerations = []v1.Toleration{{Key: "a"}}
	q.Update(spec)
	if p.ClassID != 0 {
		t.Errorf("after a change of the spec: got class %d, want none", p.ClassID)
	}
	check(t, q)
}

func TestCounts(t *testing.T) {
	now := start
	q := newQueue(&now)
	for _, name := range []string{"a", "b", "c", "d"} {
		q.Add(build.Pod(name).Obj())
	}
	q.Add(build.Pod("gated").Gate("g").Obj())
	pods := q.PopBatch(3, nil)
	q.Unschedulable(pods[0], []string{"NodeName"}, "no")
	q.Error(pods[1], errors.New("boom"))
	if got, want := fmt.Sprint(q.Lens()), "map[active:1 backoff:1 gated:1 unschedulable:1]"; got != want {
		t.Errorf("lens: got %s, want %s", got, want)
	}
	if got := q.Waiting(); got != 3 {
		t.Errorf("waiting: got %d, want 3: active, backoff and in flight", got)
	}
	if got := q.Len(InFlight); got != 1 {
		t.Errorf("in flight: got %d, want 1", got)
	}
	n := 0
	q.Each(func(*Pod) { n++ })
	if n != 5 {
		t.Errorf("each: got %d pods, want 5", n)
	}
}

func TestPluginsThatContradictThemselves(t *testing.T) {
	if _, err := newRules([]Plugin{{Name: "a"}, {Name: "a"}}); err == nil || err.Error() != "queue: plugin a is given twice" {
		t.Errorf("got %v, want an error that names the plugin", err)
	}
	if _, err := newRules(make([]Plugin, maxPlugins+1)); err == nil || err.Error() != "queue: 64 plugins, expected at most 63" {
		t.Errorf("got %v, want an error that names the number", err)
	}
}
