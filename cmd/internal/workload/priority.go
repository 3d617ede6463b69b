package workload

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
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
	class := p.fallback
	if name := pod.Spec.PriorityClassName; name != "" {
		class = p.classes[name]
		if class == nil {
			pod.Spec.Priority = new(int32)
			return false
		}
	}
	value := int32(0)
	if class != nil {
		value = class.Value
		pod.Spec.PriorityClassName = class.Name
		if pod.Spec.PreemptionPolicy == nil {
			pod.Spec.PreemptionPolicy = class.PreemptionPolicy
		}
	}
	pod.Spec.Priority = &value
	return true
}
