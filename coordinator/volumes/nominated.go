package volumes

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// CountDrivers has the drivers counted whose volumes a pod attaches that is not on a node, but
// may be looked at as if it were (Joining).
func (c *Cache) CountDrivers(pod *v1.Pod) {
	if !StorageMatters(pod) {
		return
	}
	for _, as := range compile.Attachments(pod, c) {
		c.usage.driver(as.Driver)
	}
}

// Attaches tells whether one of some pods, all of them passed to CountDrivers, attaches a volume.
func (c *Cache) Attaches(pods []*v1.Pod) bool {
	return slices.ContainsFunc(pods, func(p *v1.Pod) bool {
		return StorageMatters(p) && len(compile.Attachments(p, c)) > 0
	})
}

// Joining is by how much a node's counters would differ with more pods on it, all of them
// observed, for the query of a pod that was compiled without them: sorted by counter, none
// of them 0. Some of the pods that are there may have left before. It changes nothing.
func (c *Cache) Joining(node string, pods []*v1.Pod, beside *v1.Pod, left ...*v1.Pod) []*pb.CounterValue {
	joining := set[compile.Attachment]{}
	for _, p := range pods {
		if !StorageMatters(p) {
			continue
		}
		for _, as := range compile.Attachments(p, c) {
			joining[as] = struct{}{}
		}
	}
	if len(joining) == 0 {
		return nil
	}
	own, gone := compile.Attachments(beside, c), c.usage.gone(node, left)
	shared, brings := set[compile.Attachment]{}, set[string]{} // brings are the drivers of volumes that nobody has there
	for _, as := range own {
		if _, joins := joining[as]; joins {
			shared[as] = struct{}{}
		} else if pods, _ := c.usage.at(as, node, gone); pods == 0 {
			brings[as.Driver] = struct{}{}
		}
	}
	return c.usage.collect(func() {
		for as := range joining {
			_, also := shared[as]
			c.usage.join(as, node, also, gone)
		}
		for _, as := range own {
			if _, new := brings[as.Driver]; !new {
				c.usage.change(node, c.usage.drivers[as.Driver], -unlimited)
			}
		}
	})
}

// unlimited volumes less, and no limit matters: that is so where a pod brings nothing new,
// however many there are.
const unlimited = 1 << 40

// gone counts the pods that have each volume attached to a node and have left.
func (u *usage) gone(node string, left []*v1.Pod) map[compile.Attachment]int {
	out := map[compile.Attachment]int{}
	for _, pod := range left {
		p := u.pods[pod.UID]
		if p == nil || p.node != node {
			continue
		}
		counted := set[compile.Attachment]{{}: {}}
		for _, as := range p.attachments {
			if _, again := counted[as]; !again {
				counted[as] = struct{}{}
				out[as]++
			}
		}
	}
	return out
}

// at is how many pods and VolumeAttachments attach a volume to a node once some pods are gone.
func (u *usage) at(as compile.Attachment, node string, gone map[compile.Attachment]int) (pods, attachments int) {
	a := u.attached[as]
	if a == nil {
		return 0, 0
	}
	h := a.on[node]
	return len(h.users) - gone[as], h.attachments
}

// join notes what one volume more changes on a node. Where the query asks for it too, and
// no pod uses it so far, the query does not know that it is shared: then it is left to the
// query to count it.
func (u *usage) join(as compile.Attachment, node string, shared bool, gone map[compile.Attachment]int) {
	driver, counter := u.drivers[as.Driver], uint32(0)
	if a := u.attached[as]; a != nil {
		counter = a.counter
	}
	if pods, attachments := u.at(as, node, gone); pods+attachments == 0 {
		u.change(node, driver, 1)
	}
	switch {
	case counter != 0:
		u.change(node, counter, 1)
	case shared:
		u.change(node, driver, -1)
	}
}
