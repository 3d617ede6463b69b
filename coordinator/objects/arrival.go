package objects

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decidedBy begins the message of a pod's condition PodScheduled where a standalone coordinator has bound the pod.
const decidedBy = "decided by "

// DecidedBy is the message of a pod's condition PodScheduled that names the coordinator which has decided it.
func DecidedBy(leader string) string {
	if leader == "" {
		return ""
	}
	return decidedBy + leader
}

// Arrival is when a pod came to its node, and by which coordinator's decision, as its condition PodScheduled tells. Zero and empty: it
// does not.
func Arrival(p *v1.Pod) (at metav1.Time, by string) {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			by, _ = strings.CutPrefix(c.Message, decidedBy)
			if by == c.Message {
				by = ""
			}
			return c.LastTransitionTime, by
		}
	}
	return at, ""
}
