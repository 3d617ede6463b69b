package flight

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// driver is that of all devices, and extended the extended resource that they serve.
const (
	driver   = "gpu.example.com"
	extended = "example.com/gpu"
)

// claimable are a class of devices, templates of claims, and claims that pods share.
func claimable() (out []runtime.Object) {
	name := extended
	out = append(out, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", driver)}}}, ExtendedResourceName: &name,
	}})
	for i := range 2 {
		out = append(out, &resourcev1.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("gpus-", 1+i)},
			Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: gpus(1 + i)},
		})
	}
	for i := range 4 {
		out = append(out, &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("shared-g", i)}, Spec: gpus(1),
		})
	}
	return out
}

func gpus(n int) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "gpus", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(n),
		},
	}}}}
}

// slice has so many devices of a node.
func slice(node string, generation int64, devices int) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: generation, ResourceSliceCount: 1},
	}}
	for i := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i)})
	}
	return s
}

// ask has a pod ask for devices: by a claim of its own, by one that it shares, or as an extended resource.
func ask(p *v1.Pod, kind int, group string) {
	template, shared := fmt.Sprint("gpus-", 1+kind), "shared-"+group
	switch kind {
	case 0, 1:
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}}
	case 2:
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &shared}}
	default:
		one := v1.ResourceList{extended: resource.MustParse("1")}
		r := &p.Spec.Containers[0].Resources
		r.Limits = one
		r.Requests[extended] = one[extended]
	}
}

// changeDevices publishes other devices of a node, or none.
func (c *crowd) changeDevices(node string) error {
	ctx, api := c.Context(), c.Admin.ResourceV1().ResourceSlices()
	s, err := api.Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if c.random.IntN(4) == 0 {
		return api.Delete(ctx, node, metav1.DeleteOptions{})
	}
	s.Spec = slice(node, s.Spec.Pool.Generation+1, c.random.IntN(5)).Spec
	_, err = api.Update(ctx, s, metav1.UpdateOptions{})
	return err
}
