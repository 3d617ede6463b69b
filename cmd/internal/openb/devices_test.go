package openb

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// What the demo asks for by claims is what it asks for as extended resources, and every object is one that can be applied.
func TestDevicesAreTheExtendedResources(t *testing.T) {
	nodes, pods := Demo(1)
	outNodes, outPods, others := DeviceObjects(nodes, pods)
	templates := map[string]*resourcev1.ExactDeviceRequest{}
	devices := map[string]int{}
	for _, o := range others {
		obj := o.(objects.Object)
		objects.Default(obj)
		if errs := objects.Validate(obj); len(errs) > 0 {
			t.Fatalf("%s: %v", obj.GetName(), errs.ToAggregate())
		}
		switch o := o.(type) {
		case *resourcev1.ResourceClaimTemplate:
			templates[o.Name] = o.Spec.Spec.Devices.Requests[0].Exactly
		case *resourcev1.ResourceSlice:
			devices[*o.Spec.NodeName] = len(o.Spec.Devices)
		}
	}
	plainNodes, plainPods := Objects(nodes, pods)
	for i, n := range outNodes {
		objects.Default(n)
		gpus := plainNodes[i].Status.Allocatable[GPU]
		if got := devices[n.Name]; int64(got) != gpus.Value() || hasGPUs(n.Status.Allocatable) || hasGPUs(n.Status.Capacity) {
			t.Fatalf("node %s: got %d devices beside %v, want %s, and no extended resources", n.Name, got, n.Status.Allocatable, gpus.String())
		}
	}
	claims := 0
	for i, p := range outPods {
		objects.Default(p)
		if errs := objects.Validate(p); len(errs) > 0 {
			t.Fatalf("%s: %v", p.Name, errs.ToAggregate())
		}
		want := plainPods[i].Spec.Containers[0].Resources.Requests[GPUMilli]
		milli := int64(0)
		if len(p.Spec.ResourceClaims) > 0 {
			claims++
			r := templates[*p.Spec.ResourceClaims[0].ResourceClaimTemplateName]
			each := r.Capacity.Requests[milliCapacity]
			milli = r.Count * each.Value()
		}
		if r := p.Spec.Containers[0].Resources; milli != want.Value() || hasGPUs(r.Requests) || hasGPUs(r.Limits) || len(r.Claims) != len(p.Spec.ResourceClaims) {
			t.Fatalf("pod %s: got %d thousandths by claims, beside %v, want %s, and no extended resources", p.Name, milli, r, want.String())
		}
	}
	if claims != 7064 || len(templates) != 24 || len(devices) != 1213 {
		t.Errorf("got %d pods with claims, %d templates, %d slices; want 7064, 24, 1213", claims, len(templates), len(devices))
	}
}

func hasGPUs(list v1.ResourceList) bool {
	_, gpu := list[GPU]
	_, milli := list[GPUMilli]
	return gpu || milli
}
