package coordinator

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// poison is the priority of pods that meet a bug.
const poison = 66

func isPoison(p *v1.Pod) bool { return p.Spec.Priority != nil && *p.Spec.Priority == poison }

// buggyCounters meets a bug with pods that are poison.
type buggyCounters struct {
	cache.Counters
	carry func()
	adds  func() []*pb.CounterValue // nil: what it is
}

func (c buggyCounters) Carry(p *v1.Pod) *count.Carried {
	if isPoison(p) && c.carry != nil {
		c.carry()
	}
	return c.Counters.Carry(p)
}

func (c buggyCounters) Contributions(p *v1.Pod) []*pb.CounterValue {
	if isPoison(p) && c.adds != nil {
		return c.adds()
	}
	return c.Counters.Contributions(p)
}

type buggyDepartures struct{ cache.Departures }

func (d buggyDepartures) Departure(p *v1.Pod, node string) ([]*pb.CounterValue, []*pb.SharedCount) {
	if isPoison(p) {
		panic("bug")
	}
	return d.Departures.Departure(p, node)
}

// buggyTables panic in the middle of a change.
type buggyTables struct {
	log           *answers.ChangeLog
	before, after func(d *pb.Delta) bool
}

func (b buggyTables) Changing(t *scorer.Table, d *pb.Delta) {
	b.log.Changing(t, d)
	if b.before != nil && b.before(d) {
		panic("bug")
	}
}

func (b buggyTables) Changed(t *scorer.Table, d *pb.Delta) {
	b.log.Changed(t, d)
	if b.after != nil && b.after(d) {
		panic("bug")
	}
}

func addsPoison(d *pb.Delta) bool { return d.GetAddPod() != nil && d.GetPod().GetPriority() == poison }

// once is f, but for its second answer of yes and those after it.
func once(f func(*pb.Delta) bool) func(*pb.Delta) bool {
	met := false
	return func(d *pb.Delta) bool {
		is := f(d) && !met
		met = met || is
		return is
	}
}

// leading is a leader that meets a bug, or whose tables refuse what they are told.
type leading struct {
	*trial
	registry *prometheus.Registry
}

func newLeading(t *testing.T, bug func(x *trial), all *objects.Snapshot) *leading {
	return newLeadingBy(t, nil, bug, all)
}

// newLeadingBy is newLeading with a clock.
func newLeadingBy(t *testing.T, now func() time.Time, bug func(x *trial), all *objects.Snapshot) *leading {
	x := &leading{registry: prometheus.NewRegistry()}
	x.trial = newTrial(t, SchedulerConfig{Shards: 2, Registerer: x.registry, Now: now}, 0)
	t.Cleanup(x.fanout.Close)
	bug(x.trial)
	x.Load(all, nil)
	return x
}

// decide has what is pending decided, and gives where pods are then, those that were tried in vain with "".
func (x *leading) decide(t *testing.T) map[string]string {
	t.Helper()
	for x.batch.popped = x.queue.PopBatch(100, nil); len(x.batch.popped) > 0; x.batch.popped = x.queue.PopBatch(100, nil) {
		x.schedule(quiet(), x.batch.popped)
		if x.err != nil {
			t.Fatalf("the term ended: %v", x.err)
		}
	}
	got := map[string]string{}
	for _, d := range x.decided(t) {
		got[strings.TrimPrefix(d.Pod, "default/")] = d.Node
	}
	return got
}

func (x *leading) wantQuarantined(t *testing.T, when string, want ...string) {
	t.Helper()
	var got []string
	for _, line := range gathered(t, x.registry, "shardsched_quarantined_objects") {
		if !strings.HasSuffix(line, " 0") {
			got = append(got, strings.TrimPrefix(line, "shardsched_quarantined_objects"))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: in quarantine: got %v, want %v (%v)", when, got, want, x.intake.Outside().Why())
	}
}

// TestNoObjectEndsATerm has one object meet a bug, or be refused by the tables. Each leader that finds it goes on:
// it tells, the other pods are placed, and nothing that the object takes is promised to them.
func TestNoObjectEndsATerm(t *testing.T) {
	huge := func() []*pb.CounterValue {
		return []*pb.CounterValue{{Counter: 1 << 20, Value: math.MaxInt64}, {Counter: 1 << 20, Value: math.MaxInt64}}
	}
	pod, node := `{kind=Pod} 1`, `{kind=Node} 1`
	for name, c := range map[string]struct {
		bug         func(x *trial)
		quarantined []string
		out         bool // the node is left out
	}{
		"its terms": {bug: func(x *trial) {
			x.state.UseCounters(buggyCounters{Counters: x.state.Counters(), carry: func() { panic("bug") }})
		}, quarantined: []string{pod}},
		"what it counts for": {bug: func(x *trial) {
			x.state.UseCounters(buggyCounters{Counters: x.state.Counters(), adds: func() []*pb.CounterValue { panic("bug") }})
		}, quarantined: []string{pod}},
		"what it counts for is refused": {bug: func(x *trial) {
			x.state.UseCounters(buggyCounters{Counters: x.state.Counters(), adds: huge})
		}, quarantined: []string{pod}},
		"what preemption looks at": {bug: func(x *trial) { x.state.UseDepartures(buggyDepartures{x.state}) }, quarantined: []string{pod}},
		"its row, whenever it is put there": {bug: func(x *trial) {
			x.state.Watch(buggyTables{log: x.answers.Log(), before: addsPoison})
		}, quarantined: []string{node, pod}, out: true},
		"its row, in the middle of the change, once": {bug: func(x *trial) {
			x.state.Watch(buggyTables{log: x.answers.Log(), after: once(addsPoison)})
		}, quarantined: []string{pod}},
		"its node": {bug: func(x *trial) {
			x.state.Watch(buggyTables{log: x.answers.Log(), before: func(d *pb.Delta) bool { return d.GetSetNode().GetName() == "a" }})
		}, quarantined: []string{node}, out: true},
	} {
		t.Run(name, func(t *testing.T) {
			on := build.Pod("on").CPU("3").Priority(poison).Label("k", "v").Node("a").Obj()
			all := &objects.Snapshot{Nodes: nodesOf("4", "a", "b"), Pods: []*v1.Pod{on}}
			for i := range 4 {
				all.Pods = append(all.Pods, cores(fmt.Sprint("p", i), "2"))
			}
			for _, leader := range []string{"the first leader", "the next one"} {
				x := newLeading(t, c.bug, all)
				x.wantQuarantined(t, leader, c.quarantined...)
				want := map[string]string{"p0": "b", "p1": "b", "p2": "", "p3": ""}
				if d := cmp.Diff(want, x.decide(t)); d != "" {
					t.Errorf("%s: pods (-want +got):\n%s", leader, d)
				}
				// An old object comes as new: the kubelet tells of the node, and of the pod.
				x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindNode, Node: all.Nodes[0].DeepCopy()})
				x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: on.DeepCopy()})
				if d := cmp.Diff(want, x.decide(t)); d != "" {
					t.Errorf("%s, when they come again: pods (-want +got):\n%s", leader, d)
				}
				// When the pod is gone, its room is there again, unless it is the node that meets the bug.
				x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: on})
				more := cores("q", "4")
				x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: more})
				room := "a"
				if name == "its node" {
					room = ""
					x.wantQuarantined(t, leader+", without the pod", node)
				} else {
					x.wantQuarantined(t, leader+", without the pod")
				}
				if got := x.decide(t)["q"]; got != room {
					t.Errorf("%s: when the pod is gone the next one is on %q, want %q", leader, got, room)
				}
			}
		})
	}
}

// A pod that is to be placed may meet the bug as well: its attempt ends in an error, nothing of it stays on the
// node, and the others are placed.
func TestNoPodEndsATermWhereItIsPlaced(t *testing.T) {
	for name, bug := range map[string]buggyTables{"before its row changes": {before: addsPoison}, "after that": {after: addsPoison}} {
		t.Run(name, func(t *testing.T) {
			all := &objects.Snapshot{Nodes: nodesOf("4", "a"), Pods: []*v1.Pod{
				build.Pod("bad").CPU("3").Priority(poison).Obj(), build.Pod("p").CPU("2").Obj(), build.Pod("q").CPU("2").Obj(),
			}}
			for _, leader := range []string{"the first leader", "the next one"} {
				x := newLeading(t, func(x *trial) {
					bug.log = x.answers.Log()
					x.state.Watch(bug)
				}, all)
				if d := cmp.Diff(map[string]string{"bad": "", "p": "a", "q": "a"}, x.decide(t)); d != "" {
					t.Errorf("%s: pods (-want +got):\n%s", leader, d)
				}
				if got := rowsOf(x.state.Cache)["a"]; !strings.Contains(got, "milli_cpu:4000") || !strings.Contains(got, "pods:2") {
					t.Errorf("%s: the row is %q, want two pods of 4 cores", leader, got)
				}
				if message := x.lines[0].Message; !strings.Contains(message, "panic: bug; not tried again for 5m0s") {
					t.Errorf("%s: the pod is told %q", leader, message)
				}
			}
		})
	}
}

// A pod that can not even be queued is left out, and a change of it is another try.
func TestAPodThatCanNotBeQueuedIsLeftOut(t *testing.T) {
	broken := false
	clock := func() time.Time {
		if broken {
			panic("bug")
		}
		return time.Now()
	}
	x := newLeadingBy(t, clock, func(*trial) {}, &objects.Snapshot{Nodes: nodesOf("4", "a")})
	bad := cores("bad", "1")
	broken = true // the clock is asked while the pod is put into the queue
	x.takeInFound(bad, func() { x.podSet(bad) })
	broken = false
	x.wantQuarantined(t, "at first", `{kind=Pod} 1`)
	if got := x.decide(t); len(got) != 0 || x.queue.Get(bad.UID) != nil {
		t.Errorf("got decisions %v, want none, and the pod is not in the queue", got)
	}
	x.podSet(bad)
	x.wantQuarantined(t, "when it comes again")
	if got := x.decide(t)["bad"]; got != "a" {
		t.Errorf("got it on %q, want a", got)
	}
}

// A pod that the tables do not take with its budgets is the one that is left out, and not the budget that has just come or
// changed.
func TestAPodThatMeetsABugInItsBudgetsIsLeftOut(t *testing.T) {
	bug := func(x *trial) {
		x.state.Watch(buggyTables{log: x.answers.Log(), before: func(d *pb.Delta) bool { return len(d.GetChangePod().GetBudgets()) > 0 }})
	}
	x := newLeading(t, bug, &objects.Snapshot{Nodes: nodesOf("4", "a"), Pods: []*v1.Pod{build.Pod("on").CPU("1").Label("k", "v").Node("a").Obj()}})
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k": "v"}}},
	}
	x.state.FollowBudgets(false) // somebody else keeps the status of budgets
	x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPodDisruptionBudget, Object: b})
	x.wantQuarantined(t, "it comes", `{kind=Pod} 1`)
	evicting := b.DeepCopy()
	evicting.Status.DisruptedPods = map[string]metav1.Time{"on": {}}
	x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPodDisruptionBudget, Object: evicting})
	x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPodDisruptionBudget, Object: b})
	x.wantQuarantined(t, "the pod was to be evicted", `{kind=Pod} 1`)
	x.podSet(cores("p", "3"))
	if got := x.decide(t)["p"]; got != "a" {
		t.Errorf("a pod beside it is on %q, want a", got)
	}
	x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPodDisruptionBudget, Object: b})
	x.podSet(build.Pod("on").CPU("1").Label("k", "v").Node("a").Obj())
	x.wantQuarantined(t, "it is gone, and the pod comes again")
}
