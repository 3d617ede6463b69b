package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// tally is a Filter and Score plugin that counts in the state which nodes it has seen, from any
// goroutine.
type tally struct {
	plugin
	refuse, fail string // nodes
}

type seen struct {
	mu    sync.Mutex
	nodes map[string]int
}

func (s *seen) Clone() fwk.StateData { return &seen{nodes: map[string]int{}} }

func (t tally) PreFilter(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	state.Write("seen", &seen{nodes: map[string]int{}})
	return nil, nil
}
func (t tally) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (t tally) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	d, err := state.Read("seen")
	if err != nil {
		return fwk.AsStatus(err)
	}
	s := d.(*seen)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[node.Node().Name]++
	switch node.Node().Name {
	case t.refuse:
		return refusal
	case t.fail:
		return fwk.AsStatus(errors.New("broken"))
	}
	return nil
}

// refusal is one and the same each time, as plugins are wont to have it.
var refusal = fwk.NewStatus(fwk.Unschedulable, "no")

func (t tally) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	state.Write(fwk.StateKey(node.Node().Name), &seen{})
	return int64(len(node.Node().Name)), nil
}
func (t tally) ScoreExtensions() fwk.ScoreExtensions { return nil }

// TestNodesAreLookedAtAtOnce filters and scores many nodes on many goroutines.
func TestNodesAreLookedAtAtOnce(t *testing.T) {
	const nodes = 300
	s := NewSnapshot(newCluster(nodes))
	s.Begin()
	defer s.End()
	p := newProfile(t, &Environment{Snapshot: s}, tally{plugin: "T", refuse: "n7"}, tally{plugin: "U", refuse: "n8"})
	c := p.NewCycle(newPod("a"))
	if _, st, _ := c.PreFilter(t.Context()); st != nil {
		t.Fatal(st)
	}
	statuses, failed := c.FilterNodes(t.Context(), views(t, s))
	if failed != nil {
		t.Fatal(failed)
	}
	for i, st := range statuses {
		want := map[int]string{7: "T", 8: "U"}[i]
		if got := st.IsRejected(); got != (want != "") || got && st.Plugin() != want {
			t.Errorf("node %d: got %v", i, st)
		}
	}
	if refusal.Plugin() != "" {
		t.Error("a plugin's own status was written to")
	}
	d, _ := c.State().Read("seen")
	if n := d.(*seen).nodes; len(n) != nodes || n["n7"] != 1 || n["n9"] != 2 {
		t.Errorf("seen: %d nodes, n7 %d times, n9 %d", len(n), n["n7"], n["n9"])
	}
	scores, st := c.Score(t.Context(), views(t, s))
	if st != nil {
		t.Fatal(st)
	}
	if got := scores[123]; got.Name != "n123" || got.TotalScore != 8 || len(got.Scores) != 2 || got.Scores[0].Name != "T" {
		t.Errorf("scores of n123: %+v", got)
	}
}

func TestAnErrorOfAFilterEndsTheLookAtNodes(t *testing.T) {
	s := NewSnapshot(newCluster(300))
	s.Begin()
	defer s.End()
	p := newProfile(t, &Environment{Snapshot: s}, tally{plugin: "T", fail: "n5"})
	c := p.NewCycle(newPod("a"))
	c.PreFilter(t.Context())
	_, failed := c.FilterNodes(t.Context(), views(t, s))
	if got, want := failed.AsError().Error(), `running "T" filter plugin: broken`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestACycleThatEndsGivesNoHalfAnswer(t *testing.T) {
	s := NewSnapshot(newCluster(50))
	s.Begin()
	defer s.End()
	p := newProfile(t, &Environment{Snapshot: s}, tally{plugin: "T"})
	c := p.NewCycle(newPod("a"))
	c.PreFilter(t.Context())
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("over"))
	if _, failed := c.FilterNodes(ctx, views(t, s)); !failed.IsError() || failed.Message() != "running Filter plugins: over" {
		t.Errorf("Filter: got %v", failed)
	}
	if _, failed := c.Score(ctx, views(t, s)); !failed.IsError() || failed.Message() != "running Score plugins: over" {
		t.Errorf("Score: got %v", failed)
	}
}

// meets is a PreBind plugin that goes on once another is at work too.
type meets struct {
	plugin
	parallel, skip bool
	mine, others   chan struct{}
	log            *log
}

func (m meets) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if m.skip {
		return &fwk.PreBindPreFlightResult{AllowParallel: m.parallel}, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: m.parallel}, nil
}

func (m meets) PreBind(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	m.log.add("%s begins", m.Name())
	if m.mine != nil {
		close(m.mine)
		select {
		case <-m.others:
		case <-ctx.Done():
			return fwk.AsStatus(ctx.Err())
		}
	}
	return nil
}

func TestNeighboursInPreBindRunAtOnce(t *testing.T) {
	a, b := make(chan struct{}), make(chan struct{})
	var l log
	p := newProfile(t, &Environment{},
		meets{plugin: "First", log: &l},
		meets{plugin: "A", parallel: true, mine: a, others: b, log: &l},
		meets{plugin: "Idle", parallel: true, skip: true, log: &l},
		meets{plugin: "B", parallel: true, mine: b, others: a, log: &l},
		meets{plugin: "Barrier", skip: true, log: &l},
		meets{plugin: "Last", parallel: true, log: &l})
	c := p.NewCycle(newPod("a"))
	if s := c.PreBindPreFlight(t.Context(), "n"); s != nil {
		t.Fatal(s)
	}
	var groups []string
	for _, g := range c.preBindGroups() {
		var names []string
		for _, pl := range g {
			names = append(names, pl.Name())
		}
		groups = append(groups, strings.Join(names, "+"))
	}
	equal(t, "groups", groups, []string{"First", "A+B", "Last"})
	if s := c.PreBind(t.Context(), "n"); s != nil {
		t.Fatal(s)
	}
	if got := l.take(); len(got) != 4 || got[0] != "First begins" || got[3] != "Last begins" {
		t.Errorf("order: %v", got)
	}
}

// breaks is a PreBind plugin that fails once another is at work.
type breaks struct {
	meets
}

func (b breaks) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	<-b.others
	return fwk.AsStatus(errors.New("broken"))
}

func TestAFailureInPreBindCancelsTheOthers(t *testing.T) {
	at := make(chan struct{})
	var l log
	p := newProfile(t, &Environment{},
		meets{plugin: "Waits", parallel: true, mine: at, others: make(chan struct{}), log: &l},
		breaks{meets{plugin: "Breaks", parallel: true, others: at}},
		meets{plugin: "Never", log: &l})
	c := p.NewCycle(newPod("a"))
	c.PreBindPreFlight(t.Context(), "n")
	if got, want := c.PreBind(t.Context(), "n").AsError().Error(), `running PreBind plugin "Breaks": broken`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	equal(t, "begun", l.take(), []string{"Waits begins"})
}

func TestACancelledPreBindTellsWhy(t *testing.T) {
	at := make(chan struct{})
	p := newProfile(t, &Environment{}, meets{plugin: "W", mine: at, others: make(chan struct{}), log: &log{}})
	c := p.NewCycle(newPod("a"))
	c.PreBindPreFlight(t.Context(), "n")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-at
		cancel(errors.New("preempted by x/b"))
	}()
	if got, want := c.PreBind(ctx, "n").AsError().Error(), `running PreBind plugin "W": preempted by x/b`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// stash asks for pods to be tried.
type stash struct{ plugin }

func (stash) Reserve(_ context.Context, state fwk.CycleState, p *v1.Pod, _ string) *fwk.Status {
	d, err := state.Read(PodsToActivateKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	pods := d.(*PodsToActivate)
	pods.Lock()
	defer pods.Unlock()
	pods.Map["x/sibling"] = p
	return nil
}
func (stash) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

func TestPodsToActivateAreGivenOnce(t *testing.T) {
	c := newProfile(t, &Environment{}, stash{"S"}).NewCycle(newPod("a"))
	if got := c.ToActivate(); got != nil {
		t.Errorf("before: %v", got)
	}
	assumed := newPod("a")
	assumed.Spec.NodeName = "n"
	c.Assume(assumed)
	if s := c.Reserve(t.Context(), "n"); s != nil {
		t.Fatal(s)
	}
	if got := c.ToActivate(); len(got) != 1 || got["x/sibling"] != assumed {
		t.Errorf("after Reserve: %v, want the assumed pod", got)
	}
	if got := c.ToActivate(); got != nil {
		t.Errorf("the second time: %v", got)
	}
}

func noStatuses() fwk.NodeToStatusReader { return NewNodeStatuses() }

func TestStatesAreUsedByManyAndCloned(t *testing.T) {
	s := NewCycleState()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			key := fwk.StateKey(fmt.Sprint(i))
			for range 100 {
				s.Write(key, &seen{nodes: map[string]int{"x": 1}})
				s.SetSkipFilterPlugins(nil)
				s.SetParallelPreBindPlugins(nil)
				c := s.Clone()
				c.Delete(key)
				if _, err := c.Read(key); !errors.Is(err, fwk.ErrNotFound) {
					t.Errorf("deleted: got %v, want %v", err, fwk.ErrNotFound)
				}
				if _, err := s.Read(key); err != nil {
					t.Errorf("the clone's key is gone here: %v", err)
				}
				_ = s.GetSkipFilterPlugins().Has("x")
			}
		})
	}
	group.Wait()
	if (*CycleState)(nil).Clone() != nil || (*CycleState)(nil).ShouldRecordPluginMetrics() {
		t.Error("nothing is not cloned to nothing")
	}
}
