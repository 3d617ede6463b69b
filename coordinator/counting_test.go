package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// lacking is a term over the pods of all namespaces that lack a label.
func lacking(key, label string) build.PodTerm {
	return build.PodTerm{TopologyKey: key, NamespaceSelector: &metav1.LabelSelector{}, LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpDoesNotExist}},
	}}
}

// wide is a pod with four such terms of its own, by zone.
func wide(i int) *v1.Pod {
	name := fmt.Sprint("wide-", i)
	p := build.Pod(name).UID(name).CPU("1m")
	for k := range 4 {
		p.PreferNear(int32(1+(i+k)%7), lacking(v1.LabelTopologyZone, fmt.Sprintf("label-%d-%d", i, k)))
	}
	return p.Obj()
}

// crowded is so many nodes in two zones with ten pods each.
func crowded(nodes int) *objects.Snapshot {
	var all []*v1.Node
	var pods []*v1.Pod
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		all = append(all, build.Node(name).CPU("64").Memory("64Gi").Label(v1.LabelTopologyZone, fmt.Sprint(i%2)).Obj())
		for k := range 10 {
			p := fmt.Sprintf("%s-%d", name, k)
			pods = append(pods, build.Pod(p).UID(p).CPU("100m").Label("app", fmt.Sprint(k)).Node(name).Obj())
		}
	}
	return clusterOf(all, pods...)
}

// counts has counters come and go within such bounds; 0: as in a simulation.
func (x *stage) counts(steps int) {
	if err := x.call(x.ctx, func() {
		x.cache.counting = unboundedCounting()
		if steps > 0 {
			x.cache.counting.atOnce, x.cache.counting.perTurn, x.cache.counting.atLeast = steps, steps, 1
		}
	}); err != nil {
		x.t.Fatal(err)
	}
}

// askedCounters counts the pods that are asked what they add.
type askedCounters struct {
	*count.Registry
	asked int
}

func (c *askedCounters) Contributions(p *v1.Pod) []*pb.CounterValue {
	c.asked++
	return c.Registry.Contributions(p)
}

// Counters that any pod may add to are filled row by row, however many shards there are: no turn asks more pods than
// it has steps for, and one node's. They go in the same way.
func TestATurnFillsAPartOfACounter(t *testing.T) {
	const nodes, podsOfNode, steps = 64, 10, 100
	w := newState(1)
	asked := &askedCounters{Registry: w.counters}
	w.UseCounters(asked)
	all := crowded(nodes)
	for _, n := range all.Nodes {
		if _, err := w.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range all.Pods {
		if _, err := w.SetPod(p); err != nil {
			t.Fatal(err)
		}
	}
	w.counting.atOnce, w.counting.perTurn = steps, steps
	class, err := compile.New().Class(wide(0), rules.DefaultProfile(""), w)
	if err != nil {
		t.Fatal(err)
	}
	turns := func(what string) (n int) {
		t.Helper()
		for ; len(w.counting.fillings) > 0; n++ {
			asked.asked = 0
			if err := w.fillSome(func() bool { return false }); err != nil {
				t.Fatal(err)
			}
			if asked.asked > steps+podsOfNode {
				t.Fatalf("%s: a turn asks %d pods, want %d and a node's %d at the most", what, asked.asked, steps, podsOfNode)
			}
		}
		return n
	}
	asked.asked = 0
	if err := w.settle(); err != nil || asked.asked > 0 || !w.awaits(class) {
		t.Fatalf("new counters: got %d pods asked, filled %t, %v", asked.asked, !w.awaits(class), err)
	}
	w.open(class)
	if n := turns("filling"); n < len(all.Pods)/(steps+podsOfNode) || w.awaits(class) {
		t.Errorf("filled after %d turns, waits %t", n, w.awaits(class))
	}
	if got, want := w.Added(), 4*len(all.Pods); got != want {
		t.Errorf("pods add to %d counters, want %d", got, want)
	}
	w.counters.Drop(class.Scorer.Counters())
	w.dropSome()
	if turns("dropping"); w.Added() != 0 {
		t.Errorf("pods add to %d counters that are gone", w.Added())
	}
}

// While a pod's counters are filled others overtake it; it is decided as it would be if they were filled at once.
func TestPodsAreOvertakenUntilTheirCountersAreFilled(t *testing.T) {
	for steps, want := range map[int][]string{0: {"wide-0", "plain"}, 50: {"plain", "wide-0"}} {
		onStage(t, crowded(32), nil, func(x *stage) {
			x.counts(steps)
			x.Deliver([]objects.Event{added(wide(0)), added(cores("plain", "1"))})
			elapse(time.Second)
			var names []string
			for _, bind := range x.binder.seen {
				name, _, _ := strings.Cut(bind, "@")
				names = append(names, name)
			}
			if !slices.Equal(names, want) {
				t.Errorf("%d steps a turn: bound %q, want %q", steps, names, want)
			}
		})
	}
}

// However many pods bring counters that all pods add to, all of them get their nodes, the same as if none had to wait,
// and the counters that pods add to stay bounded.
func TestCountersOfManyPodsMakeRoom(t *testing.T) {
	const many = 60
	run := func(steps int) (binds []string, added, pods int) {
		onStage(t, crowded(32), nil, func(x *stage) {
			x.counts(steps)
			for i := range many {
				x.deliver(objects.Added, wide(i))
				elapse(time.Second)
			}
			binds = x.binder.seen
			if err := x.call(x.ctx, func() { added, pods = x.cache.Added(), len(x.binding)+320 }); err != nil {
				t.Fatal(err)
			}
			tables := &takenOff{}
			if err := x.call(x.ctx, func() { x.cache.Watch(tables) }); err != nil {
				t.Fatal(err)
			}
			out, err := x.Explain(x.ctx, &pb.ExplainRequest{Namespace: "default", Name: "wide-0"})
			if err != nil || out.GetFeasible() == 0 {
				t.Errorf("explanation of a pod whose counters have gone: got %v, %v", out, err)
			}
			if tables.pods > 3 { // to look what it needs, to ask for it once it may, and then to explain
				t.Errorf("%d steps a turn: an explanation that waits took its pod off its node %d times, want 3 at the most", steps, tables.pods)
			}
		})
		return binds, added, pods
	}
	want, _, _ := run(0)
	got, added, pods := run(500)
	if !slices.Equal(got, want) || len(got) != many {
		t.Errorf("bound %q, want %q", got, want)
	}
	if most := (addedPerPod + 2*4) * pods; added > most {
		t.Errorf("%d pods add to %d counters, want %d at the most", pods, added, most)
	}
}

// takenOff counts the pods that leave a node.
type takenOff struct{ pods int }

func (x *takenOff) Changing(*scorer.Table, *pb.Delta) {}
func (x *takenOff) Changed(_ *scorer.Table, d *pb.Delta) {
	if d.GetRemovePod() != nil {
		x.pods++
	}
}

// A workload whose label no counter was asked for by waits until all pods are looked through for it, a part each
// turn. Its counters are then filled from the pods with its label alone: all others are never asked.
func TestATurnFindsAPartOfThePodsByALabel(t *testing.T) {
	const apps, nodes, steps = 10, 64, 100
	onStage(t, crowded(nodes), nil, func(x *stage) {
		x.counts(steps)
		asked := &askedCounters{}
		if err := x.call(x.ctx, func() {
			asked.Registry = x.cache.counters
			x.cache.UseCounters(asked)
		}); err != nil {
			t.Fatal(err)
		}
		x.deliver(objects.Added, build.Pod("new").UID("new").CPU("1m").Label("app", "7").PreferNear(1, build.Around(v1.LabelTopologyZone, "app=8")).Obj())
		elapse(time.Second)
		if len(x.binder.seen) != 1 {
			t.Errorf("bound %q, want the pod", x.binder.seen)
		}
		if most := 2*10*nodes/apps + 10; asked.asked > most {
			t.Errorf("%d pods were asked what they add, want %d at the most", asked.asked, most)
		}
	})
}

// A namespace's flood of pods that wait for their counters, and that goes on, does not hold a pod of another.
func TestAFloodDoesNotHoldPodsOfOtherNamespaces(t *testing.T) {
	const flood = 20
	onStage(t, crowded(32), nil, func(x *stage) {
		x.counts(50)
		var events []objects.Event
		for i := range flood {
			p := wide(i)
			p.Namespace = "loud"
			events = append(events, added(p))
			if i == flood/2 {
				events = append(events, added(wide(flood)))
			}
		}
		x.Deliver(events)
		elapse(time.Minute)
		at := slices.IndexFunc(x.binder.seen, func(bind string) bool { return strings.HasPrefix(bind, fmt.Sprint("wide-", flood, "@")) })
		if len(x.binder.seen) != flood+1 || at < 0 || at > flood/4 { // pods of a batch are bound in any order
			t.Errorf("bound %q, want all, and wide-%d behind %d at the most", x.binder.seen, flood, flood/4)
		}
	})
}

// Terms by a key that a node gets begin to count: of all pods only those are asked that carry them.
func TestOnlyPodsThatCarryTermsAreAskedOnceTheirKeyAppears(t *testing.T) {
	w := newState(4)
	asked := &askedCounters{Registry: w.counters}
	w.UseCounters(asked)
	all := crowded(16)
	for i, n := range all.Nodes {
		if _, err := w.SetNode(n); err != nil {
			t.Fatal(err)
		}
		carrier := build.Pod(fmt.Sprint("c", i)).UID(fmt.Sprint("c", i)).Label("app", "7").PreferNear(1, build.Around("rack", "app=8")).Node(n.Name).Obj()
		if i < 3 {
			all.Pods = append(all.Pods, carrier)
		}
	}
	for _, p := range all.Pods {
		if _, err := w.SetPod(p); err != nil {
			t.Fatal(err)
		}
	}
	racked := all.Nodes[0].DeepCopy()
	racked.Labels["rack"] = "r"
	if _, err := w.SetNode(racked); err != nil {
		t.Fatal(err)
	}
	asked.asked = 0
	if err := w.settle(); err != nil || asked.asked != 3 {
		t.Errorf("got %d pods asked, %v, want the 3 that carry a term", asked.asked, err)
	}
	if got := w.Added(); got != 3 {
		t.Errorf("pods add to %d counters, want 3 to one", got)
	}
}

// Pods that leave count for a spread constraint with an empty selector, each in a dry run: all pods of the namespace are told of that,
// some each turn.
func TestATurnTellsAPartOfThePodsThatLeaveAnEmptySelector(t *testing.T) {
	const podsOfNode, most = 10, 20
	w, tables := newState(1), &toldBudgets{of: map[uint64][]uint32{}}
	w.Watch(tables)
	all := crowded(32)
	for _, n := range all.Nodes {
		if _, err := w.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range all.Pods {
		if _, err := w.SetPod(p); err != nil {
			t.Fatal(err)
		}
	}
	w.counting.atOnce, w.counting.perTurn = most*cache.TellSteps, most*cache.TellSteps
	p := build.Pod("p").UID("p").CPU("1m").Spread(build.Constraint{
		TopologyKey: v1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
	}).Obj()
	class, err := compile.New().Class(p, rules.DefaultProfile(""), w)
	if err == nil {
		err = w.settle()
	}
	if err != nil || tables.told > 0 || !w.awaits(class) {
		t.Fatalf("got %d pods told at once, waits %t, %v", tables.told, w.awaits(class), err)
	}
	w.open(class)
	told := 0
	for w.counting.isUnderWay(w) {
		tables.told = 0
		if err := w.fillSome(func() bool { return false }); err != nil {
			t.Fatal(err)
		}
		if told += tables.told; tables.told > most+podsOfNode {
			t.Fatalf("a turn tells %d pods, want %d and a node's %d at the most", tables.told, most, podsOfNode)
		}
	}
	if told != len(all.Pods) || w.awaits(class) {
		t.Errorf("got %d pods told, waits %t, want all %d", told, w.awaits(class), len(all.Pods))
	}
}
