package objects

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const maxWeight = 100

func (c *checker) affinity(p *field.Path, a *v1.Affinity) {
	if a == nil {
		return
	}
	if a.NodeAffinity != nil {
		c.nodeAffinity(p.Child("nodeAffinity"), a.NodeAffinity)
	}
	if a.PodAffinity != nil {
		c.podAffinity(p.Child("podAffinity"), a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		c.podAffinity(p.Child("podAntiAffinity"), a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (c *checker) nodeAffinity(p *field.Path, a *v1.NodeAffinity) {
	if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		c.nodeSelector(p.Child("requiredDuringSchedulingIgnoredDuringExecution"), r)
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		term := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
		p := p.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		c.weight(p.Child("weight"), term.Weight)
		c.nodeSelectorTerm(p.Child("preference"), &term.Preference)
	}
}

func (c *checker) nodeSelector(p *field.Path, s *v1.NodeSelector) {
	terms := p.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		c.add(field.Required(terms, "must have at least one node selector term"))
	}
	for i := range s.NodeSelectorTerms {
		c.nodeSelectorTerm(terms.Index(i), &s.NodeSelectorTerms[i])
	}
}

func (c *checker) weight(p *field.Path, w int32) {
	if w <= 0 || w > maxWeight {
		c.invalid(p, w, "must be in the range 1-%d", maxWeight)
	}
}

func (c *checker) nodeSelectorTerm(p *field.Path, t *v1.NodeSelectorTerm) {
	c.nodeSelectorRequirements(p.Child("matchExpressions"), t.MatchExpressions, false)
	c.nodeSelectorRequirements(p.Child("matchFields"), t.MatchFields, true)
}

func (c *checker) podAffinity(p *field.Path, required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
	for i := range required {
		c.podAffinityTerm(p.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i), &required[i])
	}
	for i := range preferred {
		p := p.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		c.weight(p.Child("weight"), preferred[i].Weight)
		c.podAffinityTerm(p.Child("podAffinityTerm"), &preferred[i].PodAffinityTerm)
	}
}

func (c *checker) podAffinityTerm(p *field.Path, t *v1.PodAffinityTerm) {
	c.labelSelector(p.Child("labelSelector"), t.LabelSelector)
	c.labelSelector(p.Child("namespaceSelector"), t.NamespaceSelector)
	for i, namespace := range t.Namespaces {
		c.dnsLabel(p.Child("namespaces").Index(i), namespace)
	}
	c.labelKeys(p, t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector)
	c.topologyKey(p.Child("topologyKey"), t.TopologyKey)
}

func (c *checker) topologyKey(p *field.Path, key string) {
	if key == "" {
		c.add(field.Required(p, "can not be empty"))
		return
	}
	c.qualifiedName(p, key)
}

// labelKeys checks matchLabelKeys and mismatchLabelKeys, and that nobody selects by a
// key that is to be matched, but for the requirement that the API server makes of it. Of a
// pod on a node that can not be known: its labels may have changed since.
func (c *checker) labelKeys(p *field.Path, match, mismatch []string, s *metav1.LabelSelector) {
	matchPath, mismatchPath := p.Child("matchLabelKeys"), p.Child("mismatchLabelKeys")
	c.keys(matchPath, match, s)
	c.keys(mismatchPath, mismatch, s)
	for i, key := range match {
		if slices.Contains(mismatch, key) {
			c.invalid(matchPath.Index(i), short(key), "exists in both matchLabelKeys and mismatchLabelKeys")
		}
		if c.pod.Spec.NodeName == "" && selectsBy(s, key, c.pod.Labels[key]) {
			c.invalid(matchPath.Index(i), short(key), "exists in both matchLabelKeys and labelSelector")
		}
	}
}

func (c *checker) keys(p *field.Path, keys []string, s *metav1.LabelSelector) {
	if len(keys) > 0 && s == nil {
		c.add(field.Forbidden(p, "must not be specified when labelSelector is not set"))
		return
	}
	for i, key := range keys {
		c.qualifiedName(p.Index(i), key)
	}
}

// selectsBy tells whether a selector has a key otherwise than as one that was merged.
func selectsBy(s *metav1.LabelSelector, key, value string) bool {
	if s == nil {
		return false
	}
	if _, has := s.MatchLabels[key]; has {
		return true
	}
	return slices.ContainsFunc(s.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
		return e.Key == key && !merged(e, key, metav1.LabelSelectorOpIn, value)
	})
}

func (c *checker) spreadConstraints(p *field.Path, constraints []v1.TopologySpreadConstraint) {
	type identity struct{ key, when string }
	seen := map[identity]bool{}
	for i := range constraints {
		s, p := &constraints[i], p.Index(i)
		c.spreadConstraint(p, s)
		id := identity{s.TopologyKey, string(s.WhenUnsatisfiable)}
		if seen[id] {
			c.add(field.Duplicate(p.Child("{topologyKey, whenUnsatisfiable}"), short("{"+id.key+", "+id.when+"}")))
		}
		seen[id] = true
	}
}

func (c *checker) spreadConstraint(p *field.Path, s *v1.TopologySpreadConstraint) {
	c.positive(p.Child("maxSkew"), int64(s.MaxSkew))
	c.topologyKey(p.Child("topologyKey"), s.TopologyKey)
	oneOf(c, p.Child("whenUnsatisfiable"), s.WhenUnsatisfiable, v1.DoNotSchedule, v1.ScheduleAnyway)
	if s.MinDomains != nil {
		c.positive(p.Child("minDomains"), int64(*s.MinDomains))
		if s.WhenUnsatisfiable != v1.DoNotSchedule {
			c.invalid(p.Child("minDomains"), *s.MinDomains, "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not %s",
				short(string(s.WhenUnsatisfiable)))
		}
	}
	c.inclusion(p.Child("nodeAffinityPolicy"), s.NodeAffinityPolicy)
	c.inclusion(p.Child("nodeTaintsPolicy"), s.NodeTaintsPolicy)
	c.labelKeys(p, s.MatchLabelKeys, nil, s.LabelSelector)
	c.labelSelector(p.Child("labelSelector"), s.LabelSelector)
}

func (c *checker) inclusion(p *field.Path, policy *v1.NodeInclusionPolicy) {
	if policy != nil {
		oneOf(c, p, *policy, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore)
	}
}
