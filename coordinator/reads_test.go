package coordinator

import (
	stdcmp "cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// These are as package observe has them.
const (
	rowsAtOnce, podsAtOnce = 2048, 2048
	maxReads, defaultTop   = 8, 5
	maxRestarts            = 8
	soughtAtOnce           = 8192
	beingBound             = observe.BeingBound
)

// call runs f on the loop and waits for it.
func (s *Scheduler) call(ctx context.Context, f func()) error { return s.reads.Call(ctx, f) }

// manyNodes are so many that an explanation takes several steps: some refuse, the others are in groups.
func manyNodes() []*v1.Node {
	var nodes []*v1.Node
	for i := range 2*rowsAtOnce + rowsAtOnce/2 {
		name := fmt.Sprintf("n%05d", i)
		nodes = append(nodes, build.Node(name).CPU(fmt.Sprint(1+i%4)).Memory("8Gi").Label(v1.LabelHostname, name).Label(v1.LabelTopologyZone, fmt.Sprint("z", i%3)).Obj())
	}
	return nodes
}

// A turn of the loop judges so many rows for explanations and no more, however many explanations there are, and
// an explanation in steps says what one without a pause says.
func TestExplanationsAreTakenInSteps(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: withoutPreemption()}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: manyNodes(), Pods: []*v1.Pod{
		build.Pod("there").CPU("2").Label("a", "b").Node("n00003").Obj(),
		build.Pod("p").CPU("2").Label("a", "b").Apart(build.Around(v1.LabelHostname, "a=b")).Nominated("n00007").Obj(),
	}}, nil)
	want, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: "p", Top: 3})
	if err != nil {
		t.Fatal(err)
	}
	var flood [3]*observe.Explanation
	steps := 0
	for i := range flood {
		e := observe.NewExplanation(&pb.ExplainRequest{Namespace: "default", Name: "p", Top: 3})
		flood[i] = e
		go func() {
			_ = x.reads.Read(t.Context(), observe.Read{Step: func() bool {
				steps++
				return x.explainer().Step(e)
			}})
		}()
	}
	for came := 0; came < len(flood); {
		<-x.inbox.ready
		x.inbox.drain(func() bool { came++; return false })
	}
	turns := 0
	for ; x.reads.Pending(); turns++ {
		if x.reads.Next(); steps > turns+1 {
			t.Fatalf("got %d steps in %d turns, want one in each", steps, turns+1)
		}
	}
	// Of four nodes one is too small, and the others are in groups: these are looked at twice.
	if least := len(flood) * (x.state.Nodes() * 7 / 4 / rowsAtOnce); turns <= least {
		t.Errorf("got %d turns, want more than %d", turns, least)
	}
	for i := range flood {
		out, err := flood[i].Answer()
		if d := cmp.Diff(want, out, protocmp.Transform()); d != "" || err != nil {
			t.Errorf("explanation %d in steps (-at once +in steps): %v\n%s", i, err, d)
		}
	}
}

// Nodes that come and go between two steps have an explanation begin anew, and given up in the end.
func TestAnExplanationBeginsAnewWhereNodesChange(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: withoutPreemption()}, 0)
	defer x.fanout.Close()
	nodes := manyNodes()
	x.Load(&objects.Snapshot{Nodes: nodes, Pods: []*v1.Pod{build.Pod("p").CPU("2").Obj()}}, nil)
	e := observe.NewExplanation(&pb.ExplainRequest{Namespace: "default", Name: "p"})
	if x.explainer().Step(e) {
		t.Fatal("got an answer at once, want one step of several")
	}
	x.intake.RemoveNode(nodes[1])
	for !x.explainer().Step(e) {
	}
	out, err := e.Answer()
	if want := uint32(len(nodes) - 1); err != nil || out.Nodes != want || out.Feasible+out.Reasons[0].Nodes != want {
		t.Errorf("got %v, %v; want %d nodes in all", out, err, want)
	}
	e = observe.NewExplanation(&pb.ExplainRequest{Namespace: "default", Name: "p"})
	for steps := 0; !x.explainer().Step(e); steps++ {
		if steps > maxRestarts {
			t.Fatalf("goes on after %d steps", steps)
		}
		x.intake.SetNode(nodes[1])
		x.intake.RemoveNode(nodes[1])
	}
	if _, err := e.Answer(); status.Code(err) != codes.Aborted || x.err != nil {
		t.Errorf("got %v, the loop's error %v; want ABORTED and none", err, x.err)
	}
}

// Of many explanations and summaries so many are taken as there are places, those of whom nobody waits are skipped,
// and places come free.
func TestReadsAreBounded(t *testing.T) {
	runScenario(t, clusterOf(nodesOf("4", "n"), cores("p", "8")), nil, func(x *scenario) {
		stuck := make(chan struct{})
		x.inbox.put(func() { <-stuck })
		ctx, give := context.WithCancel(x.ctx)
		calls := make(chan error, maxReads+1)
		for i := range maxReads {
			of := x.ctx
			if i == 0 {
				of = ctx
			}
			go func() {
				_, err := x.Explain(of, &pb.ExplainRequest{Namespace: "default", Name: "p"})
				calls <- err
			}()
		}
		synctest.Wait()
		if _, err := x.Summary(x.ctx); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("with all places taken: got %v, want RESOURCE_EXHAUSTED", err)
		}
		if _, err := x.Devices(x.ctx, &pb.ListDevicesRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("devices with all places taken: got %v, want RESOURCE_EXHAUSTED", err)
		}
		give()
		if err := <-calls; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: got %v, want %v", err, context.Canceled)
		}
		var judged bool
		gone, leave := context.WithCancel(x.ctx)
		leave()
		_ = x.reads.Read(gone, observe.Read{Step: func() bool { judged = true; return true }})
		close(stuck)
		for range maxReads - 1 {
			if err := <-calls; err != nil {
				t.Errorf("got %v, want an explanation", err)
			}
		}
		synctest.Wait()
		if judged {
			t.Error("a read that nobody waits for was made")
		}
		if _, err := x.Summary(x.ctx); err != nil {
			t.Errorf("after all: got %v, want a summary", err)
		}
		x.wantPlaces()
	})
}

// wantPlaces checks that no read has a place: as many as there are places can be served.
func (x *scenario) wantPlaces() {
	x.t.Helper()
	var come atomic.Bool
	served := make(chan error, maxReads)
	for range maxReads {
		go func() {
			served <- x.reads.Serve(x.ctx, observe.Read{Step: func() bool { return true }, Waits: func() bool { return !come.Load() }})
		}()
	}
	synctest.Wait()
	come.Store(true)
	x.inbox.put(func() {})
	for range maxReads {
		if err := <-served; err != nil {
			x.t.Errorf("a place is taken: %v", err)
		}
	}
}

// manyPods are so many that it takes several steps to look at them: on no node, for they are too big, or on one.
func manyPods(n int, node string) []*v1.Pod {
	var pods []*v1.Pod
	for i := range n {
		p := build.Pod(fmt.Sprintf("%s-%06d", stdcmp.Or(node, "waits"), i)).CPU("1m")
		if node != "" {
			p = p.Node(node)
		}
		pods = append(pods, p.Obj())
	}
	return pods
}

// stepsOf takes the steps of a read and returns how many these were.
func stepsOf(t *testing.T, step func() bool) (steps int) {
	t.Helper()
	for steps = 1; !step(); steps++ {
		if steps > 1000 {
			t.Fatal("goes on after 1000 steps")
		}
	}
	return steps
}

// countedPods counts the pods of the queue that were looked at.
type countedPods struct {
	observe.Queue
	pods int
}

func (c *countedPods) All() iter.Seq[*queue.Pod] {
	return func(yield func(*queue.Pod) bool) {
		for p := range c.Queue.All() {
			if c.pods++; !yield(p) {
				return
			}
		}
	}
}

// A step of a summary looks at one shard or so many pods, and what comes meanwhile does not disturb it.
func TestSummariesAreTakenInSteps(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: nodesOf("4", "a", "b"), Pods: manyPods(2*podsAtOnce+1, "")}, nil)
	queued := &countedPods{Queue: x.queue}
	sum := observe.NewSummary(x.state, queued, x.totals)
	step := sum.Read().Step
	steps := stepsOf(t, func() bool {
		seen := queued.pods
		last := step()
		if n := queued.pods - seen; n > podsAtOnce {
			t.Errorf("a step looked at %d pods, want %d at the most", n, podsAtOnce)
		}
		x.podSet(build.Pod("comes").Node("a").Obj())
		return last
	})
	if want := 3 + 3; steps != want {
		t.Errorf("got %d steps, want %d", steps, want)
	}
	if got := sum.Report(); got.PodsPending != 2*podsAtOnce+1 || len(got.PendingReasons) != 1 || len(got.Utilisation) == 0 {
		t.Errorf("got %v, want all pods for one reason", got)
	}
}

// A pod on a node is looked for in steps, and so is one that is not there.
func TestPodsAreLookedForInSteps(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: withoutPreemption()}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: nodesOf("400", "a", "b"), Pods: manyPods(2*soughtAtOnce+1, "a")}, nil)
	for _, want := range []struct {
		name  string
		steps int
		code  codes.Code
	}{{fmt.Sprintf("a-%06d", 2*soughtAtOnce), 1, codes.OK}, {"a-000000", 3, codes.OK}, {"nobody", 6, codes.NotFound}} {
		e := observe.NewExplanation(&pb.ExplainRequest{Namespace: "default", Name: want.name})
		steps := stepsOf(t, func() bool { return x.explainer().Step(e) })
		if out, err := e.Answer(); steps != want.steps || status.Code(err) != want.code || err == nil && out.Node != "a" {
			t.Errorf("%s: got %v, %v in %d steps; want %s in %d", want.name, out, err, steps, want.code, want.steps)
		}
	}
}

// Of many nodes that pass, an explanation shows the best, and that of the pod.
func TestAnExplanationShowsFewNodes(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: withoutPreemption()}, 0)
	defer x.fanout.Close()
	nodes := manyNodes()
	x.Load(&objects.Snapshot{Nodes: nodes, Pods: append(manyPods(1, "n00000"), build.Pod("p").CPU("1").Obj())}, nil)
	e := observe.NewExplanation(&pb.ExplainRequest{Namespace: "default", Name: "n00000-000000", Top: 3})
	stepsOf(t, func() bool { return x.explainer().Step(e) })
	out, err := e.Answer()
	if err != nil || out.Feasible != uint32(len(nodes)) || len(out.Top) != 4 || !out.Top[3].Chosen {
		t.Errorf("got %v, %v; want all nodes feasible, 3 shown and that of the pod", out, err)
	}
}

// A read that panics ends by itself: its caller has an error, its place is free, and the loop goes on.
func TestAReadThatPanicsEndsByItself(t *testing.T) {
	registry := prometheus.NewRegistry()
	runScenarioWith(t, func(c *SchedulerConfig) { c.Registerer = registry }, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		ended, steps := false, 0
		step := func() bool {
			if steps++; steps == 2 {
				panic("poison")
			}
			return false
		}
		err := x.reads.Serve(x.ctx, observe.Read{Step: step, End: func() { ended = true }})
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "poison") || !ended {
			t.Errorf("got %v, ended %v; want INTERNAL, and that it has", err, ended)
		}
		if got, want := gathered(t, registry, "shardsched_panics_total"), []string{"shardsched_panics_total{where=read} 1"}; !slices.Equal(got, want) {
			t.Errorf("metric: got %v, want %v", got, want)
		}
		if _, err := x.Summary(x.ctx); err != nil {
			t.Errorf("a read after it: got %v", err)
		}
		x.wantPlaces()
	})
}

// An explanation that panics says so, and nothing rests for it.
func TestAnExplanationThatPanicsConfinesNothing(t *testing.T) {
	x := newPoisoned(t, "never")
	compileClass := x.guard.Compile
	x.guard.Compile = func(p *v1.Pod, prof *compile.Profile) (*compile.Class, error) {
		class, err := compileClass(p, prof)
		bad := *class
		bad.Scorer = nil
		return &bad, err
	}
	x.podSet(build.Pod("p").Node("a").Obj())
	out, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: "p"})
	if err != nil || !strings.Contains(out.Note, "met a bug of its own (read)") || x.guard.Len() != 0 || x.err != nil {
		t.Errorf("got %v, %v, %d in quarantine, the loop's error %v; want a note and nothing else", out, err, x.guard.Len(), x.err)
	}
	if got, want := gathered(t, x.registry, "shardsched_panics_total"), []string{"shardsched_panics_total{where=read} 1"}; !slices.Equal(got, want) {
		t.Errorf("metric: got %v, want %v", got, want)
	}
}

// An explanation that meets a bug while it takes its pod from the node, or puts it back, ends no term, and the pod's room is
// promised to nobody.
func TestAnExplanationThatLosesItsPodKeepsItsRoom(t *testing.T) {
	takesPoison := func(d *pb.Delta) bool { return d.GetRemovePod() != nil }
	for name, c := range map[string]struct {
		bug         buggyTables
		quarantined []string
	}{
		"it is not taken from its row":                {bug: buggyTables{before: takesPoison}, quarantined: []string{`{kind=Node} 1`, `{kind=Pod} 1`}},
		"it is not put back there":                    {bug: buggyTables{before: addsPoison}, quarantined: []string{`{kind=Node} 1`}},
		"it is not put back there at the first try":   {bug: buggyTables{before: once(addsPoison)}},
		"it is put back, and the change is not whole": {bug: buggyTables{after: once(addsPoison)}},
	} {
		t.Run(name, func(t *testing.T) {
			on := build.Pod("on").CPU("3").Priority(poison).Node("a").Obj()
			x := newLeading(t, func(*trial) {}, &objects.Snapshot{Nodes: nodesOf("4", "a", "b"), Pods: []*v1.Pod{on}})
			c.bug.log = x.answers.Log()
			x.state.Watch(c.bug)
			out, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: "on"})
			if err == nil || out != nil || x.err != nil {
				t.Errorf("got %v, %v, the loop's error %v; want an error of the explanation alone", out, err, x.err)
			}
			x.wantQuarantined(t, "then", c.quarantined...)
			for i := range 3 {
				x.podSet(cores(fmt.Sprint("p", i), "2"))
			}
			if d := cmp.Diff(map[string]string{"p0": "b", "p1": "b", "p2": ""}, x.decide(t)); d != "" {
				t.Errorf("pods (-want +got):\n%s", d)
			}
			x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: on})
			x.wantQuarantined(t, "without the pod")
			x.podSet(cores("q", "4"))
			if got := x.decide(t)["q"]; got != "a" {
				t.Errorf("when the pod is gone the next one is on %q, want its room on a", got)
			}
		})
	}
}
