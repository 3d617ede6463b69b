package shadow

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// maxResources bounds the resources that are added up: the general ones, and those that were met first.
const maxResources = 8

// The places of the resources of which every pod takes something.
const (
	atCPU = iota
	atMemory
	atPods
)

// amounts are of resources, by their places; cpu in thousandths, others in their unit.
type amounts [maxResources]int64

func (a *amounts) add(b *amounts, times int64) {
	for i := range a {
		a[i] += times * b[i]
	}
}

// resources gives resources their places.
type resources struct {
	names []v1.ResourceName
	at    map[v1.ResourceName]int
}

func newResources() *resources {
	r := &resources{at: map[v1.ResourceName]int{}}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods, v1.ResourceEphemeralStorage} {
		r.place(name)
	}
	return r
}

// place is where a resource is; false: there is no place left for it.
func (r *resources) place(name v1.ResourceName) (int, bool) {
	if i, ok := r.at[name]; ok {
		return i, true
	}
	if len(r.names) == maxResources {
		return 0, false
	}
	r.at[name] = len(r.names)
	r.names = append(r.names, name)
	return r.at[name], true
}

// of are the amounts of a list.
func (r *resources) of(list v1.ResourceList) (out amounts) {
	for _, name := range slices.Sorted(maps.Keys(list)) { // sorted: which resources have places is the same each time
		q := list[name]
		i, ok := r.place(name)
		switch {
		case !ok:
		case name == v1.ResourceCPU:
			out[i] = q.MilliValue()
		default:
			out[i] = q.Value()
		}
	}
	return out
}

// ofPod is what a pod takes on its node.
func (r *resources) ofPod(p *v1.Pod) amounts {
	out := r.of(compile.Requests(p))
	out[atPods] = 1
	return out
}
