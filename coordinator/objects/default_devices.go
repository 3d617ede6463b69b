package objects

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

func defaultResourceClaim(c *resourcev1.ResourceClaim) {
	c.Namespace = cmp.Or(c.Namespace, v1.NamespaceDefault)
	defaultDeviceClaim(&c.Spec.Devices)
	if a := c.Status.Allocation; a != nil {
		for i := range a.Devices.Results {
			defaultDeviceTolerations(a.Devices.Results[i].Tolerations)
		}
	}
}

func defaultResourceClaimTemplate(t *resourcev1.ResourceClaimTemplate) {
	t.Namespace = cmp.Or(t.Namespace, v1.NamespaceDefault)
	defaultDeviceClaim(&t.Spec.Spec.Devices)
}

func defaultDeviceClaim(d *resourcev1.DeviceClaim) {
	for i := range d.Requests {
		if e := d.Requests[i].Exactly; e != nil {
			defaultDeviceCount(&e.AllocationMode, &e.Count)
			defaultDeviceTolerations(e.Tolerations)
		}
		for j := range d.Requests[i].FirstAvailable {
			sub := &d.Requests[i].FirstAvailable[j]
			defaultDeviceCount(&sub.AllocationMode, &sub.Count)
			defaultDeviceTolerations(sub.Tolerations)
		}
	}
}

func defaultDeviceCount(mode *resourcev1.DeviceAllocationMode, count *int64) {
	*mode = cmp.Or(*mode, resourcev1.DeviceAllocationModeExactCount)
	if *mode == resourcev1.DeviceAllocationModeExactCount {
		*count = cmp.Or(*count, 1)
	}
}

func defaultDeviceTolerations(list []resourcev1.DeviceToleration) {
	for i := range list {
		list[i].Operator = cmp.Or(list[i].Operator, resourcev1.DeviceTolerationOpEqual)
	}
}

// defaultResourceSlice leaves out what stands for a feature gate that is off, as the API server
// does.
func defaultResourceSlice(s *resourcev1.ResourceSlice) {
	for i := range s.Spec.Devices {
		s.Spec.Devices[i].NodeAllocatableResourceMappings = nil // DRANodeAllocatableResources
	}
}
