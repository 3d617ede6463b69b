package volumes

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Observe has the drivers counted whose volumes a pod attaches that is not on a node, but
// may be looked at as if it were (Joining).
func (c *Cache) Observe(pod *v1.Pod) {
	if !storageMatters(pod) {
		return
	}
	for _, as := range compile.Attachments(pod, c) {
		c.usage.driver(as.Driver)
	}
}

// Joining is by how much a node's counters would differ with more pods on it, all of them
// observed, for the query of a pod that was compiled without them: sorted by counter, none
// of them 0. It changes nothing.
func (c *Cache) Joining(node string, pods []*v1.Pod, beside *v1.Pod) []*pb.CounterValue {
	var joining []compile.Attachment
	for _, p := range pods {
		if !storageMatters(p) {
			continue
		}
		for _, as := range compile.Attachments(p, c) {
			if !slices.Contains(joining, as) {
				joining = append(joining, as)
			}
		}
	}
	if len(joining) == 0 {
		return nil
	}
	own := compile.Attachments(beside, c)
	return c.usage.collect(func() {
		for _, as := range joining {
			c.usage.join(as, node, slices.Contains(own, as))
		}
	})
}

// join notes what one volume more changes on a node. Where the query asks for it too, and
// no pod uses it so far, the query does not know that it is shared: then it is left to the
// query to count it.
func (u *usage) join(as compile.Attachment, node string, shared bool) {
	a, driver := u.attached[as], u.drivers[as.Driver]
	var on held
	counter := uint32(0)
	if a != nil {
		on, counter = a.on[node], a.counter
	}
	if !on.attached() {
		u.change(node, driver, 1)
	}
	switch {
	case counter != 0:
		u.change(node, counter, 1)
	case shared:
		u.change(node, driver, -1)
	}
}
