package openb

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ModelLabel holds a node's GPU model.
	ModelLabel = "shardsched.io/gpu-model"
	// GPU counts whole devices.
	GPU = v1.ResourceName("nvidia.com/gpu")
	// GPUMilli counts thousandths of devices, 1000 a device.
	GPUMilli = v1.ResourceName("shardsched.io/gpu-milli")
	// podsPerNode is the kubelet's default; the trace has no limit.
	podsPerNode = 110
)

// Objects makes the Kubernetes objects, in the order given.
func Objects(nodes []Node, pods []Pod) ([]*v1.Node, []*v1.Pod) {
	outNodes := make([]*v1.Node, len(nodes))
	for i := range nodes {
		outNodes[i] = nodes[i].object()
	}
	outPods := make([]*v1.Pod, len(pods))
	for i := range pods {
		outPods[i] = pods[i].object()
	}
	return outNodes, outPods
}

func (n *Node) object() *v1.Node {
	labels := map[string]string{v1.LabelHostname: n.Name, v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64"}
	amounts := amounts(n.MilliCPU, n.MemoryMiB)
	amounts[v1.ResourcePods] = *resource.NewQuantity(podsPerNode, resource.DecimalSI)
	if n.GPUs > 0 {
		labels[ModelLabel] = n.Model
		addDevices(amounts, n.GPUs)
	}
	return &v1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels},
		Status:     v1.NodeStatus{Capacity: amounts, Allocatable: amounts.DeepCopy()},
	}
}

func (p *Pod) object() *v1.Pod {
	requests := amounts(p.MilliCPU, p.MemoryMiB)
	limits := v1.ResourceList{}
	switch {
	case p.GPUs == 1 && p.GPUMilli < whole:
		limits[GPUMilli] = *resource.NewQuantity(p.GPUMilli, resource.DecimalSI)
	case p.GPUs > 0:
		addDevices(limits, p.GPUs)
	}
	// An extended resource is requested in full: its limit is its request.
	for name, q := range limits {
		requests[name] = q
	}
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: metav1.NamespaceDefault},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{
				Name: "main", Image: "openb",
				Resources: v1.ResourceRequirements{Requests: requests, Limits: limits},
			}},
			Affinity: onModels(p.Models),
		},
	}
}

func amounts(milliCPU, memoryMiB int64) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memoryMiB<<20, resource.BinarySI),
	}
}

// addDevices adds whole devices, which are a thousand thousandths each: a node's
// thousandths are then never promised twice.
func addDevices(list v1.ResourceList, devices int64) {
	list[GPU] = *resource.NewQuantity(devices, resource.DecimalSI)
	list[GPUMilli] = *resource.NewQuantity(devices*whole, resource.DecimalSI)
}

func onModels(models []string) *v1.Affinity {
	if len(models) == 0 {
		return nil
	}
	return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: ModelLabel, Operator: v1.NodeSelectorOpIn, Values: models}},
		}}},
	}}
}
