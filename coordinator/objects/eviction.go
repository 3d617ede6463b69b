package objects

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
)

// PreemptedBy is the annotation of a pod that was made again after it had to leave: the namespace and name of the pod that it left for.
const PreemptedBy = "shardsched.io/preempted-by"

// Eviction is what is to be done so that a preemptor gets room on its node.
type Eviction struct {
	// Preemptor is the pod that it is for, as it was seen last, and Node where.
	Preemptor *v1.Pod
	Node      string
	// PodGroup is the one that the victims leave for together; nil: they leave for the Preemptor alone. Else the Preemptor is one of its
	// pods, and Node is EveryNode.
	PodGroup *v1alpha2.PodGroup
	// Victims have to leave, the most important one first. None of them is on its way out yet, and each is bound to the
	// node, or being bound: pods that are only assumed there the loop takes back by itself. For a PodGroup they are on any nodes, and so
	// are those of a PodGroup that leaves whole.
	Victims []*v1.Pod
	// Lower are pods of lower priority that are nominated to the node. Their nomination is to
	// be cleared in their status; the loop has done so in the queue.
	Lower []*v1.Pod
}

// Message is the message of a victim's condition DisruptionTarget.
func (e *Eviction) Message() string {
	if e.PodGroup != nil {
		return e.Preemptor.Spec.SchedulerName + ": preempting to accommodate a higher priority podgroup"
	}
	return e.Preemptor.Spec.SchedulerName + ": preempting to accommodate a higher priority pod"
}

// EveryNode is what upstream's texts have for a node where victims leave for a PodGroup.
const EveryNode = "cluster"

// Nominating is what an attempt makes of a pod's nominated node. nil changes nothing (upstream's ModeNoop); otherwise Node
// takes the place of the former node, and "" clears it (its ModeOverride).
type Nominating struct{ Node string }

// Note is the note of the event that a victim gets, whose reason is Preempted. inMemory says that nothing was deleted: the victim was
// only assumed on a node.
func (e *Eviction) Note(inMemory bool) string {
	note := "Preempted by pod " + string(e.Preemptor.UID)
	if e.PodGroup != nil {
		note = "Preempted by podgroup " + string(e.PodGroup.UID)
	}
	note += " on node " + e.Node
	if inMemory {
		note += " (in kube-scheduler memory)."
	}
	return note
}

// By names what the victims leave for: such as "pod default/a".
func (e *Eviction) By() string {
	if e.PodGroup != nil {
		return "podgroup " + e.PodGroup.Namespace + "/" + e.PodGroup.Name
	}
	return "pod " + e.Preemptor.Namespace + "/" + e.Preemptor.Name
}
