package build

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodTerm is a term of pod affinity or anti-affinity.
type PodTerm = v1.PodAffinityTerm

// Selector makes a label selector of its usual text, as in "app=web,tier notin (db)"; ""
// selects everything.
func Selector(text string) *metav1.LabelSelector {
	s, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		panic(err)
	}
	return s
}

// Around makes a term about the pods of the pod's own namespace that a selector matches,
// within one value of a topology key.
func Around(topologyKey, selector string) PodTerm {
	return PodTerm{TopologyKey: topologyKey, LabelSelector: Selector(selector)}
}

// Near adds a term of required affinity.
func (b *PodBuilder) Near(t PodTerm) *PodBuilder {
	a := b.podAffinity()
	a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, t)
	return b
}

// Apart adds a term of required anti-affinity.
func (b *PodBuilder) Apart(t PodTerm) *PodBuilder {
	a := b.podAntiAffinity()
	a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, t)
	return b
}

// PreferNear adds a term of preferred affinity.
func (b *PodBuilder) PreferNear(weight int32, t PodTerm) *PodBuilder {
	a := b.podAffinity()
	a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, weighted(weight, t))
	return b
}

// PreferApart adds a term of preferred anti-affinity.
func (b *PodBuilder) PreferApart(weight int32, t PodTerm) *PodBuilder {
	a := b.podAntiAffinity()
	a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, weighted(weight, t))
	return b
}

func weighted(weight int32, t PodTerm) v1.WeightedPodAffinityTerm {
	return v1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: t}
}

// affinity is the pod's, made where it is missing.
func (b *PodBuilder) affinity() *v1.Affinity {
	if b.pod.Spec.Affinity == nil {
		b.pod.Spec.Affinity = &v1.Affinity{}
	}
	return b.pod.Spec.Affinity
}

func (b *PodBuilder) podAffinity() *v1.PodAffinity {
	a := b.affinity()
	if a.PodAffinity == nil {
		a.PodAffinity = &v1.PodAffinity{}
	}
	return a.PodAffinity
}

func (b *PodBuilder) podAntiAffinity() *v1.PodAntiAffinity {
	a := b.affinity()
	if a.PodAntiAffinity == nil {
		a.PodAntiAffinity = &v1.PodAntiAffinity{}
	}
	return a.PodAntiAffinity
}

// Constraint is a topologySpreadConstraint.
type Constraint = v1.TopologySpreadConstraint

// Hard makes a constraint that refuses nodes.
func Hard(topologyKey string, maxSkew int32, selector string) Constraint {
	return Constraint{TopologyKey: topologyKey, MaxSkew: maxSkew, LabelSelector: Selector(selector), WhenUnsatisfiable: v1.DoNotSchedule}
}

// Soft makes a constraint that scores nodes.
func Soft(topologyKey string, maxSkew int32, selector string) Constraint {
	return Constraint{TopologyKey: topologyKey, MaxSkew: maxSkew, LabelSelector: Selector(selector), WhenUnsatisfiable: v1.ScheduleAnyway}
}

// Spread adds constraints.
func (b *PodBuilder) Spread(constraints ...Constraint) *PodBuilder {
	b.pod.Spec.TopologySpreadConstraints = append(b.pod.Spec.TopologySpreadConstraints, constraints...)
	return b
}
