package objects

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// MergeLabelKeys writes a pod's matchLabelKeys and mismatchLabelKeys into the selectors that
// they stand beside, with the values that labels hold, as the API server does when a pod is
// created (k8s.io/kubernetes/pkg/registry/core/pod/strategy.go): the scheduler reads
// selectors only. A key that labels do not hold, and one beside no selector, does
// nothing. What is there already is not added again.
//
// A pod that is on a node was created long ago, and is left as it is.
func MergeLabelKeys(p *v1.Pod, labels map[string]string) {
	if p.Spec.NodeName != "" {
		return
	}
	eachLabelKeys(&p.Spec, func(s *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator) {
		mergeKeys(s, keys, operator, labels)
	})
}

// MergedLabels are the labels that MergeLabelKeys has found, and left in the selectors of a
// pod: those of its creation.
func MergedLabels(p *v1.Pod) map[string]string {
	labels := map[string]string{}
	eachLabelKeys(&p.Spec, func(s *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator) {
		for _, e := range s.MatchExpressions {
			if slices.Contains(keys, e.Key) && e.Operator == operator && len(e.Values) == 1 {
				labels[e.Key] = e.Values[0]
			}
		}
	})
	return labels
}

// eachLabelKeys calls f with every selector that stands beside label keys, and the operator
// that makes a requirement of them.
func eachLabelKeys(spec *v1.PodSpec, f func(*metav1.LabelSelector, []string, metav1.LabelSelectorOperator)) {
	offer := func(s *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator) {
		if s != nil && len(keys) > 0 {
			f(s, keys, operator)
		}
	}
	visit := func(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
		for _, t := range required {
			offer(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
			offer(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
		}
		for _, w := range preferred {
			t := w.PodAffinityTerm
			offer(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
			offer(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
		}
	}
	for _, c := range spec.TopologySpreadConstraints {
		offer(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
	a := spec.Affinity
	if a == nil {
		return
	}
	if t := a.PodAffinity; t != nil {
		visit(t.RequiredDuringSchedulingIgnoredDuringExecution, t.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if t := a.PodAntiAffinity; t != nil {
		visit(t.RequiredDuringSchedulingIgnoredDuringExecution, t.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func mergeKeys(s *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	for _, key := range keys {
		value, has := labels[key]
		if has && !slices.ContainsFunc(s.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
			return merged(e, key, operator, value)
		}) {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator,
				Values: []string{value}})
		}
	}
}

// merged tells whether a requirement is the one that a label key comes to.
func merged(e metav1.LabelSelectorRequirement, key string, operator metav1.LabelSelectorOperator, value string) bool {
	return e.Key == key && e.Operator == operator && len(e.Values) == 1 && e.Values[0] == value
}

// EphemeralClaims makes the claims of a pod's generic ephemeral volumes, as the controller
// of a cluster does once the pod has its UID: they are the pod's own.
func EphemeralClaims(p *v1.Pod) []*v1.PersistentVolumeClaim {
	var claims []*v1.PersistentVolumeClaim
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		t := v.Ephemeral.VolumeClaimTemplate.DeepCopy()
		c := &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: ephemeral.VolumeClaimName(p, v), Namespace: p.Namespace,
				Labels: maps.Clone(t.Labels), Annotations: maps.Clone(t.Annotations),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, v1.SchemeGroupVersion.WithKind("Pod"))},
			},
			Spec: t.Spec,
		}
		setType(c)
		Default(c)
		claims = append(claims, c)
	}
	return claims
}
