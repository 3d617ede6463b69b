package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/state"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// addedPerPod is how many counters a pod may add to, on average.
const addedPerPod = 16

// counts has counters come and go within such bounds; 0: as in a simulation.
func (x *scenario) counts(steps int) {
	if err := x.call(x.ctx, func() {
		b := state.Unbounded()
		if steps > 0 {
			b = state.Bounds{AtOnce: steps, PerTurn: steps, PerPod: addedPerPod, AtLeast: 1}
		}
		x.state.Bound(b)
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

// While a pod's counters are filled others overtake it; it is decided as it would be if they were filled at once.
func TestPodsAreOvertakenUntilTheirCountersAreFilled(t *testing.T) {
	for steps, want := range map[int][]string{0: {"wide-0", "plain"}, 50: {"plain", "wide-0"}} {
		runScenario(t, build.Filled(32), nil, func(x *scenario) {
			x.counts(steps)
			x.Deliver([]objects.Event{added(build.Wide(0)), added(cores("plain", "1"))})
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
		runScenario(t, build.Filled(32), nil, func(x *scenario) {
			x.counts(steps)
			for i := range many {
				x.deliver(objects.Added, build.Wide(i))
				elapse(time.Second)
			}
			binds = x.binder.seen
			if err := x.call(x.ctx, func() { added, pods = x.state.Added(), len(x.binds.pending)+320 }); err != nil {
				t.Fatal(err)
			}
			tables := &takenOff{}
			if err := x.call(x.ctx, func() { x.state.Watch(tables) }); err != nil {
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
	runScenario(t, build.Filled(nodes), nil, func(x *scenario) {
		x.counts(steps)
		asked := &askedCounters{}
		if err := x.call(x.ctx, func() {
			asked.Registry = x.state.Counters()
			x.state.UseCounters(asked)
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
	runScenario(t, build.Filled(32), nil, func(x *scenario) {
		x.counts(50)
		var events []objects.Event
		for i := range flood {
			p := build.Wide(i)
			p.Namespace = "loud"
			events = append(events, added(p))
			if i == flood/2 {
				events = append(events, added(build.Wide(flood)))
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
