package objects

import v1 "k8s.io/api/core/v1"

// PreemptedBy is the annotation of a pod that was made again after it had to leave: the namespace and name of the pod that it left for.
const PreemptedBy = "shardsched.io/preempted-by"

// Eviction is what is to be done so that a preemptor gets room on its node.
type Eviction struct {
	// Preemptor is the pod that it is for, as it was seen last, and Node where.
	Preemptor *v1.Pod
	Node      string
	// Victims have to leave, the most important one first. None of them is on its way out yet, and each is bound to the
	// node, or being bound: pods that are only assumed there the loop takes back by itself.
	Victims []*v1.Pod
	// Lower are pods of lower priority that are nominated to the node. Their nomination is to
	// be cleared in their status; the loop has done so in the queue.
	Lower []*v1.Pod
}

// Message is the message of a victim's condition DisruptionTarget.
func (e *Eviction) Message() string {
	return e.Preemptor.Spec.SchedulerName + ": preempting to accommodate a higher priority pod"
}

// Nominating is what an attempt makes of a pod's nominated node. nil changes nothing (upstream's ModeNoop); otherwise Node
// takes the place of the former node, and "" clears it (its ModeOverride).
type Nominating struct{ Node string }

// PreemptedNote is the note of the event that a victim gets, whose reason is Preempted. inMemory
// says that nothing was deleted: the victim was only assumed on the node.
func PreemptedNote(preemptor *v1.Pod, node string, inMemory bool) string {
	note := "Preempted by pod " + string(preemptor.UID) + " on node " + node
	if inMemory {
		note += " (in kube-scheduler memory)."
	}
	return note
}
