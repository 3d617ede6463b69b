package framework

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
)

// PostFilterBy runs one PostFilter plugin; false: it is none that runs here. How long it took is the
// caller's to measure, with what it asks built-in plugins in between.
func (c *Cycle) PostFilterBy(ctx context.Context, name string, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status, bool) {
	p := c.profile
	pl, ok := acting(p.plugins[name], PostFilter).(fwk.PostFilterPlugin)
	if !ok {
		return nil, nil, false
	}
	r, s := pl.PostFilter(p.named(ctx, PostFilter, pl), c.state, c.pod, statuses)
	return r, s, true
}
