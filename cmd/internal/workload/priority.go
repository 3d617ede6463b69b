package workload

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
)

// Values of the classes that every cluster has.
const (
	systemClusterCritical = 2_000_000_000
	systemNodeCritical    = 2_000_001_000
)

// Priorities resolves class names as the Priority admission plugin does. It is
// immutable.
type Priorities struct {
	classes  map[string]*schedulingv1.PriorityClass
	fallback *schedulingv1.PriorityClass // globalDefault; nil: none
}

// NewPriorities takes the classes of the input; the two system classes are always there.
func NewPriorities(classes []*schedulingv1.PriorityClass) *Priorities {
	p := &Priorities{classes: map[string]*schedulingv1.PriorityClass{}}
	system := map[string]int32{"system-cluster-critical": systemClusterCritical, "system-node-critical": systemNodeCritical}
	for name, value := range system {
		c := &schedulingv1.PriorityClass{Value: value}
		c.Name = name
		p.classes[name] = c
	}
	for _, c := range classes {
		p.classes[c.Name] = c
		// Of several defaults the lowest counts.
		if c.GlobalDefault && (p.fallback == nil || c.Value < p.fallback.Value) {
			p.fallback = c
		}
	}
	return p
}

// Resolve sets a pod's priority and preemption policy from its class, where
// nothing has set them. It is false where nobody knows the class: the priority is then 0.
func (p *Priorities) Resolve(pod *v1.Pod) bool {
	if pod.Spec.Priority != nil {
		return true
	}
	class, value, known := p.of(pod.Spec.PriorityClassName)
	pod.Spec.Priority = &value
	if class != nil {
		pod.Spec.PriorityClassName = class.Name
		if pod.Spec.PreemptionPolicy == nil {
			pod.Spec.PreemptionPolicy = class.PreemptionPolicy
		}
	}
	return known
}

// ResolvePodGroup does for a PodGroup what Resolve does for a pod.
func (p *Priorities) ResolvePodGroup(g *schedulingv1alpha2.PodGroup) bool {
	if g.Spec.Priority != nil {
		return true
	}
	class, value, known := p.of(g.Spec.PriorityClassName)
	g.Spec.Priority = &value
	if class != nil {
		g.Spec.PriorityClassName = class.Name
	}
	return known
}

// of is the class that a name stands for, or no name, and its value; nil and 0: there is none. It is not known where the name is none's.
func (p *Priorities) of(name string) (class *schedulingv1.PriorityClass, value int32, known bool) {
	if class = p.fallback; name != "" {
		class = p.classes[name]
	}
	if class == nil {
		return nil, 0, name == ""
	}
	return class, class.Value, true
}
