package oracle

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

// Cluster is nodes and pods in upstream's own cache.
type Cluster struct {
	*internalcache.Snapshot
	cache internalcache.Cache
	// stale says that the snapshot must be made anew, not only brought up to date.
	stale bool
}

func newCluster(ctx context.Context) *Cluster {
	return &Cluster{Snapshot: internalcache.NewEmptySnapshot(), cache: internalcache.New(ctx, nil, false)}
}

// SetNode adds a node, or replaces old by it.
func (c *Cluster) SetNode(old, node *v1.Node) {
	c.stale = true
	if old == nil {
		c.cache.AddNode(quiet(), node)
		return
	}
	c.cache.UpdateNode(quiet(), old, node)
}

// RemoveNode drops a node; its pods stay until they are removed.
func (c *Cluster) RemoveNode(node *v1.Node) error {
	c.stale = true
	return c.cache.RemoveNode(quiet(), node)
}

// AddPod adds a pod that is on its node.
func (c *Cluster) AddPod(pod *v1.Pod) error { return c.cache.AddPod(quiet(), pod) }

// RemovePod drops a pod. Upstream notes which host ports are taken, not by how many, and so
// with one of two pods that have the same port, as they can be without a scheduler, takes
// it for free, until it is restarted. Therefore the pods that stay are put in anew.
func (c *Cluster) RemovePod(pod *v1.Pod) error {
	if err := c.cache.RemovePod(quiet(), pod); err != nil {
		return err
	}
	info := c.cache.Dump().Nodes[pod.Spec.NodeName]
	if info == nil || !hasPorts(pod) {
		return nil
	}
	for _, other := range info.GetPods() {
		if p := other.GetPod(); hasPorts(p) {
			if err := errors.Join(c.cache.RemovePod(quiet(), p), c.cache.AddPod(quiet(), p)); err != nil {
				return err
			}
		}
	}
	return nil
}

func hasPorts(pod *v1.Pod) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if len(list[i].Ports) > 0 {
				return true
			}
		}
	}
	return false
}

// Place puts a pod on a node, as a scheduler does once it has decided, and returns it as
// it is there.
func (c *Cluster) Place(pod *v1.Pod, node string) (*v1.Pod, error) {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = node
	if err := c.cache.AssumePod(quiet(), placed); err != nil {
		return nil, fmt.Errorf("place pod %s/%s on %s: %w", pod.Namespace, pod.Name, node, err)
	}
	return placed, c.cache.AddPod(quiet(), placed)
}

// refresh brings the snapshot up to date. After a change of a node every node is
// copied again, and with it the number of nodes that have its images.
func (c *Cluster) refresh() error {
	if c.stale {
		c.Snapshot = internalcache.NewEmptySnapshot()
		c.stale = false
	}
	return c.cache.UpdateSnapshot(quiet(), c.Snapshot)
}

var _ fwk.SharedLister = (*Cluster)(nil)
