package framework

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
)

// RunPostFilters asks the PostFilter plugins of a profile in their order, until one helps, fails, or says that nothing
// helps (upstream's RunPostFilterPlugins). Of the plugins that let the next one try, all reasons are told, and the last
// nomination holds. It is the one chain of all attempts; ask runs one plugin.
func RunPostFilters(plugins []string, ask func(plugin string) (*fwk.PostFilterResult, *fwk.Status)) (*fwk.PostFilterResult, *fwk.Status) {
	var result *fwk.PostFilterResult
	var reasons []string
	first := ""
	for _, name := range plugins {
		r, s := ask(name)
		switch {
		case s.IsSuccess():
			return r, s
		case s.Code() == fwk.UnschedulableAndUnresolvable:
			return r, s.Clone().WithPlugin(name)
		case !s.IsRejected():
			return nil, fwk.AsStatus(failedBy(name, PostFilter, s)).WithPlugin(name)
		case r != nil && r.Mode() != fwk.ModeNoop:
			result = r
		}
		reasons = append(reasons, s.Reasons()...)
		if first == "" {
			first = name
		}
	}
	return result, fwk.NewStatus(fwk.Unschedulable, reasons...).WithPlugin(first)
}

// PostFilter runs RunPostFilters for an attempt of a profile with plugins that are compiled in. statuses is asked, before the
// first of these, what the nodes were turned away with. builtIn runs, and measures, a built-in plugin; nil: it has nothing to
// say.
func (c *Cycle) PostFilter(ctx context.Context, statuses func() fwk.NodeToStatusReader,
	builtIn func(plugin string) (*fwk.PostFilterResult, *fwk.Status)) (_ *fwk.PostFilterResult, s *fwk.Status) {
	p, start := c.profile, c.profile.env.Clock.Now()
	defer func() { p.pointRan(PostFilter.String(), s, start) }()
	if c.state.ShouldSkipAllPostFilterPlugins() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "All PostFilter plugins are skipped")
	}
	var known fwk.NodeToStatusReader
	return RunPostFilters(p.lists[PostFilter], func(name string) (r *fwk.PostFilterResult, s *fwk.Status) {
		pl := p.plugins[name]
		plugin, acts := acting(pl, PostFilter).(fwk.PostFilterPlugin)
		switch {
		case acts:
		case builtIn == nil:
			return nil, fwk.NewStatus(fwk.Unschedulable)
		default:
			return builtIn(name)
		}
		if known == nil {
			known = statuses()
		}
		s = p.call(pl, PostFilter.String(), func() (s *fwk.Status) {
			r, s = plugin.PostFilter(p.named(ctx, PostFilter, plugin), c.state, c.pod, known)
			return s
		})
		return r, s
	})
}
