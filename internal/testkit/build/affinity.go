package build

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Term is a term of node affinity.
type Term = v1.NodeSelectorTerm

// Labels makes a term of label requirements, each a Match.
func Labels(requirements ...v1.NodeSelectorRequirement) Term {
	return Term{MatchExpressions: requirements}
}

// Names makes a term that matches the nodes with one of the given names, as a
// DaemonSet's pods have it.
func Names(names ...string) Term {
	return Term{MatchFields: []v1.NodeSelectorRequirement{Match(metav1.ObjectNameField, v1.NodeSelectorOpIn, names...)}}
}

// Match makes a requirement.
func Match(key string, operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

// Required adds terms of which the node must match one.
func (b *PodBuilder) Required(terms ...Term) *PodBuilder {
	a := b.nodeAffinity()
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{}
	}
	s := a.RequiredDuringSchedulingIgnoredDuringExecution
	s.NodeSelectorTerms = append(s.NodeSelectorTerms, terms...)
	return b
}

// Preferred adds a term that gives a node its weight.
func (b *PodBuilder) Preferred(weight int32, term Term) *PodBuilder {
	a := b.nodeAffinity()
	a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
		v1.PreferredSchedulingTerm{Weight: weight, Preference: term})
	return b
}

// nodeAffinity is the pod's node affinity, made where it is missing.
func (b *PodBuilder) nodeAffinity() *v1.NodeAffinity {
	a := b.affinity()
	if a.NodeAffinity == nil {
		a.NodeAffinity = &v1.NodeAffinity{}
	}
	return a.NodeAffinity
}
