package workload

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Admission fills in pods that are created as the API server's plugins Priority, LimitRanger and RuntimeClass do, and refuses what
// these refuse. It is immutable.
type Admission struct {
	priorities *Priorities
	ranges     map[string][]*v1.LimitRange // by namespace
	runtimes   map[string]*nodev1.RuntimeClass
}

// NewAdmission takes the classes and limit ranges among the objects of an input.
func NewAdmission(input []runtime.Object) *Admission {
	a := &Admission{ranges: map[string][]*v1.LimitRange{}, runtimes: map[string]*nodev1.RuntimeClass{}}
	var classes []*schedulingv1.PriorityClass
	for _, obj := range input {
		switch obj := obj.(type) {
		case *schedulingv1.PriorityClass:
			classes = append(classes, obj)
		case *nodev1.RuntimeClass:
			a.runtimes[obj.Name] = obj
		case *v1.LimitRange:
			a.ranges[obj.Namespace] = append(a.ranges[obj.Namespace], defaultRange(obj))
		}
	}
	a.priorities = NewPriorities(classes)
	return a
}

// Remark is about a field of a pod.
type Remark struct {
	Field   *field.Path
	Problem string
}

// Pod fills in a pod that has its defaults. unknown are classes that it names and nobody has given: it goes on without them.
// refused is why an API server would not take it. A pod with a UID was admitted long ago: only its priority is looked up, where it
// has none.
func (a *Admission) Pod(p *v1.Pod) (unknown, refused []Remark) {
	if !a.priorities.Resolve(p) {
		unknown = append(unknown, noClass(p.Spec.PriorityClassName))
	}
	if p.UID != "" {
		return unknown, nil
	}
	for _, r := range a.ranges[p.Namespace] {
		fillContainers(p, r)
	}
	for _, r := range a.ranges[p.Namespace] {
		refused = append(refused, checkRange(p, r)...)
	}
	name := p.Spec.RuntimeClassName
	if name == nil {
		return unknown, refused
	}
	class := a.runtimes[*name]
	if class == nil {
		return append(unknown, Remark{field.NewPath("spec", "runtimeClassName"),
			fmt.Sprintf("no RuntimeClass %q is known: no overhead, and any node will do", *name)}), refused
	}
	return unknown, append(refused, applyRuntime(p, class)...)
}

func noClass(name string) Remark {
	return Remark{field.NewPath("spec", "priorityClassName"), fmt.Sprintf("no PriorityClass %q is known: priority 0", name)}
}

// PodGroup fills in the priority of a PodGroup. unknown is a class that it names and nobody has given.
func (a *Admission) PodGroup(g *schedulingv1alpha2.PodGroup) (unknown []Remark) {
	if !a.priorities.ResolvePodGroup(g) {
		unknown = append(unknown, noClass(g.Spec.PriorityClassName))
	}
	return unknown
}

// Claim is why an API server would not take a claim.
func (a *Admission) Claim(c *v1.PersistentVolumeClaim) (refused []Remark) {
	if c.UID != "" {
		return nil
	}
	for _, r := range a.ranges[c.Namespace] {
		for _, item := range r.Spec.Limits {
			if item.Type != v1.LimitTypePersistentVolumeClaim {
				continue
			}
			b := bounds{r: r, item: item, at: field.NewPath("spec", "resources"), requests: c.Spec.Resources.Requests}
			refused = append(append(refused, b.least()...), b.mostRequested()...)
		}
	}
	return refused
}

// applyRuntime gives a pod the overhead of its RuntimeClass, and the nodes that have that.
func applyRuntime(p *v1.Pod, class *nodev1.RuntimeClass) (refused []Remark) {
	spec := field.NewPath("spec")
	var overhead v1.ResourceList
	if class.Overhead != nil {
		overhead = class.Overhead.PodFixed
	}
	if p.Spec.Overhead != nil && !apiequality.Semantic.DeepEqual(p.Spec.Overhead, overhead) {
		refused = append(refused, Remark{spec.Child("overhead"), fmt.Sprintf("it is not that of RuntimeClass %s", class.Name)})
	} else if overhead != nil {
		p.Spec.Overhead = overhead.DeepCopy()
	}
	if class.Scheduling == nil {
		return refused
	}
	selector := maps.Clone(p.Spec.NodeSelector)
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		value := class.Scheduling.NodeSelector[key]
		if own, has := selector[key]; has && own != value {
			refused = append(refused, Remark{spec.Child("nodeSelector").Key(key),
				fmt.Sprintf("it is %q, and %q by RuntimeClass %s", own, value, class.Name)})
		}
		selector = with(selector, key, value)
	}
	p.Spec.NodeSelector = selector
	for _, t := range class.Scheduling.Tolerations {
		if !slices.ContainsFunc(p.Spec.Tolerations, func(own v1.Toleration) bool { return apiequality.Semantic.DeepEqual(own, t) }) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, t)
		}
	}
	return refused
}
