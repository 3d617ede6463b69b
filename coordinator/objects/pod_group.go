package objects

import (
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroupCondition is the condition PodGroupScheduled that a PodGroup is to have.
type PodGroupCondition struct {
	PodGroup        *v1alpha2.PodGroup
	Status          metav1.ConditionStatus
	Reason, Message string
}

// After is the condition as it is written at now, where old is the one before, or nil; false: it says nothing new. One that is true stays
// so, as upstream: what becomes of members beyond the quorum does not matter.
func (p *PodGroupCondition) After(old *metav1.Condition, now metav1.Time) (c metav1.Condition, changed bool) {
	c = metav1.Condition{
		Type: v1alpha2.PodGroupScheduled, Status: p.Status, Reason: p.Reason, Message: p.Message, ObservedGeneration: p.PodGroup.Generation,
		LastTransitionTime: now,
	}
	if old == nil {
		return c, true
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	same := old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message && old.ObservedGeneration == c.ObservedGeneration
	return c, !same && (old.Status != metav1.ConditionTrue || c.Status == metav1.ConditionTrue)
}

// Of is the condition that a PodGroup has; nil: none.
func (p *PodGroupCondition) Of(g *v1alpha2.PodGroup) *metav1.Condition {
	return meta.FindStatusCondition(g.Status.Conditions, v1alpha2.PodGroupScheduled)
}
