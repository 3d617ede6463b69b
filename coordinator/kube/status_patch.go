package kube

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// preconditions are the part of a patch that lets it through for one version of one object
// only.
type preconditions struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
}

// podPatch is a strategic merge patch of pods/status: conditions are merged by type.
type podPatch struct {
	Metadata preconditions `json:"metadata"`
	Status   statusChange  `json:"status"`
}

type statusChange struct {
	Conditions []v1.PodCondition `json:"conditions,omitempty"`
	// NominatedNodeName is null where it is to be cleared.
	NominatedNodeName json.RawMessage `json:"nominatedNodeName,omitempty"`
}

// statusPatch is what a report changes of a pod; nil: nothing.
func statusPatch(pod *v1.Pod, r *report, now time.Time) []byte {
	patch := podPatch{Metadata: preconditions{UID: pod.UID, ResourceVersion: pod.ResourceVersion}}
	if r.reason != "" {
		if c, changed := notScheduled(pod, r.reason, r.message.Value(), now); changed {
			patch.Status.Conditions = []v1.PodCondition{c}
		}
	}
	if r.nominate && pod.Status.NominatedNodeName != r.nominated {
		patch.Status.NominatedNodeName = json.RawMessage("null")
		if r.nominated != "" {
			patch.Status.NominatedNodeName = mustJSON(r.nominated)
		}
	}
	if patch.Status.Conditions == nil && patch.Status.NominatedNodeName == nil {
		return nil
	}
	return mustJSON(patch)
}

// notScheduled is the condition of a pod that is not, and whether that is anything new.
func notScheduled(pod *v1.Pod, reason, message string, now time.Time) (v1.PodCondition, bool) {
	return nextCondition(pod, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: message}, now)
}

// nextCondition completes a condition that a pod is to have, and tells whether that is anything
// new. The time of transition stays where the status does; observedGeneration alone is nothing
// new.
func nextCondition(pod *v1.Pod, c v1.PodCondition, now time.Time) (v1.PodCondition, bool) {
	c.ObservedGeneration, c.LastTransitionTime = pod.Generation, metav1.NewTime(now)
	for i := range pod.Status.Conditions {
		old := &pod.Status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		same := old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message && old.LastProbeTime.IsZero()
		return c, !same
	}
	return c, true
}

// mustJSON writes what can't fail to be written.
func mustJSON(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}
