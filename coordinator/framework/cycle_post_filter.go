package framework

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
)

// PostFilter runs the PostFilter plugins, until one helps or says that nothing does. statuses is
// asked before the first guest what the nodes were turned away with. builtIn runs the built-in
// plugins in their turn that nothing acts for here; nil: they are left out.
func (c *Cycle) PostFilter(ctx context.Context, statuses func() fwk.NodeToStatusReader, builtIn func(plugin string) (*fwk.PostFilterResult, *fwk.Status)) (_ *fwk.PostFilterResult, s *fwk.Status) {
	p, start := c.profile, c.profile.env.Clock.Now()
	defer func() { p.pointRan(PostFilter.String(), s, start) }()
	if c.state.ShouldSkipAllPostFilterPlugins() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "All PostFilter plugins are skipped")
	}
	var result *fwk.PostFilterResult // the last that says anything
	var reasons []string
	first := ""
	var known fwk.NodeToStatusReader
	for _, name := range p.lists[PostFilter] {
		pl := p.plugins[name]
		guest, acts := acting(pl, PostFilter).(fwk.PostFilterPlugin)
		if acts && known == nil {
			known = statuses()
		}
		var r *fwk.PostFilterResult
		var s *fwk.Status
		switch {
		case acts:
			s = p.call(pl, PostFilter.String(), func() (s *fwk.Status) {
				r, s = guest.PostFilter(p.named(ctx, PostFilter, guest), c.state, c.pod, known)
				return s
			})
		case builtIn != nil:
			start := p.env.Clock.Now()
			r, s = builtIn(name)
			p.pluginRan(pl, PostFilter.String(), s, start)
		default:
			continue
		}
		switch {
		case s.IsSuccess():
			return r, s
		case s.Code() == fwk.UnschedulableAndUnresolvable:
			return r, by(pl, s)
		case !s.IsRejected():
			return nil, fwk.AsStatus(failedBy(pl, PostFilter, s)).WithPlugin(pl.Name())
		case r != nil && r.Mode() != fwk.ModeNoop:
			result = r
		}
		reasons = append(reasons, s.Reasons()...)
		if first == "" {
			first = pl.Name()
		}
	}
	return result, fwk.NewStatus(fwk.Unschedulable, reasons...).WithPlugin(first)
}
