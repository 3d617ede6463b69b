package framework

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// Resource is an amount of each resource.
type Resource struct {
	MilliCPU         int64
	Memory           int64 // bytes
	EphemeralStorage int64 // bytes
	AllowedPodNumber int
	ScalarResources  map[v1.ResourceName]int64
}

var _ fwk.Resource = (*Resource)(nil)

// NewResource counts a list.
func NewResource(list v1.ResourceList) *Resource {
	r := &Resource{}
	r.Add(list)
	return r
}

// GetMilliCPU is part of fwk.Resource.
func (r *Resource) GetMilliCPU() int64 { return r.MilliCPU }

// GetMemory is part of fwk.Resource.
func (r *Resource) GetMemory() int64 { return r.Memory }

// GetEphemeralStorage is part of fwk.Resource.
func (r *Resource) GetEphemeralStorage() int64 { return r.EphemeralStorage }

// GetAllowedPodNumber is part of fwk.Resource.
func (r *Resource) GetAllowedPodNumber() int { return r.AllowedPodNumber }

// GetScalarResources is part of fwk.Resource.
func (r *Resource) GetScalarResources() map[v1.ResourceName]int64 { return r.ScalarResources }

// Add adds a list. Names that upstream does not count are left out.
func (r *Resource) Add(list v1.ResourceList) {
	for name, q := range list {
		amount := compile.Amount(name, q)
		switch name {
		case v1.ResourceCPU:
			r.MilliCPU += amount
		case v1.ResourceMemory:
			r.Memory += amount
		case v1.ResourcePods:
			r.AllowedPodNumber += int(amount)
		case v1.ResourceEphemeralStorage:
			r.EphemeralStorage += amount
		default:
			if compile.IsScalar(name) {
				r.setScalar(name, r.ScalarResources[name]+amount)
			}
		}
	}
}

// SetMaxResource is part of fwk.Resource. The number of pods is left as it is.
func (r *Resource) SetMaxResource(list v1.ResourceList) {
	if r == nil {
		return
	}
	for name, q := range list {
		amount := compile.Amount(name, q)
		switch name {
		case v1.ResourceCPU:
			r.MilliCPU = max(r.MilliCPU, amount)
		case v1.ResourceMemory:
			r.Memory = max(r.Memory, amount)
		case v1.ResourceEphemeralStorage:
			r.EphemeralStorage = max(r.EphemeralStorage, amount)
		default:
			if compile.IsScalar(name) {
				r.setScalar(name, max(r.ScalarResources[name], amount))
			}
		}
	}
}

func (r *Resource) setScalar(name v1.ResourceName, amount int64) {
	if r.ScalarResources == nil {
		r.ScalarResources = map[v1.ResourceName]int64{}
	}
	r.ScalarResources[name] = amount
}

// Clone is a copy.
func (r *Resource) Clone() *Resource {
	c := *r
	c.ScalarResources = maps.Clone(r.ScalarResources)
	return &c
}

// change adds what a pod holds, sign times.
func (r *Resource) change(held fwk.Resource, sign int64) {
	r.MilliCPU += sign * held.GetMilliCPU()
	r.Memory += sign * held.GetMemory()
	r.EphemeralStorage += sign * held.GetEphemeralStorage()
	for name, amount := range held.GetScalarResources() {
		r.setScalar(name, r.ScalarResources[name]+sign*amount)
	}
}
