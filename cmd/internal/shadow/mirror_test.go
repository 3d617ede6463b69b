package shadow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// rig is a mirror whose clock and events are a test's.
type rig struct {
	*Mirror
	t        testing.TB
	now      time.Time
	revision int64
}

// newRig makes a mirror of a cluster. Times are in seconds: events are held back for 2.
func newRig(t testing.TB, all *objects.Snapshot, change ...func(*MirrorConfig)) *rig {
	t.Helper()
	x := &rig{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), revision: 100}
	cfg := MirrorConfig{
		Scheduler: coordinator.SchedulerConfig{Cluster: "shadow", Term: 1}, Now: func() time.Time { return x.now },
		Words: func(pod string, e *pb.ExplainResponse) string {
			return fmt.Sprintf("%s: %d of %d", pod, e.GetFeasible(), e.GetNodes())
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	m, err := NewMirror(cfg)
	if err != nil {
		t.Fatal(err)
	}
	x.Mirror = m
	m.Load(all)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.scheduler.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return x
}

// happens delivers a change now.
func (x *rig) happens(what objects.EventType, obj objects.Object) {
	x.revision++
	x.happensAt(x.revision, what, obj)
}

func (x *rig) happensAt(revision int64, what objects.EventType, obj objects.Object) {
	e := objects.Event{Type: what, Kind: objects.KindOf(obj), Revision: revision}
	switch obj := obj.(type) {
	case *v1.Node:
		e.Node = obj
	case *v1.Pod:
		e.Pod = obj
	default:
		e.Object = obj
	}
	x.Deliver([]objects.Event{e})
}

// after lets time pass, and the mirror do what is due.
func (x *rig) after(seconds float64) {
	x.t.Helper()
	x.now = x.now.Add(time.Duration(seconds * float64(time.Second)))
	if err := x.step(x.t.Context(), false); err != nil {
		x.t.Fatal(err)
	}
}

// comes and binds deliver a pod, and its bind.
func (x *rig) comes(p *v1.Pod) *v1.Pod { x.happens(objects.Added, p); return p }

func (x *rig) binds(p *v1.Pod, node string) *v1.Pod {
	bound := p.DeepCopy()
	bound.Spec.NodeName, bound.Status.Conditions = node, nil
	x.happens(objects.Modified, bound)
	return bound
}

// refuses delivers that they have found no node for a pod, and nominate it; empty: to none.
func (x *rig) refuses(p *v1.Pod, message, nominated string) *v1.Pod {
	refused := p.DeepCopy()
	refused.Status.NominatedNodeName = nominated
	refused.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: message}}
	x.happens(objects.Modified, refused)
	return refused
}

// evicts delivers that a pod has to leave for another.
func (x *rig) evicts(p *v1.Pod) *v1.Pod {
	leaving := p.DeepCopy()
	leaving.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
	x.happens(objects.Modified, leaving)
	return leaving
}

// want holds how many decisions are of which class, and what was not judged, to words such as "same 2, lower 1; behind 3".
func (x *rig) want(classes string) Agreement {
	x.t.Helper()
	a := x.Agreement()
	var list []string
	for _, c := range a.Classes {
		if c.Pods > 0 {
			list = append(list, fmt.Sprintf("%s %d", c.Class, c.Pods))
		}
	}
	got := strings.Join(list, ", ")
	for _, c := range a.NotJudged {
		got += fmt.Sprintf("; %s %d", c.What, c.Pods)
	}
	if got != classes {
		x.t.Errorf("got %q, want %q: %+v", got, classes, a.Disagreements)
	}
	sum := 0
	for _, c := range a.Classes {
		sum += c.Pods
	}
	if sum != a.Judged {
		x.t.Errorf("%d decisions are judged, and classes add up to %d", a.Judged, sum)
	}
	return a
}

func nodes(list ...*build.NodeBuilder) *objects.Snapshot {
	all := &objects.Snapshot{}
	for _, n := range list {
		all.Nodes = append(all.Nodes, n.Obj())
	}
	return all
}

func TestTheirChoicesAreJudged(t *testing.T) {
	x := newRig(t, nodes(build.Node("a").CPU("4").Memory("8Gi"), build.Node("b").CPU("4").Memory("8Gi"), build.Node("c").CPU("8").Memory("16Gi"),
		build.Node("tainted").CPU("64").Memory("64Gi").Taint("k=v:NoSchedule")))
	x.binds(x.comes(build.Pod("same").CPU("1").Memory("1Gi").Obj()), "c")
	x.after(2)
	x.want("same 1")
	x.binds(x.comes(build.Pod("lower").CPU("1").Memory("1Gi").Label("pod-template-hash", "x").Owner("apps/v1", "ReplicaSet", "web-x").Obj()), "b")
	x.after(2)
	a := x.want("same 1, lower 1")
	d := a.Disagreements[0]
	if d.Theirs != "b" || d.Ours != "c" || d.Regret <= 0 || !strings.Contains(d.Why, "NodeResources") || d.Explanation != "default/lower: 3 of 4" {
		t.Errorf("got %+v, want b below c by a plugin's score, and an explanation", d)
	}
	if w := a.Workloads; len(w) != 1 || w[0].Kind != "Deployment" || w[0].Name != "web" || w[0].Regret != d.Regret || w[0].Example != "default/lower" {
		t.Errorf("got workloads %+v, want the regret of Deployment web", w)
	}
	sum := 0
	for _, b := range a.Regret {
		if sum += b.Pods; b.From <= d.Regret && d.Regret <= b.To && b.Pods != 1 {
			t.Errorf("got %d in %d to %d, want the one pod that is lower", b.Pods, b.From, b.To)
		}
	}
	if sum != 2 || a.Regret[0].Pods != 1 {
		t.Errorf("got %+v, want two pods, one without regret", a.Regret)
	}
	x.binds(x.comes(build.Pod("refused").CPU("1").Memory("1Gi").Obj()), "tainted")
	x.after(2)
	if a = x.want("same 1, lower 1, refused 1"); !strings.Contains(a.Disagreements[0].Why, "TaintToleration") || a.Disagreements[0].Ours == "" {
		t.Errorf("got %+v, want TaintToleration to refuse, and another node", a.Disagreements[0])
	}
	x.binds(x.comes(build.Pod("large").CPU("32").Memory("1Gi").Obj()), "tainted")
	x.after(2)
	if a = x.want("same 1, lower 1, refused 1, only_theirs 1"); a.Disagreements[1].Class != OnlyTheirs || a.Disagreements[1].Ours != "" {
		t.Errorf("got %+v, want the classes in their order", a.Disagreements)
	}
	y := newRig(t, nodes(build.Node("a").CPU("4"), build.Node("b").CPU("4")))
	for i, node := range []string{"a", "b"} {
		p := y.comes(build.Pod(fmt.Sprintf("tie-%d", i)).CPU("1").Obj())
		y.binds(p, node)
		y.after(2)
		y.happens(objects.Deleted, p)
		y.after(2)
	}
	y.want("same 1, tie 1")
}

// What they do not look at they can't choose.
func TestALowerScoreIsTheirSampling(t *testing.T) {
	x := newRig(t, nodes(build.Node("a").CPU("4"), build.Node("b").CPU("8")), func(c *MirrorConfig) {
		c.ToFind = func(profile string, nodes int) int { return nodes / 2 }
	})
	x.binds(x.comes(build.Pod("p").CPU("1").Obj()), "a")
	x.after(2)
	if a := x.want("lower 1"); a.LookedAt != 0.5 || !strings.Contains(a.Disagreements[0].Why, "stop looking after 1 feasible nodes, of 2") {
		t.Errorf("got %+v, want half of the nodes", a)
	}
}

// A scheduler counts what it has decided, whether it is bound or not: binds in another order than decisions are no disagreement.
func TestDecisionsAreJudgedInTheOrderOfTheirQueue(t *testing.T) {
	x := newRig(t, nodes(build.Node("a").CPU("4").Memory("8Gi"), build.Node("b").CPU("3").Memory("8Gi")))
	first := x.comes(build.Pod("first").CPU("2").Memory("1Gi").Obj())
	second := x.comes(build.Pod("second").CPU("2").Memory("1Gi").Obj())
	x.binds(second, "b") // with first on a
	x.after(0.5)
	x.binds(first, "a")
	x.after(2)
	a := x.want("same 2")
	if len(a.States) != 1 || a.States[0] != (Count{queueOrder, 1}) {
		t.Errorf("got %v, want one pod that agrees %s", a.States, queueOrder)
	}
	// By their queue the pod of higher priority is first, though it came later. Its bind comes later than the mirror looks ahead.
	y := newRig(t, nodes(build.Node("a").CPU("4").Memory("8Gi"), build.Node("b").CPU("3").Memory("8Gi")))
	low := y.comes(build.Pod("low").CPU("2").Memory("1Gi").Obj())
	high := y.comes(build.Pod("high").CPU("2").Memory("1Gi").Priority(9).Obj())
	y.binds(low, "b")
	y.after(2)
	y.want("lower 1")
	y.binds(high, "a")
	y.after(2)
	if a = y.want("same 1, lower 1"); len(a.States) != 0 && a.States[0].What != queueOrder {
		t.Errorf("got %v", a.States)
	}
}

// What happens between a decision and its bind is not in the state that it was made at.
func TestDecisionsAreJudgedBeforeWhatCameAfter(t *testing.T) {
	all := nodes(build.Node("a").CPU("8").Memory("8Gi"), build.Node("b").CPU("4").Memory("8Gi"))
	full := build.Pod("full").CPU("8").Memory("4Gi").Node("a").Obj()
	all.Pods = []*v1.Pod{full}
	x := newRig(t, all)
	p := x.comes(build.Pod("p").CPU("1").Memory("1Gi").Obj())
	x.happens(objects.Deleted, full)
	x.happens(objects.Added, build.Node("c").CPU("64").Memory("64Gi").Obj())
	later := x.comes(build.Pod("later").CPU("1").Memory("1Gi").Obj())
	x.binds(p, "b") // as a was full, and c not there
	x.binds(later, "c")
	x.after(2)
	a := x.want("same 2")
	if len(a.States) != 1 || a.States[0] != (Count{beforeOthers, 1}) {
		t.Errorf("got %v, want one pod that agrees %s", a.States, beforeOthers)
	}
	// All is as it is after that: a pod that comes later sees c, and room on a.
	got, err := x.scheduler.Summary(t.Context())
	if err != nil || got.Nodes != 3 {
		t.Errorf("got %v, %v, want 3 nodes", got, err)
	}
	x.binds(x.comes(build.Pod("next").CPU("8").Memory("1Gi").Obj()), "a")
	x.after(2)
	if a = x.want("same 2, lower 1"); a.Disagreements[0].Ours != "c" {
		t.Errorf("got %+v, want a with room for the pod, and c before it", a.Disagreements[0])
	}
}

// A pod that waits out its backoff is decided after pods that came later, and may be bound before them.
func TestDecisionsAreJudgedWithWhatIsBoundLater(t *testing.T) {
	x := newRig(t, nodes(build.Node("a").CPU("4").Memory("8Gi"), build.Node("b").CPU("3").Memory("8Gi")))
	full := build.Pod("full").CPU("4").Memory("1Gi").Priority(100).Obj()
	gone := x.binds(x.comes(full), "a")
	x.after(2)
	tried := x.refuses(x.comes(build.Pod("first").CPU("4").Memory("1Gi").Obj()), "nobody has room", "")
	first := tried.DeepCopy()
	first.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2")
	x.happens(objects.Deleted, gone)
	x.happens(objects.Modified, first)
	x.after(2)
	x.after(31) // too long ago to look back at
	second := x.comes(build.Pod("second").CPU("2").Memory("1Gi").Obj())
	x.binds(first, "b") // with second on a
	x.after(0.5)
	x.binds(second, "a")
	x.after(2)
	if a := x.want("same 3, neither 1"); len(a.States) != 1 || a.States[0] != (Count{withLater, 1}) {
		t.Errorf("got %v, want one pod that agrees %s", a.States, withLater)
	}
}

// Whatever a search for other states has done, the mirror is what the cluster is.
func TestOtherStatesLeaveNothingBehind(t *testing.T) {
	all := nodes(build.Node("a").CPU("8").Memory("8Gi"), build.Node("b").CPU("4").Memory("8Gi"), build.Node("tainted").CPU("9").Taint("k=v:NoSchedule"))
	x := newRig(t, all)
	var pods []*v1.Pod
	for i := range 6 {
		pods = append(pods, x.comes(build.Pod(fmt.Sprintf("p%d", i)).CPU("1").Memory("1Gi").Priority(int32(i%3)).Obj()))
	}
	bad := x.comes(build.Pod("bad").CPU("1").Memory("1Gi").Priority(1).Obj())
	foreign := build.Pod("foreign").CPU("1").Memory("1Gi").Obj()
	foreign.Spec.SchedulerName = "another"
	x.comes(foreign)
	var there []*v1.Pod
	for i, p := range pods[:5] {
		there = append(there, x.binds(p, []string{"a", "b"}[i%2]))
	}
	x.binds(foreign, "b")
	nominee := x.comes(build.Pod("nominee").CPU("8").Memory("1Gi").Priority(5).Obj())
	kept := nominee.DeepCopy()
	kept.Status.NominatedNodeName = "a"
	x.happens(objects.Modified, kept)
	x.happens(objects.Deleted, kept) // while it keeps room on a node
	x.happens(objects.Deleted, there[0])
	cordoned := build.Node("b").CPU("4").Memory("8Gi").Unschedulable().Obj()
	x.happens(objects.Modified, cordoned)
	x.binds(bad, "tainted")
	x.binds(pods[5], "a")
	x.after(2)
	if a := x.Agreement(); a.Pods(Refused) != 1 || a.Judged != 8 {
		t.Errorf("got %+v, want one of 8 pods refused", a.Classes)
	}
	fresh := newRig(t, &objects.Snapshot{Nodes: []*v1.Node{all.Nodes[0], cordoned, all.Nodes[2]}, Pods: func() (list []*v1.Pod) {
		for _, obj := range x.last {
			if p, pod := obj.(*v1.Pod); pod {
				list = append(list, p)
			}
		}
		return list
	}()})
	probe := build.Pod("probe").CPU("1").Memory("1Gi").Obj()
	ask := func(y *rig) string {
		y.comes(probe)
		y.after(2)
		out, err := y.scheduler.Explain(t.Context(), &pb.ExplainRequest{Namespace: "default", Name: "probe", AllNodes: true})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(out.Feasible, out.Verdicts)
	}
	if got, want := ask(x), ask(fresh); got != want {
		t.Errorf("got\n%s, want as in a cluster that was always so\n%s", got, want)
	}
}

func TestWhatTheyLeavePendingIsLookedAtAgain(t *testing.T) {
	x := newRig(t, nodes(build.Node("a").CPU("4")))
	x.refuses(x.comes(build.Pod("large").CPU("8").Obj()), "too large", "")
	x.after(2)
	x.want("neither 1")
	x.refuses(x.comes(build.Pod("fits").CPU("1").Obj()), "no room", "")
	x.after(2)
	x.after(19)
	x.want("neither 1") // for the cluster may have changed just then
	x.after(2)
	a := x.want("neither 1, only_ours 1")
	if d := a.Disagreements[0]; d.Theirs != "" || d.Ours != "a" || d.Why != "they said: no room" {
		t.Errorf("got %+v, want node a, and what they said", d)
	}
	// One that is bound meanwhile was not left pending.
	later := x.refuses(x.comes(build.Pod("later").CPU("1").Obj()), "no room", "")
	x.after(2)
	x.binds(later, "a")
	x.after(2)
	x.after(28)
	x.want("same 1, neither 1, only_ours 1")
	// The first fits once there is a node for it, and they do not try it again.
	x.happens(objects.Added, build.Node("large").CPU("64").Obj())
	x.after(2)
	x.after(200)
	x.want("same 1, neither 1, only_ours 1")
	x.after(30)
	x.want("same 1, neither 1, only_ours 2")
	// A refusal before room came is theirs, too.
	y := newRig(t, nodes(build.Node("a").CPU("4")))
	y.comes(build.Pod("p").CPU("8").Obj())
	y.happens(objects.Added, build.Node("b").CPU("16").Obj())
	y.refuses(build.Pod("p").CPU("8").Obj(), "before b came", "")
	y.after(2)
	y.want("neither 1")
}

func TestPreemptionsAreHeldAgainstOurs(t *testing.T) {
	low := func(name, node string, priority int32) *v1.Pod {
		return build.Pod(name).CPU("3").Node(node).Priority(priority).Obj()
	}
	begin := func(t *testing.T) (x *rig, one, two, preemptor *v1.Pod) {
		all := nodes(build.Node("a").CPU("4"), build.Node("b").CPU("4"))
		one, two = low("one", "a", 1), low("two", "b", 2)
		all.Pods = []*v1.Pod{one, two}
		x = newRig(t, all)
		return x, one, two, x.comes(build.Pod("preemptor").CPU("4").Priority(10).Obj())
	}
	t.Run("the nomination comes first", func(t *testing.T) {
		x, one, _, p := begin(t)
		p = x.refuses(p, "nobody has room", "a")
		x.happens(objects.Deleted, x.evicts(one))
		x.after(1)
		x.binds(p, "a")
		x.after(2)
		x.want("same 2") // the preemption, and the bind
	})
	t.Run("the victim comes first, and is gone", func(t *testing.T) {
		x, one, _, p := begin(t)
		x.happens(objects.Deleted, x.evicts(one))
		x.refuses(p, "nobody has room", "a")
		x.after(2)
		x.after(4)
		x.want("same 1")
	})
	t.Run("other victims", func(t *testing.T) {
		x, _, two, p := begin(t)
		x.refuses(p, "nobody has room", "b")
		x.evicts(two)
		x.after(2)
		x.want("")
		x.after(4)
		d := x.want("victims 1").Disagreements[0]
		if d.Theirs != "b" || d.Ours != "a" || d.Why != "they preempt default/two (2), and we would default/one (1)" {
			t.Errorf("got %+v, want both with their victims", d)
		}
	})
	t.Run("as good a victim", func(t *testing.T) {
		all := nodes(build.Node("a").CPU("4"), build.Node("b").CPU("4"))
		one, two := low("one", "a", 1), low("two", "b", 1)
		all.Pods = []*v1.Pod{one, two}
		ours := map[bool]int{}
		for _, node := range []string{"a", "b"} {
			x := newRig(t, all)
			x.refuses(x.comes(build.Pod("preemptor").CPU("4").Priority(10).Obj()), "nobody has room", node)
			x.evicts(map[string]*v1.Pod{"a": one, "b": two}[node])
			x.after(2)
			x.after(4)
			a := x.Agreement()
			if a.Judged != 1 || a.Pods(Same)+a.Pods(Tie) != 1 {
				t.Errorf("node %s: got %+v, want the same or a tie", node, a.Classes)
			}
			ours[a.Pods(Same) == 1]++
		}
		if ours[true] != 1 {
			t.Errorf("got %v, want one of both nodes to be ours", ours)
		}
	})
	t.Run("where we have a node", func(t *testing.T) {
		x, one, _, p := begin(t)
		x.happens(objects.Added, build.Node("free").CPU("4").Obj())
		x.after(3)
		for range 40 { // what came before is too long ago
			x.after(1)
		}
		q := x.comes(build.Pod("second").CPU("4").Priority(10).Obj())
		x.refuses(q, "nobody has room", "a")
		x.evicts(one)
		x.after(2)
		x.after(4)
		if d := x.want("only_ours 1").Disagreements[0]; d.Ours != "free" || !strings.Contains(d.Why, "default/one (1) on a") {
			t.Errorf("got %+v, want node free", d)
		}
		_ = p
	})
	t.Run("two on one node", func(t *testing.T) {
		all := nodes(build.Node("a").CPU("6"))
		one, two := low("one", "a", 1), low("two", "a", 2)
		all.Pods = []*v1.Pod{one, two}
		x := newRig(t, all)
		p := x.comes(build.Pod("first").CPU("6").Priority(10).Obj())
		q := x.comes(build.Pod("second").CPU("6").Priority(20).Obj())
		x.refuses(p, "nobody has room", "a")
		x.evicts(one)
		x.refuses(q, "nobody has room", "a")
		x.evicts(two)
		x.after(2)
		x.after(4)
		x.want("same 2") // whose victims these are is not known
	})
	t.Run("others of one among several", func(t *testing.T) {
		x, _, two, p := begin(t)
		q := x.comes(build.Pod("second").CPU("4").Priority(20).Obj())
		x.refuses(p, "nobody has room", "b")
		x.evicts(two)
		x.refuses(q, "nobody has room", "b")
		x.after(2)
		x.after(4)
		x.want("; " + amongOthers + " 2")
	})
	t.Run("an expectation is a choice", func(t *testing.T) {
		x := newRig(t, nodes(build.Node("a").CPU("4"), build.Node("b").CPU("8")))
		p := x.comes(build.Pod("p").CPU("1").Obj())
		expected := p.DeepCopy()
		expected.Status.NominatedNodeName = "a"
		x.happens(objects.Modified, expected)
		x.after(2)
		x.want("lower 1")
		x.binds(expected, "a")
		x.after(2)
		x.want("lower 1") // it was judged when it was decided
	})
}

func TestWhatIsNotJudgedIsCounted(t *testing.T) {
	x := newRig(t, nodes(build.Node("a").CPU("4")), func(c *MirrorConfig) {
		c.NotAsked = func(p *v1.Pod) string {
			if p.Labels["app"] == "gpu" {
				return "extender http://gpu has a say in it"
			}
			return ""
		}
	})
	gpu := x.comes(build.Pod("gpu").CPU("1").Label("app", "gpu").Obj())
	gpu = x.refuses(gpu, "the extender says so", "")
	x.binds(gpu, "a")
	x.happens(objects.Added, build.Pod("static").CPU("1").Node("a").Obj())
	foreign := build.Pod("foreign").CPU("1").Obj()
	foreign.Spec.SchedulerName = "another"
	x.binds(x.comes(foreign), "a") // the report's schedulers have it
	gone := x.comes(build.Pod("gone").CPU("1").Obj())
	x.happens(objects.Deleted, gone)
	leaving := x.comes(build.Pod("leaving").CPU("1").Terminating().Obj())
	x.binds(leaving, "a")
	x.after(2)
	x.want("; " + strings.Join([]string{wasLeaving + " 1", "extender http://gpu has a say in it 1", wentPending + " 1", seenBound + " 1"}, "; "))
}

// Judging that falls behind does not wait for ever, and catches up.
func TestJudgingIsBounded(t *testing.T) {
	x := newRig(t, nodes(build.Node("a").CPU("400").Pods("400")), func(c *MirrorConfig) { c.limits.held = 8 })
	p := x.comes(build.Pod("late").CPU("1").Obj())
	x.binds(p, "a")
	x.after(13)
	x.want("; " + behind + " 1")
	x.binds(x.comes(build.Pod("in-time").CPU("1").Obj()), "a")
	x.after(2)
	x.want("same 1; " + behind + " 1")
	// More events than are held back are taken in before their time.
	for i := range 20 {
		x.binds(x.comes(build.Pod(fmt.Sprintf("many-%d", i)).CPU("1").Obj()), "a")
	}
	x.after(0)
	if got := x.Agreement(); got.Judged != 1+16 || len(x.held) != 8 {
		t.Errorf("got %d judged and %d held back, want 17 and 8", got.Judged, len(x.held))
	}
	// No search for other states while it is late.
	y := newRig(t, nodes(build.Node("a").CPU("4"), build.Node("tainted").CPU("4").Taint("k=v:NoSchedule")))
	q := y.comes(build.Pod("q").CPU("1").Obj())
	y.binds(q, "tainted")
	y.comes(build.Pod("behind-it").CPU("1").Obj())
	y.after(8)
	y.want("; " + behind + " 1")
}

func TestEarlierStatesAreBounded(t *testing.T) {
	x := newRig(t, nodes(build.Node("a").CPU("400").Pods("400"), build.Node("tainted").CPU("4").Taint("k=v:NoSchedule")), func(c *MirrorConfig) {
		c.limits.back, c.limits.states = 32, 5
	})
	p := x.comes(build.Pod("p").CPU("1").Obj())
	for i := range 40 {
		x.binds(x.comes(build.Pod(fmt.Sprintf("p-%d", i)).CPU("1").Obj()), "a")
	}
	x.binds(p, "tainted")
	x.after(2)
	x.want("same 40, refused 1")
	if len(x.log) != 32 {
		t.Errorf("got %d changes to look back at, want 32", len(x.log))
	}
	trip := &trip{m: x.Mirror, ctx: t.Context(), known: &pendingPod{obj: build.Pod("no").Obj()}, agrees: func(*coordinator.Judgement) bool { return false },
		left: 5, undone: map[uint64]bool{}}
	if _, err := trip.back(true); err != nil || trip.left > 0 {
		t.Errorf("got %v, and %d of 5 states left, want all judged", err, trip.left)
	}
	trip.restore()
	x.after(31)
	x.comes(build.Pod("last").Obj())
	x.after(2)
	if len(x.log) != 1 {
		t.Errorf("got %d changes after their time, want the last", len(x.log))
	}
}

// Kinds come by watches of their own: revisions tell in which order all happened.
func TestEventsAreJudgedInTheOrderOfTheirRevisions(t *testing.T) {
	x := newRig(t, nodes(build.Node("a").CPU("4")))
	p := build.Pod("p").CPU("1").Obj()
	bound := p.DeepCopy()
	bound.Spec.NodeName = "b"
	x.happensAt(201, objects.Added, p)
	x.happensAt(203, objects.Modified, bound)
	x.happensAt(202, objects.Added, build.Node("b").CPU("64").Obj()) // by a slower watch
	// What has no revision stays where it came.
	x.happensAt(0, objects.Deleted, build.Node("a").CPU("4").Obj())
	x.after(2)
	x.want("same 1")
	var order []int64
	for _, r := range []int64{5, 7, 6, 0} {
		x.happensAt(r, objects.Modified, build.Node("b").CPU("64").Obj())
	}
	for _, e := range x.held {
		order = append(order, e.Revision)
	}
	if !slices.Equal(order, []int64{5, 7, 6, 0}) {
		t.Errorf("got revisions %v, want one kind's events as they came", order)
	}
}

func TestDisagreementsAreBounded(t *testing.T) {
	tl := newTally()
	explained := 0
	for i := range 3 * maxWorkloads / 2 {
		p := build.Pod(fmt.Sprintf("p%d", i)).Obj()
		d := Disagreement{Class: Lower, Regret: int64(1 + i%1000), When: epoch.Add(time.Duration(i) * time.Second)}
		if i%2 == 0 && i/2 < 2*maxGrave {
			d = Disagreement{Class: Refused}
		}
		tl.disagree(p, d, func() string { explained++; return strings.Repeat("é", maxExplanation) })
	}
	before := explained
	tl.disagree(build.Pod("at-once").Obj(), Disagreement{Class: Lower, Regret: 1 << 20, When: tl.replaced.Add(replaceEvery - 1)}, func() string {
		explained++
		return ""
	})
	if explained != before || explained > 3*maxWorkloads {
		t.Errorf("%d explanations were made, and one more within a second", explained)
	}
	a := tl.report()
	lower, grave, long := 0, 0, 0
	for _, d := range a.Disagreements {
		switch {
		case d.Class == Refused:
			grave++
		case d.Regret < 990:
			t.Fatalf("kept a regret of %d, want the highest alone", d.Regret)
		default:
			lower++
		}
		if len(d.Explanation) > 0 {
			long++
		}
		if len(d.Explanation) > maxExplanation+4 || strings.ToValidUTF8(d.Explanation, "") != d.Explanation {
			t.Fatalf("an explanation has %d bytes", len(d.Explanation))
		}
	}
	if lower != MaxDisagreements || grave != maxGrave || long != 2*MaxDisagreements {
		t.Errorf("kept %d lower and %d refused, %d with explanations; want %d, %d and %d", lower, grave, long, MaxDisagreements, maxGrave, 2*MaxDisagreements)
	}
	if len(tl.workloads) != maxWorkloads+1 || len(a.Workloads) != toldWorkloads || a.Workloads[0].Kind != others.kind {
		t.Errorf("got %d workloads, %d told, %s first", len(tl.workloads), len(a.Workloads), a.Workloads[0].Kind)
	}
	tl.addRegret(build.Pod("p").Obj(), 1<<40)
	if list := tl.report().Regret; list[len(list)-1].Pods != 2 || list[len(list)-3].Pods == 0 {
		t.Errorf("got %+v, want two pods at the last end", list)
	}
}

func TestStraysAreBounded(t *testing.T) {
	x := newRig(t, nodes(build.Node("a").CPU("4").Pods("9999")))
	for i := range maxStrays + 10 {
		x.evicts(build.Pod(fmt.Sprintf("v%d", i)).Node("a").Obj())
	}
	x.after(2)
	if len(x.strays) != maxStrays || x.strays[0].pod.Name != "v10" {
		t.Errorf("got %d victims without a preemptor from %s on, want %d", len(x.strays), x.strays[0].pod.Name, maxStrays)
	}
}

// What was held back in the end is judged, too.
func TestAMirrorEndsWithWhatItHas(t *testing.T) {
	m, err := NewMirror(MirrorConfig{Scheduler: coordinator.SchedulerConfig{Cluster: "shadow", Term: 1}})
	if err != nil {
		t.Fatal(err)
	}
	m.Load(nodes(build.Node("a").CPU("4")))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	p := build.Pod("p").CPU("1").Obj()
	bound := p.DeepCopy()
	bound.Spec.NodeName = "a"
	bound.CreationTimestamp = metav1.Now()
	m.Deliver([]objects.Event{{Type: objects.Added, Kind: objects.KindPod, Pod: p, Revision: 1},
		{Type: objects.Modified, Kind: objects.KindPod, Pod: bound, Revision: 2}})
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if a := m.Agreement(); a.Pods(Same) != 1 {
		t.Errorf("got %+v, want the bind judged", a)
	}
}
