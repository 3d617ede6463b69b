package framework

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Generations numbers the versions of views, each higher than the one before.
type Generations struct{ last atomic.Int64 }

func (g *Generations) next() int64 { return g.last.Add(1) }

// NodeInfo is a view of a node and its pods. Views that several goroutines have must not be
// changed; Snapshot gives a copy that may be.
type NodeInfo struct {
	node        *v1.Node
	pods        []fwk.PodInfo
	affinity    []fwk.PodInfo
	anti        []fwk.PodInfo
	ports       fwk.HostPortInfo
	requested   *Resource
	nonZero     *Resource
	allocatable *Resource
	images      map[string]*fwk.ImageStateSummary
	claims      map[string]int
	generation  int64
	features    ndf.FeatureSet

	generations *Generations
}

var (
	_ fwk.NodeInfo   = (*NodeInfo)(nil)
	_ klog.KMetadata = (*NodeInfo)(nil)
)

// NewNodeInfo views a node, which may be nil, and its pods. Images are left out.
func NewNodeInfo(g *Generations, node *v1.Node, pods iter.Seq[fwk.PodInfo]) *NodeInfo {
	n := &NodeInfo{
		requested: &Resource{}, nonZero: &Resource{}, allocatable: &Resource{},
		ports: fwk.HostPortInfo{}, images: map[string]*fwk.ImageStateSummary{}, claims: map[string]int{},
		generations: g, generation: g.next(),
	}
	if node != nil {
		n.SetNode(node)
	}
	if pods != nil {
		for p := range pods {
			n.AddPodInfo(p)
		}
	}
	return n
}

// setImages fills in the images that the node reports, each with its size and on how many nodes it
// is.
func (n *NodeInfo) setImages(spread func(name string) (sizeBytes int64, nodes int, ok bool)) {
	for _, image := range n.node.Status.Images {
		for _, name := range image.Names {
			if size, nodes, ok := spread(name); ok {
				n.images[name] = &fwk.ImageStateSummary{Size: size, NumNodes: nodes}
			}
		}
	}
}

// Node is part of fwk.NodeInfo.
func (n *NodeInfo) Node() *v1.Node {
	if n == nil {
		return nil
	}
	return n.node
}

// GetName is part of klog.KMetadata.
func (n *NodeInfo) GetName() string {
	if n == nil {
		return "<nil>"
	}
	if n.node == nil {
		return "<no node>"
	}
	return n.node.Name
}

// GetNamespace is part of klog.KMetadata.
func (n *NodeInfo) GetNamespace() string { return "" }

// GetPods is part of fwk.NodeInfo.
func (n *NodeInfo) GetPods() []fwk.PodInfo { return n.pods }

// GetPodsWithAffinity is part of fwk.NodeInfo.
func (n *NodeInfo) GetPodsWithAffinity() []fwk.PodInfo { return n.affinity }

// GetPodsWithRequiredAntiAffinity is part of fwk.NodeInfo.
func (n *NodeInfo) GetPodsWithRequiredAntiAffinity() []fwk.PodInfo { return n.anti }

// GetUsedPorts is part of fwk.NodeInfo.
func (n *NodeInfo) GetUsedPorts() fwk.HostPortInfo { return n.ports }

// GetRequested is part of fwk.NodeInfo.
func (n *NodeInfo) GetRequested() fwk.Resource { return n.requested }

// GetNonZeroRequested is part of fwk.NodeInfo.
func (n *NodeInfo) GetNonZeroRequested() fwk.Resource { return n.nonZero }

// GetAllocatable is part of fwk.NodeInfo.
func (n *NodeInfo) GetAllocatable() fwk.Resource { return n.allocatable }

// GetImageStates is part of fwk.NodeInfo.
func (n *NodeInfo) GetImageStates() map[string]*fwk.ImageStateSummary { return n.images }

// GetPVCRefCounts is part of fwk.NodeInfo.
func (n *NodeInfo) GetPVCRefCounts() map[string]int { return n.claims }

// GetGeneration is part of fwk.NodeInfo.
func (n *NodeInfo) GetGeneration() int64 { return n.generation }

// GetNodeDeclaredFeatures is part of fwk.NodeInfo.
func (n *NodeInfo) GetNodeDeclaredFeatures() ndf.FeatureSet { return n.features }

// GetNodeAllocatableDRAClaimState is part of fwk.NodeInfo. It is empty: the feature gate
// DRANodeAllocatableResources is off.
func (n *NodeInfo) GetNodeAllocatableDRAClaimState() map[types.NamespacedName]*fwk.NodeAllocatableDRAClaimState {
	return map[types.NamespacedName]*fwk.NodeAllocatableDRAClaimState{}
}

// Snapshot is part of fwk.NodeInfo: a copy that has nothing in common with this one that either
// changes. As upstream's, a copy of a snapshot's view does not know on how many nodes an image is.
func (n *NodeInfo) Snapshot() fwk.NodeInfo {
	c := *n
	c.pods, c.affinity, c.anti = slices.Clone(n.pods), slices.Clone(n.affinity), slices.Clone(n.anti)
	c.requested, c.nonZero, c.allocatable = n.requested.Clone(), n.nonZero.Clone(), n.allocatable.Clone()
	c.claims, c.features = maps.Clone(n.claims), n.features.Clone()
	c.ports = make(fwk.HostPortInfo, len(n.ports))
	for ip, ports := range n.ports {
		c.ports[ip] = maps.Clone(ports)
	}
	c.images = make(map[string]*fwk.ImageStateSummary, len(n.images))
	for name, image := range n.images {
		c.images[name] = image.Snapshot()
	}
	return &c
}

// String is part of fwk.NodeInfo.
func (n *NodeInfo) String() string {
	names := make([]string, len(n.pods))
	for i, p := range n.pods {
		names[i] = p.GetPod().Name
	}
	return fmt.Sprintf("&NodeInfo{Pods:%v, RequestedResource:%#v, NonZeroRequest: %#v, UsedPort: %#v, AllocatableResource:%#v}",
		names, n.requested, n.nonZero, n.ports, n.allocatable)
}

// SetNode is part of fwk.NodeInfo.
func (n *NodeInfo) SetNode(node *v1.Node) {
	n.node = node
	n.allocatable = NewResource(node.Status.Allocatable)
	n.features = ndf.DefaultFramework.TryMap(node.Status.DeclaredFeatures)
	n.generation = n.generations.next()
}

// AddPodInfo is part of fwk.NodeInfo.
func (n *NodeInfo) AddPodInfo(p fwk.PodInfo) {
	n.pods = append(n.pods, p)
	if hasAffinity(p.GetPod()) {
		n.affinity = append(n.affinity, p)
	}
	if hasRequiredAnti(p.GetPod()) {
		n.anti = append(n.anti, p)
	}
	n.count(p, 1)
}

// RemovePod is part of fwk.NodeInfo.
func (n *NodeInfo) RemovePod(_ klog.Logger, pod *v1.Pod) error {
	if pod.UID == "" {
		return errors.New("cannot get cache key for pod with empty UID")
	}
	if hasAffinity(pod) {
		n.affinity, _ = without(n.affinity, pod.UID)
	}
	if hasRequiredAnti(pod) {
		n.anti, _ = without(n.anti, pod.UID)
	}
	var removed fwk.PodInfo
	if n.pods, removed = without(n.pods, pod.UID); removed == nil {
		return fmt.Errorf("no corresponding pod %s in pods of node %s", pod.Name, n.GetName())
	}
	n.count(removed, -1)
	return nil
}

// without takes a pod out of a list; the last one takes its place.
func without(list []fwk.PodInfo, uid types.UID) (rest []fwk.PodInfo, removed fwk.PodInfo) {
	i := slices.IndexFunc(list, func(p fwk.PodInfo) bool { return p.GetPod().UID == uid })
	if i < 0 {
		return list, nil
	}
	removed = list[i]
	last := len(list) - 1
	list[i], list[last] = list[last], nil
	if last == 0 {
		return nil, removed
	}
	return list[:last], removed
}

// count adds what a pod takes up, sign times.
func (n *NodeInfo) count(p fwk.PodInfo, sign int64) {
	held := p.CalculateResource()
	n.requested.change(held.Resource, sign)
	n.nonZero.MilliCPU += sign * held.Non0CPU
	n.nonZero.Memory += sign * held.Non0Mem
	eachHostPort(p.GetPod(), func(port *v1.ContainerPort) {
		if sign > 0 {
			n.ports.Add(port.HostIP, string(port.Protocol), port.HostPort)
		} else {
			n.ports.Remove(port.HostIP, string(port.Protocol), port.HostPort)
		}
	})
	eachClaim(p.GetPod(), func(key string) {
		n.claims[key] += int(sign)
		if n.claims[key] <= 0 {
			delete(n.claims, key)
		}
	})
	n.generation = n.generations.next()
}

// eachHostPort calls f for the host ports that are held as long as a pod runs: those of its
// containers, and of init containers that run on.
func eachHostPort(p *v1.Pod, f func(*v1.ContainerPort)) {
	each := func(c *v1.Container) {
		for i := range c.Ports {
			if c.Ports[i].HostPort > 0 {
				f(&c.Ports[i])
			}
		}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			each(c)
		}
	}
	for i := range p.Spec.Containers {
		each(&p.Spec.Containers[i])
	}
}

// eachClaim calls f for each volume that names a claim, with namespace/name.
func eachClaim(p *v1.Pod, f func(key string)) {
	for i := range p.Spec.Volumes {
		if c := p.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
			f(p.Namespace + "/" + c.ClaimName)
		}
	}
}
