package framework

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreBindPreFlight asks the PreBind plugins which of them have work to do: Skip if none has.
func (c *Cycle) PreBindPreFlight(ctx context.Context, node string) (s *fwk.Status) {
	p, start := c.profile, c.profile.env.Clock.Now()
	defer func() { p.pointRan(preBindPreFlight, s, start) }()
	skip, parallel := sets.New[string](), sets.New[string]()
	out := fwk.NewStatus(fwk.Skip)
	for _, pl := range p.preBind {
		var r *fwk.PreBindPreFlightResult
		s := p.call(pl, preBindPreFlight, func() (s *fwk.Status) {
			r, s = pl.PreBindPreFlight(p.named(ctx, PreBind, pl), c.state, c.pod, node)
			return s
		})
		if r != nil && r.AllowParallel {
			parallel.Insert(pl.Name())
		}
		switch s.Code() {
		case fwk.Success:
			out = nil
		case fwk.Skip:
			skip.Insert(pl.Name())
		case fwk.Error:
			return fwk.AsStatus(fmt.Errorf("running PreBindPreFlight %q: %w", pl.Name(), s.AsError()))
		default:
			return fwk.AsStatus(fmt.Errorf("PreBindPreFlight %s returned %q, which is unsupported. It is supposed to return Success, "+
				"Skip, or Error status", pl.Name(), s.Code()))
		}
	}
	c.state.SetSkipPreBindPlugins(skip)
	c.state.SetParallelPreBindPlugins(parallel)
	return out
}

// PreBind runs the PreBind plugins that have work to do, those next to each other that allow it at
// once. The first that fails ends it.
func (c *Cycle) PreBind(ctx context.Context, node string) (s *fwk.Status) {
	p, start := c.profile, c.profile.env.Clock.Now()
	defer func() { p.pointRan(PreBind.String(), s, start) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errors.New("RunPreBindPlugins has completed"))
	for _, group := range c.preBindGroups() {
		if len(group) == 1 {
			if s := c.preBind(ctx, group[0], node); s != nil {
				return s
			}
			continue
		}
		failed := make(chan *fwk.Status, 1) // the first to fail is what has the others end
		parallelizer(p.env.Parallelism).Until(ctx, len(group), func(i int) {
			if s := c.preBind(ctx, group[i], node); s != nil {
				select {
				case failed <- s:
				default:
				}
				cancel(errors.New("some other PreBind operation failed"))
			}
		}, PreBind.String())
		select {
		case s := <-failed:
			return s
		default:
		}
		if ctx.Err() != nil {
			return ended(ctx, PreBind) // before all of them have begun
		}
	}
	return nil
}

// preBindGroups are the plugins that have work to do, those together that may run at once: as many
// as stand next to each other, skipped ones aside.
func (c *Cycle) preBindGroups() [][]fwk.PreBindPlugin {
	skip, parallel := c.state.GetSkipPreBindPlugins(), c.state.GetParallelPreBindPlugins()
	var groups [][]fwk.PreBindPlugin
	open := false // the last group takes more
	for _, pl := range c.profile.preBind {
		both := parallel.Has(pl.Name())
		switch {
		case skip.Has(pl.Name()):
			open = open && both
			continue
		case both && open:
			groups[len(groups)-1] = append(groups[len(groups)-1], pl)
		default:
			groups = append(groups, []fwk.PreBindPlugin{pl})
		}
		open = both
	}
	return groups
}

func (c *Cycle) preBind(ctx context.Context, pl fwk.PreBindPlugin, node string) *fwk.Status {
	p := c.profile
	s := p.call(pl, PreBind.String(), func() *fwk.Status { return pl.PreBind(p.named(ctx, PreBind, pl), c.state, c.pod, node) })
	switch {
	case s.IsSuccess():
		return nil
	case s.IsRejected():
		return by(pl, s)
	}
	err := s.AsError()
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return fwk.AsStatus(fmt.Errorf("running PreBind plugin %q: %w", pl.Name(), err))
}

// Bind runs the Bind plugins until one does not skip; Skip if all do.
func (c *Cycle) Bind(ctx context.Context, node string) (s *fwk.Status) {
	p, start := c.profile, c.profile.env.Clock.Now()
	defer func() { p.pointRan(Bind.String(), s, start) }()
	if len(p.bind) == 0 {
		return fwk.NewStatus(fwk.Skip, "")
	}
	for _, pl := range p.bind {
		s = p.call(pl, Bind.String(), func() *fwk.Status { return pl.Bind(p.named(ctx, Bind, pl), c.state, c.pod, node) })
		switch {
		case s.IsSkip():
		case s.IsSuccess():
			return s
		case s.IsRejected():
			return by(pl, s)
		default:
			return fwk.AsStatus(fmt.Errorf("running Bind plugin %q: %w", pl.Name(), s.AsError()))
		}
	}
	return s
}

// PostBind runs the PostBind plugins.
func (c *Cycle) PostBind(ctx context.Context, node string) {
	p, start := c.profile, c.profile.env.Clock.Now()
	defer func() { p.pointRan(PostBind.String(), nil, start) }()
	for _, pl := range p.postBind {
		p.call(pl, PostBind.String(), func() *fwk.Status {
			pl.PostBind(p.named(ctx, PostBind, pl), c.state, c.pod, node)
			return nil
		})
	}
}
