package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// roomy knows how much room a node has; -1: it does not.
type roomy map[string]int64

func (roomy) AddedAffinity(*v1.Pod) *nodeaffinity.NodeSelector { return nil }
func (roomy) DefaultConstraints(*v1.Pod) []Constraint          { return nil }
func (roomy) Preempting(*v1.Pod) bool                          { return false }
func (roomy) HoldsBack(*v1.Pod, string) bool                   { return true }
func (roomy) Allocatable(string) (*pb.Resources, bool)         { return nil, false }

func (r roomy) Room(_ *v1.Pod, _ *pb.Resources, node string) (int64, bool) {
	return r[node], r[node] >= 0
}

// crowd is a queue with ten pods of one class that these plugins rejected, two of which come first
// by their priority, and whose backoff is over.
func crowd(t *testing.T, room roomy, by ...string) (q *Queue, now *time.Time) {
	t.Helper()
	at := start
	q = newOf(Config{Now: func() time.Time { return at }, Profiles: room})
	for i := range 10 {
		p := build.Pod(fmt.Sprint("p", i)).CPU("1")
		if i >= 8 {
			p.Priority(5)
		}
		q.Add(p.Obj())
	}
	for _, p := range q.PopBatch(10, nil) {
		p.ClassID = 7
		q.Unschedulable(p, by, "no")
	}
	at = at.Add(time.Minute)
	return q, &at
}

func active(q *Queue) string {
	var out []string
	q.Each(func(p *Pod) {
		if p.Place() == Active {
			out = append(out, p.Obj.Name)
		}
	})
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestRoomOfANode(t *testing.T) {
	gone := AssignedPodDeleted(build.Pod("x").Node("n").Obj())
	node := NodeAdded(build.Node("n").CPU("8").Obj())
	for _, c := range []struct {
		name  string
		room  int64
		by    []string
		event Event
		want  string
	}{
		{"for three", 3, []string{"NodeResourcesFit"}, gone, "p0 p8 p9"},
		{"for none", 0, []string{"NodeResourcesFit"}, gone, ""},
		{"for more than there are", 30, []string{"NodeResourcesFit", "NodeName"}, gone, "p0 p1 p2 p3 p4 p5 p6 p7 p8 p9"},
		{"that is not known", -1, []string{"NodeResourcesFit"}, gone, "p0 p1 p2 p3 p4 p5 p6 p7 p8 p9"},
		{"of a new node", 1, []string{"NodeResourcesFit", "TaintToleration"}, node, "p8"},
		{"where another plugin does not help", 1, []string{"NodeResourcesFit", "InterPodAffinity"}, node, "p8"},
		{"where resources were not the matter", 1, []string{"TaintToleration"}, node, "p0 p1 p2 p3 p4 p5 p6 p7 p8 p9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, _ := crowd(t, roomy{"n": c.room}, c.by...)
			e := c.event
			q.Move(e)
			check(t, q)
			if got := active(q); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestOtherPluginsHelpAll: pods that wait for others too are all tried where that plugin helps.
func TestOtherPluginsHelpAll(t *testing.T) {
	q, _ := crowd(t, roomy{"n": 1}, "NodeResourcesFit", "PodTopologySpread")
	spread := NodeAdded(build.Node("n").Label("zone", "a").Obj())
	// Without constraints PodTopologySpread's hint says no, with what can't be read it says yes.
	q.Each(func(p *Pod) {
		obj := p.Obj.DeepCopy()
		obj.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule,
		}}
		p.Obj, p.parsed = obj, parsed{}
	})
	if n := q.Move(spread); n != 10 {
		t.Errorf("moved %d pods, want all 10", n)
	}
}

func TestPodsThatStandIn(t *testing.T) {
	begin := func(t *testing.T) (*Queue, *Pod) {
		q, _ := crowd(t, roomy{"n": 1}, "NodeResourcesFit")
		q.Move(AssignedPodDeleted(build.Pod("x").Node("n").Obj()))
		return q, popOne(t, q)
	}
	for _, c := range []struct {
		name string
		end  func(q *Queue, p *Pod)
		want string
	}{
		{"it is placed", func(q *Queue, p *Pod) { q.Done(p.Obj.UID) }, ""},
		{"it is refused", func(q *Queue, p *Pod) { q.Unschedulable(p, []string{"NodeName"}, "no") }, ""},
		{"it is refused, and by another pod's term that has come since", func(q *Queue, p *Pod) {
			p.Matched = "that term"
			q.Unschedulable(p, []string{"InterPodAffinity"}, "no")
		}, "p9"},
		{"it is refused, and not by such a term", func(q *Queue, p *Pod) {
			p.Matched = "that term"
			q.Unschedulable(p, []string{"NodeName"}, "no")
		}, ""},
		{"it is deleted meanwhile", func(q *Queue, p *Pod) { q.Delete(p.Obj.UID); q.Unschedulable(p, []string{"NodeName"}, "no") }, "p9"},
		{"it is deleted, and placed", func(q *Queue, p *Pod) { q.Delete(p.Obj.UID); q.Done(p.Obj.UID) }, "p9"},
		{"its attempt ends in an error", func(q *Queue, p *Pod) { q.Error(p, errors.New("boom")) }, "p9"},
		{"it is given back and deleted", func(q *Queue, p *Pod) { q.GiveBack(p); q.Delete(p.Obj.UID) }, "p9"},
		{"one after the other is deleted", func(q *Queue, p *Pod) {
			q.Delete(p.Obj.UID)
			for _, name := range []string{"p9", "p0", "p1"} {
				q.Delete(q.Find("default", name).Obj.UID)
			}
		}, "p2"},
		{"it changes", func(q *Queue, p *Pod) {
			q.GiveBack(p)
			obj := p.Obj.DeepCopy()
			obj.Spec.Tolerations = []v1.Toleration{{Key: "a"}}
			q.Update(obj)
		}, "p8 p9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, p := begin(t)
			c.end(q, p)
			check(t, q)
			if got := active(q); got != c.want {
				t.Errorf("got %q active, want %q", got, c.want)
			}
		})
	}
}

// TestRoomThatIsKept: a pod that is nominated to the node is tried too, wherever it stands.
func TestRoomThatIsKept(t *testing.T) {
	q, _ := crowd(t, roomy{"n": 1}, "NodeResourcesFit")
	q.Nominate(q.Find("default", "p4"), "n")
	q.Nominate(q.Find("default", "p5"), "elsewhere")
	if n := q.Move(AssignedPodDeleted(build.Pod("x").Node("n").Obj())); n != 2 {
		t.Errorf("moved %d pods, want 2", n)
	}
	if got := active(q); got != "p4 p8" {
		t.Errorf("got %q, want the first and the nominated one", got)
	}
}

// TestTaintsAreToldOfAtOnce: pods that a full node refused for another reason than before are tried again, a bounded
// number of them at once.
func TestTaintsAreToldOfAtOnce(t *testing.T) {
	full := func() *build.NodeBuilder { return build.Node("n").CPU("8") }
	node := func(b *build.NodeBuilder) *v1.Node { return b.Obj() }
	tainted := node(full().Taint("k=v:NoSchedule"))
	for _, c := range []struct {
		name     string
		old, now *v1.Node
		room     int64
		tolerate string
		want     int
	}{
		{"a taint comes", node(full()), tainted, 0, "", 10},
		{"a taint goes", tainted, node(full()), 0, "", 10},
		{"a taint comes to a node with room", node(full()), tainted, 3, "", 10},
		{"another taint comes", tainted, node(full().Taint("k=v:NoSchedule").Taint("l:NoExecute")), 0, "", 0},
		{"a taint that only others avoid comes", node(full()), node(full().Taint("k=v:PreferNoSchedule")), 0, "", 0},
		{"a taint that the pods tolerate comes", node(full()), tainted, 0, "k", 0},
		{"the node is uncordoned", node(full().Unschedulable()), node(full()), 0, "", 10},
		// As upstream: the taint that follows has an event.
		{"the node is cordoned", node(full()), node(full().Unschedulable()), 0, "", 0},
		{"the node gets less to give", node(full()), node(build.Node("n").CPU("4")), 0, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, _ := crowd(t, roomy{"n": c.room}, "NodeResourcesFit")
			q.Each(func(p *Pod) {
				if c.tolerate != "" {
					p.Obj.Spec.Tolerations = []v1.Toleration{{Key: c.tolerate, Operator: v1.TolerationOpExists}}
				}
			})
			got := 0
			for _, e := range NodeUpdated(c.old, c.now) {
				got += q.Move(e)
			}
			check(t, q)
			if got != c.want {
				t.Errorf("got %d pods tried again, want %d", got, c.want)
			}
		})
	}
}

func TestACrowdIsToldOfTaintsBitByBit(t *testing.T) {
	const classes, each = 4, 1000
	at := start
	q := newOf(Config{Now: func() time.Time { return at }, Profiles: roomy{"n": 0}})
	for i := range classes * each {
		q.Add(build.Pod(fmt.Sprint("p", i)).CPU("1").Obj())
	}
	for i, p := range q.PopBatch(classes*each, nil) {
		p.ClassID = uint64(1 + i%classes)
		q.Unschedulable(p, []string{"NodeResourcesFit"}, "no")
	}
	free, tainted := build.Node("n").CPU("8").Obj(), build.Node("n").CPU("8").Taint("k=v:NoSchedule").Obj()
	flip := func(want int) {
		t.Helper()
		got := 0
		for _, e := range NodeUpdated(free, tainted) {
			got += q.Move(e)
		}
		if free, tainted = tainted, free; got != want {
			t.Errorf("at %v: got %d pods tried again, want %d", at.Sub(start), got, want)
		}
	}
	at = at.Add(time.Minute)
	flip(retellings)
	of := map[uint64]int{}
	for _, p := range q.PopBatch(classes*each, nil) {
		of[p.ClassID]++
	}
	if want := fmt.Sprint(map[uint64]int{1: 64, 2: 64, 3: 64, 4: 64}); fmt.Sprint(of) != want {
		t.Errorf("pods tried again, by class: got %v, want %v", of, want)
	}
	flip(0)
	at = at.Add(time.Second / 2)
	flip(retellings / 2)
	at = at.Add(time.Hour)
	flip(retellings)
	check(t, q)
}

// To find those first that an event may move takes no walk in order past those that it may not.
func TestFirstOfFewThatAnEventMayMove(t *testing.T) {
	const high, low = 1000, 10
	asked := 0
	b := &bucket{heap: heap{slots: true, before: func(x, y *Pod) bool { asked++; return before(x, y) }}}
	for i := range high + low {
		p := &Pod{Obj: build.Pod("p").Obj(), Seq: uint64(i + 1)}
		if i < high {
			p.Priority = 9
		}
		b.push(p)
	}
	priority := int32(1)
	for n, want := range map[int]string{0: "[]", 3: "[1001 1002 1003]", 99: "[1001 1002 1003 1004 1005 1006 1007 1008 1009 1010]"} {
		asked = 0
		var got []uint64
		for _, p := range b.first(n, &Event{atMost: &priority}, nil) {
			got = append(got, p.Seq)
		}
		if fmt.Sprint(got) != want || asked > high {
			t.Errorf("the first %d: got %v after %d comparisons, want %s and at most %d", n, got, asked, want, high)
		}
	}
}
