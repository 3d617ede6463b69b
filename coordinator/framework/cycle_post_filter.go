package framework

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
)

// PostFilterBy runs one PostFilter plugin; false: it is none that runs here.
func (c *Cycle) PostFilterBy(ctx context.Context, name string, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status, bool) {
	p := c.profile
	pl, ok := acting(p.plugins[name], PostFilter).(fwk.PostFilterPlugin)
	if !ok {
		return nil, nil, false
	}
	start := p.env.Clock.Now()
	r, s := pl.PostFilter(p.named(ctx, PostFilter, pl), c.state, c.pod, statuses)
	p.pluginRan(pl, PostFilter.String(), s, start)
	return r, s, true
}
