package objects

import (
	v1 "k8s.io/api/core/v1"
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
		c.podAffinity(p.Child("podAffinity"), a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		c.podAffinity(p.Child("podAntiAffinity"), a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (c *checker) nodeAffinity(p *field.Path, a *v1.NodeAffinity) {
	if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		terms := p.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		if len(r.NodeSelectorTerms) == 0 {
			c.add(field.Required(terms, "must have at least one node selector term"))
		}
		for i := range r.NodeSelectorTerms {
			c.nodeSelectorTerm(terms.Index(i), &r.NodeSelectorTerms[i])
		}
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		term := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
		p := p.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		c.between(p.Child("weight"), int64(term.Weight), 1, maxWeight)
		c.nodeSelectorTerm(p.Child("preference"), &term.Preference)
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
		c.between(p.Child("weight"), int64(preferred[i].Weight), 1, maxWeight)
		c.podAffinityTerm(p.Child("podAffinityTerm"), &preferred[i].PodAffinityTerm)
	}
}

func (c *checker) podAffinityTerm(p *field.Path, t *v1.PodAffinityTerm) {
	c.labelSelector(p.Child("labelSelector"), t.LabelSelector)
	c.labelSelector(p.Child("namespaceSelector"), t.NamespaceSelector)
	for i, namespace := range t.Namespaces {
		c.dnsLabel(p.Child("namespaces").Index(i), namespace)
	}
	c.qualifiedName(p.Child("topologyKey"), t.TopologyKey)
}

func (c *checker) spreadConstraints(p *field.Path, constraints []v1.TopologySpreadConstraint) {
	type identity struct{ key, when string }
	seen := map[identity]bool{}
	for i := range constraints {
		s, p := &constraints[i], p.Index(i)
		c.spreadConstraint(p, s)
		id := identity{s.TopologyKey, string(s.WhenUnsatisfiable)}
		if seen[id] {
			c.add(field.Duplicate(p.Child("{topologyKey, whenUnsatisfiable}"), short(id.key+", "+id.when)))
		}
		seen[id] = true
	}
}

func (c *checker) spreadConstraint(p *field.Path, s *v1.TopologySpreadConstraint) {
	c.atLeast(p.Child("maxSkew"), int64(s.MaxSkew), 1)
	c.qualifiedName(p.Child("topologyKey"), s.TopologyKey)
	oneOf(c, p.Child("whenUnsatisfiable"), s.WhenUnsatisfiable, v1.DoNotSchedule, v1.ScheduleAnyway)
	if s.MinDomains != nil {
		c.atLeast(p.Child("minDomains"), int64(*s.MinDomains), 1)
		if s.WhenUnsatisfiable != v1.DoNotSchedule {
			c.invalid(p.Child("minDomains"), *s.MinDomains, "can only use minDomains if whenUnsatisfiable=DoNotSchedule")
		}
	}
	c.inclusion(p.Child("nodeAffinityPolicy"), s.NodeAffinityPolicy)
	c.inclusion(p.Child("nodeTaintsPolicy"), s.NodeTaintsPolicy)
	c.labelSelector(p.Child("labelSelector"), s.LabelSelector)
}

func (c *checker) inclusion(p *field.Path, policy *v1.NodeInclusionPolicy) {
	if policy != nil {
		oneOf(c, p, *policy, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore)
	}
}
