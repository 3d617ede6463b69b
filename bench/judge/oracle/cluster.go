package oracle

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

// Cluster is nodes and pods in upstream's own cache, the other objects in its informers,
// and pods that wait.
type Cluster struct {
	*internalcache.Snapshot
	cache internalcache.Cache
	// stale says that the snapshot must be made anew, not only brought up to date.
	stale     bool
	objects   *objects
	nodes     map[string]*v1.Node
	placed    map[types.UID]*v1.Pod // on a node, as the cache has them
	pending   map[types.UID]*v1.Pod
	nominated nominations
	// responsible tells whether a pod asks for one of the profiles.
	responsible func(*v1.Pod) bool
}

func newCluster(ctx context.Context) (*Cluster, error) {
	objects, err := newObjects(ctx)
	return &Cluster{
		Snapshot: internalcache.NewEmptySnapshot(), cache: internalcache.New(ctx, nil, groupsOn()), objects: objects,
		nodes: map[string]*v1.Node{}, placed: map[types.UID]*v1.Pod{}, pending: map[types.UID]*v1.Pod{},
	}, err
}

// Set adds an object, or replaces the one of its kind and name (of a pod: its UID). A pod
// with spec.nodeName is on its node, one without waits, and one that has run to its end
// is gone.
func (c *Cluster) Set(obj Object) error {
	switch obj := obj.(type) {
	case *v1.Node:
		c.setNode(obj)
		return nil
	case *v1.Pod:
		return c.setPod(obj)
	}
	return c.objects.set(obj)
}

// Remove drops an object. A node's pods stay until they are removed.
func (c *Cluster) Remove(obj Object) error {
	switch obj := obj.(type) {
	case *v1.Node:
		return c.removeNode(obj.Name)
	case *v1.Pod:
		return c.removePod(obj.UID)
	}
	return c.objects.remove(obj)
}

// Pending is a pod that waits; nil: there is none of that UID.
func (c *Cluster) Pending(uid types.UID) *v1.Pod { return c.pending[uid] }

// AllPending are the pods that wait, in no order.
func (c *Cluster) AllPending() iter.Seq[*v1.Pod] { return maps.Values(c.pending) }

// Placed is a pod that is on a node; nil: there is none of that UID.
func (c *Cluster) Placed(uid types.UID) *v1.Pod { return c.placed[uid] }

// Node is a node; nil: there is none of that name.
func (c *Cluster) Node(name string) *v1.Node { return c.nodes[name] }

// Withdraw takes the nomination of a pod back, as upstream does where an attempt has
// ended in an error. The pod's status still names the node, until it is set anew.
func (c *Cluster) Withdraw(uid types.UID) {
	if pod := c.pending[uid]; pod != nil {
		c.nominated.withdraw(pod)
	}
}

// KeepsRoom tells whether a node keeps room for pods other than one.
func (c *Cluster) KeepsRoom(uid types.UID) bool { return c.nominated.others(uid) }

func (c *Cluster) setNode(node *v1.Node) {
	c.stale = true
	old := c.nodes[node.Name]
	c.nodes[node.Name] = node
	if old == nil {
		c.cache.AddNode(quiet(), node)
		return
	}
	c.objects.devices.changes(old)
	c.cache.UpdateNode(quiet(), old, node)
}

func (c *Cluster) removeNode(name string) error {
	node := c.nodes[name]
	if node == nil {
		return nil
	}
	c.stale = true
	c.objects.devices.changes(node)
	delete(c.nodes, name)
	return c.cache.RemoveNode(quiet(), node)
}

func (c *Cluster) setPod(pod *v1.Pod) error {
	gone := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	old := c.pending[pod.UID]
	if !gone && pod.Spec.NodeName == "" && old != nil {
		c.pending[pod.UID] = pod
		return c.waits(old, pod)
	}
	if err := c.removePod(pod.UID); err != nil || gone {
		return err
	}
	if pod.Spec.NodeName == "" {
		c.pending[pod.UID] = pod
		return c.waits(nil, pod)
	}
	c.placed[pod.UID] = pod
	return errors.Join(c.nominated.placed(pod), c.cache.AddPod(quiet(), pod))
}

// waits tells the queue of a pending pod, if it is one of ours.
func (c *Cluster) waits(old, now *v1.Pod) error {
	if !c.responsible(now) {
		return c.nominated.remove(now)
	}
	if old == nil {
		c.cache.AddPodGroupMember(now)
	} else {
		c.cache.UpdatePodGroupMember(quiet(), old, now)
	}
	return c.nominated.set(old, now)
}

// removePod drops a pod.
func (c *Cluster) removePod(uid types.UID) error {
	if pod := c.pending[uid]; pod != nil {
		delete(c.pending, uid)
		c.cache.RemovePodGroupMember(pod)
		return c.nominated.remove(pod)
	}
	pod := c.placed[uid]
	if pod == nil {
		return nil
	}
	delete(c.placed, uid)
	if err := errors.Join(c.nominated.remove(pod), c.cache.RemovePod(quiet(), pod)); err != nil {
		return err
	}
	return c.takePorts(pod)
}

// takePorts has the pods that stay on the node of one that went have their host ports. Upstream notes which host ports are taken, not by
// how many, and so with one of two pods that have the same port, as they can be without a scheduler, takes it for free, until it is
// restarted. Therefore the pods that stay are put in anew.
func (c *Cluster) takePorts(gone *v1.Pod) error {
	info := c.cache.Dump().Nodes[gone.Spec.NodeName]
	if info == nil || !hasPorts(gone) {
		return nil
	}
	for _, other := range info.GetPods() {
		p := other.GetPod()
		if !hasPorts(p) {
			continue
		}
		drop, put := c.cache.RemovePod, c.cache.AddPod
		if assumed, err := c.cache.IsAssumedPod(p); err != nil {
			return err
		} else if assumed {
			drop, put = c.cache.ForgetPod, c.cache.AssumePod
		}
		if err := errors.Join(drop(quiet(), p), put(quiet(), p)); err != nil {
			return err
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

// assume puts a waiting pod on a node, as a scheduler does once it has decided, and
// returns it as it is there.
func (c *Cluster) assume(pod *v1.Pod, node string) (*v1.Pod, error) {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = node
	if err := c.cache.AssumePod(quiet(), placed); err != nil {
		return nil, fmt.Errorf("assume pod %s/%s on %s: %w", pod.Namespace, pod.Name, node, err)
	}
	delete(c.pending, pod.UID)
	c.placed[pod.UID] = placed
	return placed, errors.Join(c.nominated.placed(placed), c.cache.AddPod(quiet(), placed))
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
