package conformance

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// spreadFamily gives pods topology spread constraints of their own.
type spreadFamily struct {
	calm
	g *generator
}

func (f *spreadFamily) node(n *v1.Node) { f.g.place(n) }

func (f *spreadFamily) pod(p *v1.Pod) Round {
	f.g.identify(p)
	if f.g.chance(30) {
		return nil
	}
	for range oneOf(f.g.strange, 1, 1, 1, 2, 2, 3, 5) {
		c := f.constraint(p)
		if f.g.chance(97) && repeated(p.Spec.TopologySpreadConstraints, &c) {
			continue // the API server refuses it
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
	return nil
}

func repeated(list []v1.TopologySpreadConstraint, c *v1.TopologySpreadConstraint) bool {
	for i := range list {
		if list[i].TopologyKey == c.TopologyKey && list[i].WhenUnsatisfiable == c.WhenUnsatisfiable {
			return true
		}
	}
	return false
}

func (f *spreadFamily) constraint(p *v1.Pod) v1.TopologySpreadConstraint {
	g := f.g
	c := v1.TopologySpreadConstraint{
		MaxSkew: oneOf[int32](g.strange, 1, 1, 1, 2, 3, 5), TopologyKey: g.topologyKey(),
		WhenUnsatisfiable: oneOf(g.strange, v1.DoNotSchedule, v1.ScheduleAnyway), LabelSelector: g.labelSelector(p.Labels),
	}
	if c.WhenUnsatisfiable == v1.DoNotSchedule && g.chance(30) {
		c.MinDomains = ptr.To(oneOf[int32](g.strange, 1, 2, 3, 4, 6, 10))
	}
	policy := func() *v1.NodeInclusionPolicy {
		return oneOf(g.strange, nil, nil, ptr.To(v1.NodeInclusionPolicyHonor), ptr.To(v1.NodeInclusionPolicyIgnore))
	}
	c.NodeAffinityPolicy, c.NodeTaintsPolicy = policy(), policy()
	if c.LabelSelector != nil && g.chance(25) {
		for _, key := range []string{"version", "tier", "absent"} {
			if g.chance(50) {
				c.MatchLabelKeys = append(c.MatchLabelKeys, key)
			}
		}
	}
	return c
}

func (f *spreadFamily) change() Round {
	if f.g.chance(40) {
		return f.g.relabel()
	}
	return f.g.move()
}
