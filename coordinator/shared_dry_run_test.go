package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// preemptor is the i-th pod of several classes, in turn, that take a full node each.
func preemptor(i int) *build.PodBuilder {
	p := build.Pod(fmt.Sprintf("p%d", i)).CPU("4").Priority(10).NodeSelector("pool", "full")
	switch i % 3 {
	case 1:
		p.Label("app", "spread").Spread(build.Hard(v1.LabelHostname, 1, "app=spread"))
	case 2:
		p.Label("app", "apart").Apart(build.Around(v1.LabelHostname, "app=apart"))
	}
	return p
}

// judgedRows is how many rows the loop has judged by itself, for repairs and nominations.
func (x *trial) judgedRows() int { return x.answers.Work().Judged }

// A thousand preemptors of three classes come with a thousand pods of lower priority that fit elsewhere:
// the latter are placed in the same turn, each preemptor has a node of its own, and what is looked at
// grows with the pods, not with their square.
func TestAThousandPreemptorsAndOthers(t *testing.T) {
	const full, free, each = 1100, 100, 1000
	all := &objects.Snapshot{}
	for i := range full + free {
		name, pool := fmt.Sprintf("n%d", i), "full"
		if i >= full {
			pool = "free"
		}
		all.Nodes = append(all.Nodes, build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name).Label("pool", pool).Obj())
		if pool == "full" {
			all.Pods = append(all.Pods, build.Pod("v"+name).CPU("4").Priority(1).Node(name).Obj())
		}
	}
	for i := range each {
		all.Pods = append(all.Pods, preemptor(i).Obj(), build.Pod(fmt.Sprintf("o%d", i)).CPU("100m").NodeSelector("pool", "free").Obj())
	}
	a := &fakeEvictor{}
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: withPreemption(), Evictor: a}, 0)
	defer x.fanout.Close()
	x.Load(all, nil)
	x.turn(t)
	nominated, placed := map[string]string{}, 0
	for _, d := range x.decided(t) {
		if strings.HasPrefix(d.Pod, "default/o") {
			if d.Node != "" {
				placed++
			}
			continue
		}
		if other := nominated[d.Nominated]; d.Nominated == "" || other != "" {
			t.Fatalf("%s is nominated to %q, as is %q: %s", d.Pod, d.Nominated, other, d.Message)
		}
		nominated[d.Nominated] = d.Pod
	}
	if placed != each || len(nominated) != each || len(a.told) != each {
		t.Errorf("%d pods are placed, %d nominated and %d evictions begun, want %d each", placed, len(nominated), len(a.told), each)
	}
	dryRuns, rows := x.counter("shardsched_preemption_dry_runs_total"), x.counter("shardsched_preemption_rows_total")
	// A dry run for each class and batch of preemptors; each row in it, and a few rows more for each
	// preemptor.
	if dryRuns > 3*3 || rows > 3*3*full+5*each {
		t.Errorf("%v dry runs over %v rows, want %d over %d at the most", dryRuns, rows, 3*3, 3*3*full+5*each)
	}
	if n := x.judgedRows(); n > 25*each {
		t.Errorf("%d rows were judged on the loop, want %d at the most", n, 25*each)
	}
	if max := uint64(2*each/512 + 2); x.batch.number > max {
		t.Errorf("%d batches, want %d at the most", x.batch.number, max)
	}
}

// What little changes between preemptors costs them little: no dry run over all nodes is made again for
// each.
func TestPreemptorsAmongChanges(t *testing.T) {
	const nodes, preemptors = 200, 60
	all := &objects.Snapshot{}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		all.Nodes = append(all.Nodes, build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name).Label("pool", "full").Obj())
		all.Pods = append(all.Pods, build.Pod("v"+name).CPU("3900m").Priority(1).Node(name).Obj())
	}
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: withPreemption(), Evictor: &fakeEvictor{}}, 0)
	defer x.fanout.Close()
	x.Load(all, nil)
	for i := range preemptors {
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: build.Pod(fmt.Sprintf("x%d", i)).CPU("100m").Node(fmt.Sprintf("n%d", i)).Obj()})
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: preemptor(3 * i).Obj()})
		x.turn(t)
	}
	nominated := map[string]bool{}
	for _, d := range x.decided(t) {
		if d.Nominated == "" || nominated[d.Nominated] {
			t.Fatalf("%s is nominated to %q: %s", d.Pod, d.Nominated, d.Message)
		}
		nominated[d.Nominated] = true
	}
	if n := x.counter("shardsched_preemption_dry_runs_total"); n != 1 {
		t.Errorf("%v dry runs, want 1", n)
	}
	// The row of each change and that of each nomination once.
	if n := x.counter("shardsched_preemption_rows_total"); n > nodes+3*preemptors {
		t.Errorf("%v rows were tried, want %d at the most", n, nodes+3*preemptors)
	}
}

// Budgets whose status changes cost preemptors the rows of the pods that they count, and no dry run over all nodes. What
// they allow is held to all the same: n7 has the best victim, which its budget protects at times.
func TestPreemptorsAmongChangesOfBudgets(t *testing.T) {
	const nodes, preemptors = 200, 30
	all := &objects.Snapshot{}
	for i := range nodes {
		name, priority := fmt.Sprintf("n%d", i), int32(1)
		if i == 7 {
			priority = 0
		}
		all.Nodes = append(all.Nodes, build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name).Label("pool", "full").Obj())
		all.Pods = append(all.Pods, build.Pod("v"+name).CPU("3900m").Priority(priority).Label("app", name).Node(name).Obj())
	}
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: withPreemption(), Evictor: &fakeEvictor{}, DisruptionController: true}, 0)
	defer x.fanout.Close()
	x.Load(all, nil)
	known := map[string]bool{}
	allow := func(name string, n int) {
		b := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: build.Selector("app=" + name)},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(n)},
		}
		e := &objects.Event{Type: objects.Added, Kind: objects.KindPodDisruptionBudget, Object: b}
		if known[name] {
			e.Type = objects.Modified
		}
		x.event(e)
		known[name] = true
	}
	allow("n7", 0)
	for i := range preemptors {
		allow("n9", i%2)
		if i == 20 {
			allow("n7", 1)
		}
		if i == 25 {
			allow("n11", 0) // a new one
		}
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: preemptor(3 * i).Obj()})
		x.turn(t)
	}
	for i, d := range x.decided(t) {
		if at7 := d.Nominated == "n7"; d.Nominated == "" || at7 != (i == 20) {
			t.Errorf("%s is nominated to %q, want n7 for the one after its budget allows it: %s", d.Pod, d.Nominated, d.Message)
		}
	}
	if n := x.counter("shardsched_preemption_dry_runs_total"); n != 1 {
		t.Errorf("%v dry runs, want 1", n)
	}
	if n := x.counter("shardsched_preemption_rows_total"); n > nodes+3*preemptors {
		t.Errorf("%v rows were tried, want %d at the most", n, nodes+3*preemptors)
	}
}

// A dry run is charged to the pod that it was made for, and to none that it serves later.
func TestADryRunIsChargedToWhoAskedForIt(t *testing.T) {
	const nodes, preemptors = 20, 5
	all := &objects.Snapshot{}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		all.Nodes = append(all.Nodes, build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name).Label("pool", "full").Obj())
		all.Pods = append(all.Pods, build.Pod("v"+name).CPU("3900m").Priority(1).Node(name).Obj())
	}
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: withPreemption(), Evictor: &fakeEvictor{}}, 0)
	defer x.fanout.Close()
	x.Load(all, nil)
	begun := x.cfg.Now()
	x.budget.free, x.cfg.Now = false, func() time.Time {
		return begun.Add(12 * time.Millisecond * time.Duration(x.counter("shardsched_preemption_dry_runs_total")))
	}
	var uids []types.UID
	for i := range preemptors {
		p := preemptor(3 * i).Obj()
		uids = append(uids, p.UID)
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
	}
	x.turn(t)
	x.decided(t)
	var cost time.Duration
	for _, uid := range uids {
		cost += x.queue.Get(uid).Cost
	}
	if n := x.counter("shardsched_preemption_dry_runs_total"); n != 1 || cost != 12*time.Millisecond {
		t.Errorf("got pods charged %v for %v dry runs, want 12ms for one", cost, n)
	}
}
