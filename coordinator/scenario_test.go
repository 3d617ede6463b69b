package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// scenario is a scheduler that runs on a bubble's clock, between a binder and a journal that
// follow the test's script. The test asks it anything while everybody in the bubble rests.
type scenario struct {
	*Scheduler
	t       *testing.T
	ctx     context.Context // the bubble's, never that of the test around it
	binder  *script
	journal *ledger
	cancel  context.CancelFunc
	ended   chan error
}

// script is a binder that answers when and what it is told to.
type script struct {
	mu sync.Mutex
	// answer gives a binding's outcome; nil: all are committed.
	answer func(objects.Binding) error
	// held keeps binds under way until it is closed; nil: they are not held.
	held chan struct{}
	seen []string // "pod@resourceVersion node" in the order of the calls
}

func (s *script) Bind(ctx context.Context, bs []objects.Binding, done func(int, error)) {
	s.mu.Lock()
	held, answer := s.held, s.answer
	for _, b := range bs {
		s.seen = append(s.seen, fmt.Sprintf("%s@%s %s", b.Pod.Name, b.Pod.ResourceVersion, b.Node))
	}
	s.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
	for i, b := range bs {
		var err error
		if answer != nil {
			err = answer(b)
		}
		done(i, err)
	}
}

// say sets what is answered from now on.
func (s *script) say(answer func(objects.Binding) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// hold keeps the binds that come under way until release.
func (s *script) hold() (release func(answer func(objects.Binding) error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	var mine func(objects.Binding) error
	s.held, s.answer = held, func(b objects.Binding) error {
		if mine != nil {
			return mine(b)
		}
		return nil
	}
	return func(answer func(objects.Binding) error) {
		s.mu.Lock()
		mine, s.held, s.answer = answer, nil, nil
		s.mu.Unlock()
		close(held)
		synctest.Wait()
	}
}

// runScenario runs a scenario.
func runScenario(t *testing.T, all *objects.Snapshot, entries map[types.UID]*pb.QueueEntry, play func(*scenario)) {
	t.Helper()
	runScenarioWith(t, func(*SchedulerConfig) {}, all, entries, play)
}

// runScenarioWith runs a scenario with a scheduler that is configured otherwise.
func runScenarioWith(t *testing.T, configure func(*SchedulerConfig), all *objects.Snapshot, entries map[types.UID]*pb.QueueEntry, play func(*scenario)) {
	t.Helper()
	runScenarioAfter(t, configure, all, entries, nil, play)
}

// runScenarioAfter runs a scenario with a scheduler that finds commits of pod groups.
func runScenarioAfter(t *testing.T, configure func(*SchedulerConfig), all *objects.Snapshot, entries map[types.UID]*pb.QueueEntry,
	commits map[string]*pb.GangCommit, play func(*scenario)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &scenario{t: t, ctx: t.Context(), binder: &script{}, journal: newLedger(), ended: make(chan error, 1)}
		for uid, e := range entries {
			x.journal.kept[uid] = e.GetAttempts()
		}
		cfg := SchedulerConfig{Cluster: "test", Term: 1, Shards: 2, Binder: x.binder, Journal: x.journal, Profiles: withoutPreemption()}
		configure(&cfg)
		s, err := NewScheduler(cfg)
		if err != nil {
			t.Fatal(err)
		}
		x.Scheduler = s
		s.Load(all, entries)
		s.LoadCommits(commits)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		x.cancel = cancel
		go func() { x.ended <- s.Run(ctx) }()
		synctest.Wait()
		play(x)
		cancel()
		<-s.ended
	})
}

func clusterOf(nodes []*v1.Node, pods ...*v1.Pod) *objects.Snapshot {
	for i, p := range pods {
		if p.ResourceVersion == "" {
			p.ResourceVersion = fmt.Sprint(i + 1)
		}
	}
	return &objects.Snapshot{Nodes: nodes, Pods: pods}
}

func nodesOf(cpu string, names ...string) []*v1.Node {
	var out []*v1.Node
	for _, name := range names {
		out = append(out, build.Node(name).CPU(cpu).Memory("64Gi").Obj())
	}
	return out
}

func (x *scenario) deliver(typ objects.EventType, obj any) {
	x.t.Helper()
	e := objects.Event{Type: typ}
	switch obj := obj.(type) {
	case *v1.Node:
		e.Kind, e.Node = objects.KindNode, obj
	case *v1.Pod:
		e.Kind, e.Pod = objects.KindPod, obj
	}
	x.Deliver([]objects.Event{e})
	synctest.Wait()
}

// update delivers a pod's next version.
func (x *scenario) update(p *v1.Pod, version string, change func(*v1.Pod)) *v1.Pod {
	x.t.Helper()
	p = p.DeepCopy()
	p.ResourceVersion = version
	if change != nil {
		change(p)
	}
	x.deliver(objects.Modified, p)
	return p
}

// confirm delivers that a pod is on a node.
func (x *scenario) confirm(p *v1.Pod, node string) {
	x.t.Helper()
	x.update(p, "100", func(p *v1.Pod) { p.Spec.NodeName = node })
}

// wantPods checks where every pod is that the scheduler knows: "p on n", "p promised n",
// or "p" with its place in the queue.
func (x *scenario) wantPods(when string, want ...string) {
	x.t.Helper()
	synctest.Wait()
	var got []string
	if err := x.call(x.ctx, func() { got = x.places() }); err != nil {
		x.t.Fatalf("%s: %v", when, err)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		x.t.Errorf("%s: got pods %q, want %q", when, got, want)
	}
}

func (s *Scheduler) places() []string {
	var out []string
	for _, i := range s.known() {
		p, node, assumed := s.state.Pod(i)
		switch q := s.queue.Get(i); {
		case q != nil && p != nil:
			out = append(out, q.Obj.Name+" in queue and cache")
		case q != nil:
			out = append(out, q.Obj.Name+" "+q.Place().String())
		case assumed:
			out = append(out, p.Name+" promised "+node)
		case p != nil:
			out = append(out, p.Name+" on "+node)
		}
	}
	slices.Sort(out)
	return out
}

// known lists every pod that was decided or waits.
func (s *Scheduler) known() []types.UID {
	all := map[types.UID]struct{}{}
	for p := range s.state.In("default") {
		if s.history.Last(p.UID) != nil {
			all[p.UID] = struct{}{}
		}
	}
	for uid := range s.binds.pending {
		all[uid] = struct{}{}
	}
	s.queue.Each(func(p *queue.Pod) { all[p.Obj.UID] = struct{}{} })
	out := make([]types.UID, 0, len(all))
	for uid := range all {
		out = append(out, uid)
	}
	return out
}

// wantBinds checks the calls of the binder so far.
func (x *scenario) wantBinds(when string, want ...string) {
	x.t.Helper()
	synctest.Wait()
	x.binder.mu.Lock()
	defer x.binder.mu.Unlock()
	if !slices.Equal(x.binder.seen, want) {
		x.t.Errorf("%s: got binds %q, want %q", when, x.binder.seen, want)
	}
}

// wantEnd waits for Run to end and checks how.
func (x *scenario) wantEnd(want error) {
	x.t.Helper()
	if got := <-x.ended; !errors.Is(got, want) || want == nil && got != nil {
		x.t.Errorf("Run: got %v, want %v", got, want)
	}
}

func always(err error) func(objects.Binding) error {
	return func(b objects.Binding) error { return fmt.Errorf("bind pod %s: %w", b.Pod.Name, err) }
}

// message is why a pod is not on a node.
func (x *scenario) message(uid types.UID) string {
	x.t.Helper()
	var out string
	if err := x.call(x.ctx, func() {
		if p := x.queue.Get(uid); p != nil {
			out = p.Message
		}
	}); err != nil {
		x.t.Fatal(err)
	}
	return out
}

func (x *scenario) wantMessage(uid types.UID, want string) {
	x.t.Helper()
	if got := x.message(uid); !strings.Contains(got, want) {
		x.t.Errorf("message of %s: got %q, want one with %q", uid, got, want)
	}
}

// deposeAfter lets n rounds to the workers through; then one of them has seen a newer
// leader.
func (x *scenario) deposeAfter(n int) {
	through := x.evaluate
	x.evaluate = func(ctx context.Context, requests []fanout.Request) ([]*scorer.Result, error) {
		if n--; n < 0 {
			return nil, fmt.Errorf("evaluate: %w", fanout.ErrDeposed)
		}
		return through(ctx, requests)
	}
}
