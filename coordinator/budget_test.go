package coordinator

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// slowly has pods of a name compiled for that long.
func (x *scenario) slowly(name string, took time.Duration) {
	if err := x.call(x.ctx, func() {
		through := x.guard.Compile
		x.guard.Compile = func(p *v1.Pod, prof *compile.Profile) (*compile.Class, error) {
			if strings.HasPrefix(p.Name, name) {
				time.Sleep(took) // synctest's clock: it takes no time
			}
			return through(p, prof)
		}
	}); err != nil {
		x.t.Fatal(err)
	}
}

func (x *scenario) costOf(p *v1.Pod) (cost time.Duration) {
	if err := x.call(x.ctx, func() { cost = x.queue.Get(p.UID).Cost }); err != nil {
		x.t.Fatal(err)
	}
	return cost
}

// What it takes to prepare an attempt is measured and told, and has the pod wait behind others; but not where a run
// is not to depend on how long it takes.
func TestCostlyAttemptsAreKnown(t *testing.T) {
	for name, c := range map[string]struct {
		queueNow func() time.Time
		cost     time.Duration
	}{
		"by the clock":               {nil, 12 * time.Millisecond},
		"with a clock for the queue": {func() time.Time { return time.Unix(1e9, 0) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := prometheus.NewPedanticRegistry()
			runScenarioWith(t, func(cfg *SchedulerConfig) { cfg.QueueNow, cfg.Registerer = c.queueNow, r }, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
				x.slowly("slow", 12*time.Millisecond)
				slow, quick := cores("slow", "8"), cores("quick", "8")
				x.deliver(objects.Added, slow)
				x.deliver(objects.Added, quick)
				elapse(time.Second)
				if got := x.costOf(slow); got != c.cost {
					t.Errorf("cost: got %s, want %s", got, c.cost)
				}
				if got := x.costOf(quick); got != 0 {
					t.Errorf("cost of the other: got %s, want 0", got)
				}
				out, err := x.Explain(x.ctx, &pb.ExplainRequest{Namespace: slow.Namespace, Name: slow.Name})
				if err != nil || strings.Contains(out.Note, "took 12ms, more than 10ms") != (c.cost > queue.Costly) {
					t.Errorf("explanation: got note %q, %v", out.GetNote(), err)
				}
				if got := x.metrics.Set().Histogram("shardsched_compile_seconds").Count(); got != 2 {
					t.Errorf("got %d attempts measured, want 2", got)
				}
			})
		})
	}
}

// A turn prepares pods for a while and no longer: the others keep their places, and all are decided in their order.
func TestATurnPreparesForAWhile(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		x.slowly("p", prepareTime/2+1)
		var events []objects.Event
		for _, name := range []string{"p1", "p2", "p3", "p4", "p5"} {
			events = append(events, added(cores(name, "1")))
		}
		x.Deliver(events)
		elapse(time.Second)
		x.wantBinds("in order", "p1@1 n", "p2@1 n", "p3@1 n", "p4@1 n")
		if got, want := x.metrics.Set().Histogram("shardsched_batch_pods").Count(), uint64(3); got != want {
			t.Errorf("got %d batches, want %d", got, want)
		}
	})
}

// What is delivered together is taken in together, unless that takes long: then decisions come between, after any event,
// but not where a run is not to depend on how long it takes.
func TestWhatIsDeliveredTogether(t *testing.T) {
	for name, c := range map[string]struct {
		queueNow func() time.Time
		step     time.Duration // of the clock, each time that it is read
		first    string
	}{
		"at once":                    {nil, 0, "last@1 n"},
		"slowly":                     {nil, time.Millisecond, "p0@1 n"},
		"with a clock for the queue": {func() time.Time { return time.Unix(1e9, 0) }, time.Millisecond, "last@1 n"},
	} {
		t.Run(name, func(t *testing.T) {
			var reads atomic.Int64
			runScenarioWith(t, func(cfg *SchedulerConfig) {
				cfg.QueueNow = c.queueNow
				cfg.Now = func() time.Time { return time.Now().Add(time.Duration(reads.Add(1)) * c.step) }
			}, clusterOf(nodesOf("100", "n")), nil, func(x *scenario) {
				var events []objects.Event
				for i := range 12 { // a step of the clock each is more than inboxTime
					events = append(events, added(cores(fmt.Sprint("p", i), "1")))
				}
				last := cores("last", "1")
				last.Spec.Priority = new(int32(9))
				x.Deliver(append(events, added(last)))
				elapse(time.Minute)
				x.binder.mu.Lock()
				defer x.binder.mu.Unlock()
				if got := x.binder.seen[0]; got != c.first {
					t.Errorf("bound first: got %s, want %s", got, c.first)
				}
			})
		})
	}
}
