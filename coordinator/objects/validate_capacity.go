package objects

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// capacity checks what a device has, and which shares of it may be asked for.
func (c *checker) capacity(p *field.Path, q *resourcev1.DeviceCapacity, shared bool) {
	policy, p := q.RequestPolicy, p.Child("requestPolicy")
	switch {
	case policy == nil:
	case !shared:
		c.add(field.Forbidden(p, "allowMultipleAllocations must be true"))
	case len(policy.ValidValues) > 0 && policy.ValidRange != nil:
		c.add(field.Forbidden(p, `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`))
	case len(policy.ValidValues) > 0:
		c.validValues(p, policy, q)
	case policy.ValidRange != nil:
		c.validRange(p, policy, q)
	}
}

func (c *checker) validValues(p *field.Path, policy *resourcev1.CapacityRequestPolicy, q *resourcev1.DeviceCapacity) {
	values := p.Child("validValues")
	if policy.Default == nil {
		c.add(field.Required(p.Child("default"), "required when validValues is defined"))
		return
	}
	if !c.atMost(values, len(policy.ValidValues), maxValidValues) {
		return
	}
	found := false
	for i := range policy.ValidValues {
		v := &policy.ValidValues[i]
		found = found || v.Cmp(*policy.Default) == 0
		if v.Cmp(q.Value) > 0 {
			c.invalid(values.Index(i), v.String(), "option is larger than capacity value: %s", q.Value.String())
		}
		if i == 0 {
			continue
		}
		switch order := v.Cmp(policy.ValidValues[i-1]); {
		case order < 0:
			c.invalid(values.Index(i), v.String(), "values must be sorted in ascending order")
		case order == 0:
			c.add(field.Duplicate(values.Index(i), v.String()))
		}
	}
	if !found {
		c.invalid(values, policy.Default.String(), "default value is not valid according to the requestPolicy")
	}
}

// maxValidValues bounds the shares that a policy names (resource.CapacityRequestPolicyDiscreteMaxOptions).
const maxValidValues = 10

func (c *checker) validRange(p *field.Path, policy *resourcev1.CapacityRequestPolicy, q *resourcev1.DeviceCapacity) {
	low, high, step, initial := policy.ValidRange.Min, policy.ValidRange.Max, policy.ValidRange.Step, policy.Default
	r := p.Child("validRange")
	switch {
	case initial == nil:
		c.add(field.Required(p.Child("default"), "required when validRange is defined"))
		return
	case low == nil:
		c.add(field.Required(r.Child("min"), "required when validRange is defined"))
		return
	case low.Cmp(q.Value) > 0:
		c.invalid(r.Child("min"), low.String(), "min is larger than capacity value: %s", q.Value.String())
	}
	if initial.Cmp(*low) < 0 {
		c.invalid(r.Child("min"), initial.String(), "default is less than min: %s", low.String())
	}
	if high != nil {
		if low.Cmp(*high) > 0 {
			c.invalid(r.Child("max"), low.String(), "min is larger than max: %s", high.String())
		}
		if high.Cmp(q.Value) > 0 {
			c.invalid(r.Child("max"), high.String(), "max is larger than capacity value: %s", q.Value.String())
		}
		if initial.Cmp(*high) > 0 {
			c.invalid(r.Child("max"), initial.String(), "default is more than max: %s", high.String())
		}
	}
	switch {
	case step == nil:
	case step.Sign() <= 0:
		c.invalid(r.Child("step"), step.String(), "must be greater than zero")
	default:
		c.rangeStep(r.Child("step"), policy, q)
	}
}

// rangeStep checks that default and maximum are whole steps away from the minimum.
func (c *checker) rangeStep(p *field.Path, policy *resourcev1.CapacityRequestPolicy, q *resourcev1.DeviceCapacity) {
	low, step := policy.ValidRange.Min, policy.ValidRange.Step
	once := low.DeepCopy()
	once.Add(*step)
	if once.Cmp(q.Value) > 0 {
		c.invalid(p, step.String(), "one step %s is larger than capacity value: %s", once.String(), q.Value.String())
	}
	for _, v := range []*resource.Quantity{policy.Default, policy.ValidRange.Max} {
		if v != nil && (v.Value()-low.Value())%step.Value() != 0 {
			c.invalid(p, v.String(), "value is not a multiple of a given step (%s) from (%s)", step.String(), low.String())
		}
	}
}
