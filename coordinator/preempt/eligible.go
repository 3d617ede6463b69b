package preempt

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

// Prefix begins all that DefaultPreemption says.
const Prefix = "preemption: "

// The texts of a pod's condition that are no sum over nodes.
const (
	// never and leaving are why a pod may not preempt.
	never   = "not eligible due to preemptionPolicy=Never."
	leaving = "not eligible due to a terminating pod on the nominated node."
	// notHelpful is why a node is no candidate: no pod that left it would make the preemptor fit.
	notHelpful = "Preemption is not helpful for scheduling"
)

// ineligible tells why a pod may not preempt others; "": it may. nominated is its nominated node, and pods are the pods of
// this node. useless says that the node is gone, or refuses the pod for a reason which no victim changes.
//
// A pod whose victims are still leaving waits for them, unless its node is useless. Only victims of a scheduler count as
// leaving; below is what the pod's priority has to be above for one to be its victim.
func ineligible(p *v1.Pod, nominated string, useless bool, pods iter.Seq[*v1.Pod], below func(*v1.Pod) int32) string {
	if p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever {
		return never
	}
	if nominated == "" || useless {
		return ""
	}
	own := priority(p)
	for other := range pods {
		if isLeaving(other) && below(other) < own {
			return leaving
		}
	}
	return ""
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// isLeaving tells whether a scheduler's preemption has a pod terminate.
func isLeaving(p *v1.Pod) bool { return toldToLeave(p) != nil }

// toldToLeave is the condition of a pod that terminates because of a scheduler's preemption; nil: it does not.
func toldToLeave(p *v1.Pod) *v1.PodCondition {
	if p.DeletionTimestamp == nil {
		return nil
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.DisruptionTarget {
			if c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler {
				return c
			}
			return nil
		}
	}
	return nil
}
