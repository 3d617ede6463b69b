package store

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const immutable = "field is immutable"

// inheritResourceClaim keeps what the claim was given, and who uses it. What a driver says of the devices is the client's to tell.
func inheritResourceClaim(c, old *resourcev1.ResourceClaim) field.ErrorList {
	said := c.Status.Devices
	c.Status, c.Finalizers = old.Status, old.Finalizers
	if said != nil {
		c.Status.Devices = slices.DeleteFunc(said, func(d resourcev1.AllocatedDeviceStatus) bool { return !isAllocated(old, &d) })
	}
	return unchanged(field.NewPath("spec"), c.Spec, old.Spec)
}

// isAllocated tells whether a claim has a device, or that share of it.
func isAllocated(c *resourcev1.ResourceClaim, d *resourcev1.AllocatedDeviceStatus) bool {
	a := c.Status.Allocation
	return a != nil && slices.ContainsFunc(a.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		sameShare := r.ShareID == nil && d.ShareID == nil || r.ShareID != nil && d.ShareID != nil && string(*r.ShareID) == *d.ShareID
		return r.Driver == d.Driver && r.Pool == d.Pool && r.Device == d.Device && sameShare
	})
}

// inheritSlice lets a slice change but for whose it is.
func inheritSlice(s, old *resourcev1.ResourceSlice) field.ErrorList {
	p := field.NewPath("spec")
	errs := unchanged(p.Child("pool", "name"), s.Spec.Pool.Name, old.Spec.Pool.Name)
	errs = append(errs, unchanged(p.Child("driver"), s.Spec.Driver, old.Spec.Driver)...)
	return append(errs, unchanged(p.Child("nodeName"), s.Spec.NodeName, old.Spec.NodeName)...)
}

func unchanged(p *field.Path, now, old any) field.ErrorList {
	if equality.Semantic.DeepEqual(now, old) {
		return nil
	}
	return field.ErrorList{field.Forbidden(p, immutable)}
}
