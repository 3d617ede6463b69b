package extenders

import (
	"context"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/metrics"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// scriptedLoop runs what it was given when it is told to, and notes whose attempts are resumed.
type scriptedLoop struct {
	queue   *queue.Queue
	later   chan func()
	resumed []string
}

func (l *scriptedLoop) Later(do func())             { l.later <- do }
func (l *scriptedLoop) Before(x, y *queue.Pod) bool { return l.queue.Before(x, y) }
func (l *scriptedLoop) Rejoin(*queue.Pod)           {}
func (l *scriptedLoop) Resume(p *queue.Pod)         { l.resumed = append(l.resumed, p.Obj.Name) }
func (l *scriptedLoop) took() (pods []string)       { pods, l.resumed = l.resumed, nil; return pods }

// podOf is a pod of a priority.
func podOf(name string, priority int32) *queue.Pod {
	return &queue.Pod{Obj: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Priority: &priority}}}
}

// laneOf is a lane with four places: of an extender that is sent whole nodes.
func laneOf(t *testing.T, ctx context.Context, inline bool) (*Lane, *scriptedLoop) {
	t.Helper()
	byPriority := &queue.OutOfTree{Less: func(a, b *queue.Pod) bool { return *a.Obj.Spec.Priority > *b.Obj.Spec.Priority }}
	loop := &scriptedLoop{queue: queue.New(queue.Config{OutOfTree: byPriority}), later: make(chan func(), 16)}
	l, err := New(Config{
		Extenders: []configv1.Extender{{URLPrefix: "http://none.invalid", FilterVerb: "filter"}},
		Inline:    inline, Life: ctx, Loop: loop, Metrics: metrics.NewSet(nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l.Lane("", l.List()), loop
}

func TestPodsWaitForTheirTurnInTheQueuesOrder(t *testing.T) {
	lane, loop := laneOf(t, t.Context(), false)
	asked := make(chan struct{})
	var taken []string
	for _, name := range []string{"a", "b", "c", "d"} {
		p := podOf(name, 0)
		if !lane.Turn(p) {
			t.Fatalf("there is no place for %s, one of four", name)
		}
		if !lane.Ask(t.Context(), p, func(context.Context) func() {
			<-asked
			return func() { taken = append(taken, name) }
		}) {
			t.Fatalf("%s does not wait for its answer", name)
		}
	}
	for name, priority := range map[string]int32{"low": 1, "high": 9, "middle": 5} {
		if lane.Turn(podOf(name, priority)) {
			t.Fatalf("there is a place for %s, beside four others", name)
		}
	}
	if lane.all.GiveTurns(); len(loop.later) != 0 {
		t.Fatal("a turn was given though no place is free")
	}
	for range 2 { // two of the four are answered
		asked <- struct{}{}
		(<-loop.later)()
	}
	if got := loop.took(); len(got) != 2 || !slices.Equal(got, taken) {
		t.Fatalf("got %v resumed, want %v, whose answers were taken", got, taken)
	}
	lane.all.GiveTurns()
	for range 2 {
		(<-loop.later)()
	}
	if got, want := loop.took(), []string{"high", "middle"}; !slices.Equal(got, want) || len(loop.later) != 0 {
		t.Errorf("got %v resumed for their turn, want %v", got, want)
	}
	close(asked)
	lane.all.Wait()
}

func TestNobodyIsResumedOnceTheLoopHasEnded(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	lane, loop := laneOf(t, ctx, false)
	lane.Ask(t.Context(), podOf("a", 0), func(ctx context.Context) func() {
		<-ctx.Done()
		return func() { t.Error("the answer was taken") }
	})
	end()
	lane.all.Wait()
	if (<-loop.later)(); len(loop.took()) != 0 {
		t.Error("the attempt was resumed")
	}
}

func TestInlineTheLoopWaits(t *testing.T) {
	lane, loop := laneOf(t, t.Context(), true)
	for i := range 6 { // more than there are places
		taken, p := false, podOf("a", 0)
		wait := !lane.Turn(p) || lane.Ask(t.Context(), p, func(context.Context) func() { return func() { taken = true } })
		if wait || !taken || len(loop.later) != 0 {
			t.Errorf("question %d: waits %v, answer taken %v, want it taken at once", i, wait, taken)
		}
	}
}
