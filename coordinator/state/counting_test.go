package state

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

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
	w := New(1)
	asked := &askedCounters{Registry: w.counters}
	w.UseCounters(asked)
	all := build.Filled(nodes)
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
	w.counting.AtOnce, w.counting.PerTurn = steps, steps
	class, err := compile.New().Class(build.Wide(0), rules.DefaultProfile(""), w)
	if err != nil {
		t.Fatal(err)
	}
	turns := func(what string) (n int) {
		t.Helper()
		for ; len(w.counting.fillings) > 0; n++ {
			asked.asked = 0
			if err := w.FillSome(func() bool { return false }); err != nil {
				t.Fatal(err)
			}
			if asked.asked > steps+podsOfNode {
				t.Fatalf("%s: a turn asks %d pods, want %d and a node's %d at the most", what, asked.asked, steps, podsOfNode)
			}
		}
		return n
	}
	asked.asked = 0
	if err := w.Settle(); err != nil || asked.asked > 0 || !w.Awaits(class) {
		t.Fatalf("new counters: got %d pods asked, filled %t, %v", asked.asked, !w.Awaits(class), err)
	}
	w.Open(class)
	if n := turns("filling"); n < len(all.Pods)/(steps+podsOfNode) || w.Awaits(class) {
		t.Errorf("filled after %d turns, waits %t", n, w.Awaits(class))
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

// Terms by a key that a node gets begin to count: of all pods only those are asked that carry them.
func TestOnlyPodsThatCarryTermsAreAskedOnceTheirKeyAppears(t *testing.T) {
	w := New(4)
	asked := &askedCounters{Registry: w.counters}
	w.UseCounters(asked)
	all := build.Filled(16)
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
	if err := w.Settle(); err != nil || asked.asked != 3 {
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
	w, tables := New(1), &toldBudgets{of: map[uint64][]uint32{}}
	w.Watch(tables)
	all := build.Filled(32)
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
	w.counting.AtOnce, w.counting.PerTurn = most*cache.TellSteps, most*cache.TellSteps
	p := build.Pod("p").UID("p").CPU("1m").Spread(build.Constraint{
		TopologyKey: v1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
	}).Obj()
	class, err := compile.New().Class(p, rules.DefaultProfile(""), w)
	if err == nil {
		err = w.Settle()
	}
	if err != nil || tables.told > 0 || !w.Awaits(class) {
		t.Fatalf("got %d pods told at once, waits %t, %v", tables.told, w.Awaits(class), err)
	}
	w.Open(class)
	told := 0
	for w.isUnderWay() {
		tables.told = 0
		if err := w.FillSome(func() bool { return false }); err != nil {
			t.Fatal(err)
		}
		if told += tables.told; tables.told > most+podsOfNode {
			t.Fatalf("a turn tells %d pods, want %d and a node's %d at the most", tables.told, most, podsOfNode)
		}
	}
	if told != len(all.Pods) || w.Awaits(class) {
		t.Errorf("got %d pods told, waits %t, want all %d", told, w.Awaits(class), len(all.Pods))
	}
}
