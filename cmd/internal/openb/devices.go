package openb

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// Driver publishes the GPUs where they are devices. The device class has its name, too.
	Driver = "gpu.shardsched.io"
	// milliCapacity is the capacity of a GPU in thousandths.
	milliCapacity = "milli"
)

// DeviceObjects makes the objects of a cluster whose GPUs are devices: nodes without extended resources, pods that ask for GPUs by
// claims from templates, and what these need: the device class, the templates, and a slice for each node with GPUs.
func DeviceObjects(nodes []Node, pods []Pod) (outNodes []*v1.Node, outPods []*v1.Pod, others []runtime.Object) {
	outNodes, outPods = Objects(nodes, pods)
	others = append(others, deviceClass())
	for i := range nodes {
		if nodes[i].GPUs > 0 {
			withoutGPUs(outNodes[i].Status.Capacity)
			withoutGPUs(outNodes[i].Status.Allocatable)
			others = append(others, nodes[i].slice())
		}
	}
	templates := map[string]bool{}
	for i := range pods {
		if pods[i].GPUs == 0 {
			continue
		}
		t := pods[i].template()
		if !templates[t.Name] {
			templates[t.Name] = true
			others = append(others, t)
		}
		askBy(outPods[i], t.Name)
	}
	return outNodes, outPods, others
}

func withoutGPUs(list v1.ResourceList) {
	delete(list, GPU)
	delete(list, GPUMilli)
}

func deviceClass() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "DeviceClass"},
		ObjectMeta: metav1.ObjectMeta{Name: Driver},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
			CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", Driver)},
		}}},
	}
}

// slice is the node's GPUs. Several pods may have shares of one, up to a thousand thousandths.
func (n *Node) slice() *resourcev1.ResourceSlice {
	yes := true
	s := &resourcev1.ResourceSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: Driver, NodeName: &n.Name, Pool: resourcev1.ResourcePool{Name: n.Name, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range n.GPUs {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &n.Model}},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				milliCapacity: {Value: *resource.NewQuantity(whole, resource.DecimalSI)},
			},
			AllowMultipleAllocations: &yes,
		})
	}
	return s
}

// template is what the pod asks for: gpu-4 is four GPUs, gpu-460m is a share of one.
func (p *Pod) template() *resourcev1.ResourceClaimTemplate {
	name, milli := fmt.Sprintf("gpu-%d", p.GPUs), int64(whole)
	if p.GPUs == 1 && p.GPUMilli < whole {
		name, milli = fmt.Sprintf("gpu-%dm", p.GPUMilli), p.GPUMilli
	}
	return &resourcev1.ResourceClaimTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaimTemplate"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: Driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: p.GPUs,
				Capacity: &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
					milliCapacity: *resource.NewQuantity(milli, resource.DecimalSI),
				}},
			}}},
		}}},
	}
}

// askBy has a pod ask for its GPUs by a claim that is made from a template.
func askBy(p *v1.Pod, template string) {
	c := &p.Spec.Containers[0].Resources
	withoutGPUs(c.Requests)
	withoutGPUs(c.Limits)
	c.Claims = slices.Concat(c.Claims, []v1.ResourceClaim{{Name: "gpu"}})
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
}
