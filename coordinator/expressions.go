package coordinator

import (
	v1 "k8s.io/api/core/v1"
)

// CELReadsPods tells the queue whether an expression of the profile's CELFilter reads what the
// pods of a node add up to.
func (h hintProfiles) CELReadsPods(p *v1.Pod) bool {
	prof := h.profiles[p.Spec.SchedulerName]
	return prof != nil && prof.CELReadsPods()
}
