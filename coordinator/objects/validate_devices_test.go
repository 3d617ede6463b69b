package objects_test

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// of makes a list of n entries.
func of[T any](n int, entry func(i int) T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = entry(i)
	}
	return list
}

// mapOf makes a map of n entries.
func mapOf[K ~string, V any](n int, value V) map[K]V {
	m := map[K]V{}
	for i := range n {
		m[K(fmt.Sprintf("k%d", i))] = value
	}
	return m
}

func label(i int) string { return fmt.Sprintf("k%d", i) }

// TestLimitsOfDevices holds each list to the length that the API server allows.
func TestLimitsOfDevices(t *testing.T) {
	slice := func(d ...resourcev1.Device) *resourcev1.ResourceSlice {
		node := "n"
		s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &node, Devices: d}}
		s.Name, s.Spec.Pool = "s", resourcev1.ResourcePool{Name: "p", ResourceSliceCount: 1}
		return s
	}
	claim := func(edit func(*resourcev1.ResourceClaim)) objects.Object {
		c := &resourcev1.ResourceClaim{}
		c.Name, c.Spec.Devices.Requests = "c", of(1, func(i int) resourcev1.DeviceRequest { return request(i) })
		edit(c)
		return c
	}
	exactly := func(edit func(*resourcev1.ExactDeviceRequest)) objects.Object {
		return claim(func(c *resourcev1.ResourceClaim) { edit(c.Spec.Devices.Requests[0].Exactly) })
	}
	one := map[string]resourcev1.Counter{"c": {Value: resource.MustParse("1")}}
	device := func(i int) resourcev1.Device { return resourcev1.Device{Name: label(i)} }
	opaque := func(int) resourcev1.DeviceConfiguration {
		o := &resourcev1.OpaqueDeviceConfiguration{Driver: "d"}
		o.Parameters.Raw = []byte(`{}`)
		return resourcev1.DeviceConfiguration{Opaque: o}
	}
	integer := int64(1)
	for what, tc := range map[string]struct {
		limit int
		make  func(n int) objects.Object
		field string
	}{
		"devices": {128, func(n int) objects.Object { return slice(of(n, device)...) }, "spec.devices"},
		"devices with taints": {64, func(n int) objects.Object {
			s := slice(of(n, device)...)
			s.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "k", Effect: "None"}}
			return s
		}, "spec.devices"},
		"devices with counters": {64, func(n int) objects.Object {
			s := slice(of(n, device)...)
			s.Spec.Devices[0].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "c", Counters: one}}
			return s
		}, "spec.devices"},
		"attributes": {32, func(n int) objects.Object {
			attributes := mapOf[resourcev1.QualifiedName](n, resourcev1.DeviceAttribute{IntValue: &integer})
			return slice(resourcev1.Device{Name: "d", Attributes: attributes})
		}, "spec.devices[0]"},
		"attributes and capacities": {32, func(n int) objects.Object {
			d := resourcev1.Device{Name: "d", Attributes: mapOf[resourcev1.QualifiedName](1, resourcev1.DeviceAttribute{IntValue: &integer})}
			d.Capacity = mapOf[resourcev1.QualifiedName](n-1, resourcev1.DeviceCapacity{})
			return slice(d)
		}, "spec.devices[0]"},
		"taints": {16, func(n int) objects.Object {
			taint := func(i int) resourcev1.DeviceTaint { return resourcev1.DeviceTaint{Key: label(i), Effect: "None"} }
			return slice(resourcev1.Device{Name: "d", Taints: of(n, taint)})
		}, "spec.devices[0].taints"},
		"consumptions": {2, func(n int) objects.Object {
			consumption := func(i int) resourcev1.DeviceCounterConsumption {
				return resourcev1.DeviceCounterConsumption{CounterSet: label(i), Counters: one}
			}
			return slice(resourcev1.Device{Name: "d", ConsumesCounters: of(n, consumption)})
		}, "spec.devices[0].consumesCounters"},
		"counters of a consumption": {32, func(n int) objects.Object {
			c := resourcev1.DeviceCounterConsumption{CounterSet: "c", Counters: mapOf[string](n, one["c"])}
			return slice(resourcev1.Device{Name: "d", ConsumesCounters: []resourcev1.DeviceCounterConsumption{c}})
		}, "spec.devices[0].consumesCounters[0].counters"},
		"binding conditions": {4, func(n int) objects.Object {
			return slice(resourcev1.Device{Name: "d", BindingConditions: of(n, label), BindingFailureConditions: []string{"f"}})
		}, "spec.devices[0].bindingConditions"},
		"binding failure conditions": {4, func(n int) objects.Object {
			return slice(resourcev1.Device{Name: "d", BindingConditions: []string{"r"}, BindingFailureConditions: of(n, label)})
		}, "spec.devices[0].bindingFailureConditions"},
		"counter sets": {8, func(n int) objects.Object {
			s := slice()
			s.Spec.SharedCounters = of(n, func(i int) resourcev1.CounterSet { return resourcev1.CounterSet{Name: label(i), Counters: one} })
			return s
		}, "spec.sharedCounters"},
		"counters of a set": {32, func(n int) objects.Object {
			s := slice()
			s.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "c", Counters: mapOf[string](n, one["c"])}}
			return s
		}, "spec.sharedCounters[0].counters"},
		"requests": {32, func(n int) objects.Object {
			return claim(func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests = of(n, request) })
		}, "spec.devices.requests"},
		"constraints": {32, func(n int) objects.Object {
			name := resourcev1.FullyQualifiedName("a/b")
			constraint := func(int) resourcev1.DeviceConstraint { return resourcev1.DeviceConstraint{MatchAttribute: &name} }
			return claim(func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Constraints = of(n, constraint) })
		}, "spec.devices.constraints"},
		"config": {32, func(n int) objects.Object {
			config := func(i int) resourcev1.DeviceClaimConfiguration {
				return resourcev1.DeviceClaimConfiguration{DeviceConfiguration: opaque(i)}
			}
			return claim(func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Config = of(n, config) })
		}, "spec.devices.config"},
		"alternatives": {8, func(n int) objects.Object {
			alternative := func(i int) resourcev1.DeviceSubRequest {
				return resourcev1.DeviceSubRequest{Name: label(i), DeviceClassName: "c"}
			}
			return claim(func(c *resourcev1.ResourceClaim) {
				c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", FirstAvailable: of(n, alternative)}}
			})
		}, "spec.devices.requests[0].firstAvailable"},
		"selectors": {32, func(n int) objects.Object {
			selector := func(int) resourcev1.DeviceSelector {
				return resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: "true"}}
			}
			return exactly(func(r *resourcev1.ExactDeviceRequest) { r.Selectors = of(n, selector) })
		}, "spec.devices.requests[0].exactly.selectors"},
		"bytes of a selector": {10240, func(n int) objects.Object {
			text := "true" + strings.Repeat(" ", n-4)
			return exactly(func(r *resourcev1.ExactDeviceRequest) {
				r.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: text}}}
			})
		}, "spec.devices.requests[0].exactly.selectors[0].cel.expression"},
		"tolerations": {16, func(n int) objects.Object {
			toleration := func(i int) resourcev1.DeviceToleration { return resourcev1.DeviceToleration{Key: label(i)} }
			return exactly(func(r *resourcev1.ExactDeviceRequest) { r.Tolerations = of(n, toleration) })
		}, "spec.devices.requests[0].exactly.tolerations"},
		"bytes of parameters": {10240, func(n int) objects.Object {
			d := opaque(0)
			d.Opaque.Parameters.Raw = []byte("{" + strings.Repeat(" ", n-2) + "}")
			c := &resourcev1.DeviceClass{}
			c.Name, c.Spec.Config = "c", []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: d}}
			return c
		}, "spec.config[0].opaque.parameters"},
		"users": {256, func(n int) objects.Object {
			user := func(i int) resourcev1.ResourceClaimConsumerReference {
				return resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: types.UID(label(i))}
			}
			return claim(func(c *resourcev1.ResourceClaim) {
				c.Status.Allocation, c.Status.ReservedFor = &resourcev1.AllocationResult{}, of(n, user)
			})
		}, "status.reservedFor"},
		"allocated devices": {32, func(n int) objects.Object {
			result := func(i int) resourcev1.DeviceRequestAllocationResult {
				return resourcev1.DeviceRequestAllocationResult{Request: "k0", Driver: "d", Pool: "p", Device: label(i)}
			}
			return claim(func(c *resourcev1.ResourceClaim) {
				c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: of(n, result)}}
			})
		}, "status.allocation.devices.results"},
		"config of an allocation": {64, func(n int) objects.Object {
			config := func(i int) resourcev1.DeviceAllocationConfiguration {
				return resourcev1.DeviceAllocationConfiguration{Source: "FromClass", DeviceConfiguration: opaque(i)}
			}
			return claim(func(c *resourcev1.ResourceClaim) {
				c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Config: of(n, config)}}
			})
		}, "status.allocation.devices.config"},
	} {
		t.Run(what, func(t *testing.T) {
			for n, valid := range map[int]bool{tc.limit: true, tc.limit + 1: false} {
				obj := tc.make(n)
				objects.Default(obj)
				errs := objects.Validate(obj)
				if valid != (len(errs) == 0) {
					t.Errorf("%d: got %v, want valid: %v", n, errs, valid)
				}
				if !valid && (len(errs) != 1 || errs[0].Field != tc.field) {
					t.Errorf("%d: got %v, want one error of %s", n, errs, tc.field)
				}
			}
		})
	}
}

// request is request i of a claim.
func request(i int) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: label(i), Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c"}}
}
