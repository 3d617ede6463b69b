package framework

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Cycle is one attempt to schedule one pod. One goroutine at a time may use it; plugins' state
// and waiting pods any.
type Cycle struct {
	profile *Profile
	pod     *v1.Pod
	state   fwk.CycleState
}

// NewCycle begins an attempt.
func (p *Profile) NewCycle(pod *v1.Pod) *Cycle {
	state := NewCycleState()
	state.Write(PodsToActivateKey, &PodsToActivate{Map: map[string]*v1.Pod{}})
	return &Cycle{profile: p, pod: pod, state: state}
}

// Clone is a cycle with a copy of the state, for trying out what other pods on a node would mean.
func (c *Cycle) Clone() *Cycle {
	return &Cycle{profile: c.profile, pod: c.pod, state: c.state.Clone()}
}

// Profile is the cycle's profile.
func (c *Cycle) Profile() *Profile { return c.profile }

// State is what plugins keep.
func (c *Cycle) State() fwk.CycleState { return c.state }

// Pod is the pod that plugins are given.
func (c *Cycle) Pod() *v1.Pod { return c.pod }

// Assume has plugins be given, from Reserve on, the pod with its node's name in it.
func (c *Cycle) Assume(pod *v1.Pod) { c.pod = pod }

// ToActivate gives the pods that plugins want tried at once, each time those added since.
func (c *Cycle) ToActivate() map[string]*v1.Pod {
	data, err := c.state.Read(PodsToActivateKey)
	if err != nil {
		return nil
	}
	if p, ok := data.(*PodsToActivate); ok {
		return p.take()
	}
	return nil
}

// PreFilter runs the PreFilter plugins over all nodes of the snapshot. The result narrows the
// nodes down; nil: to none less. plugins are those that have narrowed them.
func (c *Cycle) PreFilter(ctx context.Context) (result *fwk.PreFilterResult, s *fwk.Status, plugins sets.Set[string]) {
	p, start, skip := c.profile, c.profile.env.Clock.Now(), sets.New[string]()
	defer func() {
		c.state.SetSkipFilterPlugins(skip)
		p.pointRan(PreFilter.String(), s, start)
	}()
	plugins = sets.New[string]()
	if len(p.preFilter) == 0 {
		return nil, nil, plugins
	}
	nodes, err := p.env.Snapshot.NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("getting all nodes: %w", err)), nil
	}
	var rejected *fwk.Status
	for _, pl := range p.preFilter {
		r, s := c.preFilter(ctx, pl, nodes)
		switch {
		case s.IsSkip():
			skip.Insert(pl.Name())
			continue
		case s.Code() == fwk.UnschedulableAndUnresolvable:
			return nil, by(pl, s), nil
		case s.Code() == fwk.Unschedulable:
			rejected = by(pl, s) // preemption may help, and needs the states of all plugins
			continue
		case !s.IsSuccess():
			return nil, fwk.AsStatus(fmt.Errorf("running PreFilter plugin %q: %w", pl.Name(), s.AsError())).WithPlugin(pl.Name()), nil
		}
		if !r.AllNodes() {
			plugins.Insert(pl.Name())
		}
		if result = result.Merge(r); !result.AllNodes() && len(result.NodeNames) == 0 {
			return result, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, NothingLeft(plugins)), plugins
		}
	}
	return result, rejected, plugins
}

func (c *Cycle) preFilter(ctx context.Context, pl fwk.PreFilterPlugin, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p := c.profile
	var r *fwk.PreFilterResult
	s := p.call(pl, PreFilter.String(), func() (s *fwk.Status) {
		r, s = pl.PreFilter(p.named(ctx, PreFilter, pl), c.state, c.pod, nodes)
		return s
	})
	if !s.IsSkip() {
		p.env.Meter.Evaluated(p.name, pl.Name(), PreFilter.String())
	}
	return r, s
}

// NothingLeft says that no node is left of those that each of the plugins asks for.
func NothingLeft(plugins sets.Set[string]) string {
	if len(plugins) == 1 {
		return fmt.Sprintf("node(s) didn't satisfy plugin %v", sets.List(plugins)[0])
	}
	return fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", sets.List(plugins))
}

// LeftOut is the status of nodes that PreFilter plugins left out.
func LeftOut(plugins sets.Set[string]) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(plugins)))
}

// Filter asks the Filter plugins whether the pod fits a node: with the pods that are nominated to
// it and of no lower priority, if there are any, and without.
func (c *Cycle) Filter(ctx context.Context, node fwk.NodeInfo) *fwk.Status {
	return c.runner().filterNominated(ctx, c.state, c.pod, node)
}

// FilterAsIs is Filter without a look at nominated pods.
func (c *Cycle) FilterAsIs(ctx context.Context, node fwk.NodeInfo) *fwk.Status {
	return c.runner().filter(ctx, c.state, c.pod, node)
}

// FilterNodes is Filter for many nodes, several at once: a status for each, nil where the pod fits;
// or one error, which ends it.
func (c *Cycle) FilterNodes(ctx context.Context, nodes []fwk.NodeInfo) (statuses []*fwk.Status, failed *fwk.Status) {
	start := c.profile.env.Clock.Now()
	defer func() { c.profile.pointRan(Filter.String(), failed, start) }()
	return c.runner().filterNodes(ctx, c.state, c.pod, nodes)
}

// AddPod tells the PreFilter plugins that another pod has been added to a view; RemovePod that one
// has been taken out.
func (c *Cycle) AddPod(ctx context.Context, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return c.runner().move(ctx, c.state, c.pod, other, node, true)
}

// RemovePod is described at AddPod.
func (c *Cycle) RemovePod(ctx context.Context, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return c.runner().move(ctx, c.state, c.pod, other, node, false)
}

func (c *Cycle) runner() runner { return runner{Profile: c.profile} }

// Reserve runs the Reserve plugins; the first that fails ends it, and calls for Unreserve.
func (c *Cycle) Reserve(ctx context.Context, node string) (s *fwk.Status) {
	p, start := c.profile, c.profile.env.Clock.Now()
	defer func() { p.pointRan(Reserve.String(), s, start) }()
	for _, pl := range p.reserve {
		s := p.call(pl, Reserve.String(), func() *fwk.Status { return pl.Reserve(p.named(ctx, Reserve, pl), c.state, c.pod, node) })
		switch {
		case s.IsSuccess():
		case s.IsRejected():
			return by(pl, s)
		default:
			return fwk.AsStatus(fmt.Errorf("running Reserve plugin %q: %w", pl.Name(), s.AsError()))
		}
	}
	return nil
}

// Unreserve runs all Reserve plugins' Unreserve, the last first. The pod waits on Permit no longer.
func (c *Cycle) Unreserve(ctx context.Context, node string) {
	p, start := c.profile, c.profile.env.Clock.Now()
	defer func() { p.pointRan(unreserve, nil, start) }()
	c.stopWaiting()
	for i := len(p.reserve) - 1; i >= 0; i-- {
		pl := p.reserve[i]
		p.call(pl, unreserve, func() *fwk.Status {
			pl.Unreserve(p.named(ctx, Reserve, pl), c.state, c.pod, node)
			return nil
		})
	}
}

// Permit runs the Permit plugins. With Wait, the pod waits from now on: WaitOnPermit has to follow,
// or Unreserve.
func (c *Cycle) Permit(ctx context.Context, node string) (s *fwk.Status) {
	p, start := c.profile, c.profile.env.Clock.Now()
	defer func() { p.pointRan(Permit.String(), s, start) }()
	waits := map[string]time.Duration{}
	var wait *fwk.Status
	for _, pl := range p.permit {
		var timeout time.Duration
		s := p.call(pl, Permit.String(), func() (s *fwk.Status) {
			s, timeout = pl.Permit(p.named(ctx, Permit, pl), c.state, c.pod, node)
			return s
		})
		switch {
		case s.IsSuccess():
		case s.IsRejected():
			return by(pl, s)
		case s.IsWait():
			waits[pl.Name()] = min(timeout, maxPermit)
			wait = s.Clone()
		default:
			return fwk.AsStatus(fmt.Errorf("running Permit plugin %q: %w", pl.Name(), s.AsError())).WithPlugin(pl.Name())
		}
	}
	if wait == nil {
		return nil
	}
	wait.AppendReason("one or more plugins asked to wait and no plugin rejected pod")
	p.env.Waiting.add(c.pod, waits)
	return wait
}

// WillWait tells whether the pod waits on Permit.
func (c *Cycle) WillWait() bool { return c.profile.env.Waiting.get(c.pod.UID) != nil }

// WaitOnPermit waits, if the pod does, until all plugins allow it, one rejects it, it is preempted,
// or the context ends.
func (c *Cycle) WaitOnPermit(ctx context.Context) *fwk.Status {
	env := c.profile.env
	w := env.Waiting.get(c.pod.UID)
	if w == nil {
		return nil
	}
	defer env.Waiting.remove(c.pod.UID)
	start := env.Clock.Now()
	var s *fwk.Status
	select {
	case s = <-w.ended:
	case <-ctx.Done():
		w.stop(fwk.AsStatus(context.Cause(ctx)))
		s = <-w.ended // that, or what came before it
	}
	w.stop(nil) // the timers: there is a verdict
	env.Meter.Waited(s.Code().String(), env.Clock.Since(start))
	switch {
	case s.IsSuccess():
		return nil
	case s.IsRejected():
		return s
	}
	return fwk.AsStatus(fmt.Errorf("waiting on permit for pod: %w", s.AsError())).WithPlugin(s.Plugin())
}

// stopWaiting ends the pod's waiting, if nobody waits for the end of it.
func (c *Cycle) stopWaiting() {
	waiting := c.profile.env.Waiting
	if w := waiting.get(c.pod.UID); w != nil {
		w.stop(fwk.NewStatus(fwk.Unschedulable))
		waiting.remove(c.pod.UID)
	}
}
