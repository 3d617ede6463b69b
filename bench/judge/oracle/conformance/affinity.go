package conformance

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// affinityFamily gives pods affinity to others.
type affinityFamily struct {
	g *generator
}

func (f *affinityFamily) first() Round { return f.g.namespaceObjects() }

func (f *affinityFamily) node(n *v1.Node) { f.g.place(n) }

func (f *affinityFamily) pod(p *v1.Pod) Round {
	g := f.g
	g.identify(p)
	if g.chance(35) {
		return nil
	}
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	if g.chance(50) {
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  f.terms(p, oneOf(g.strange, 0, 1, 1, 2)),
			PreferredDuringSchedulingIgnoredDuringExecution: f.weighted(p, oneOf(g.strange, 0, 0, 1, 3)),
		}
	}
	if g.chance(60) {
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  f.terms(p, oneOf(g.strange, 0, 1, 1, 2)),
			PreferredDuringSchedulingIgnoredDuringExecution: f.weighted(p, oneOf(g.strange, 0, 0, 1, 3)),
		}
	}
	return nil
}

func (f *affinityFamily) terms(p *v1.Pod, n int) (out []v1.PodAffinityTerm) {
	for range n {
		out = append(out, f.term(p))
	}
	return out
}

func (f *affinityFamily) weighted(p *v1.Pod, n int) (out []v1.WeightedPodAffinityTerm) {
	for range n {
		out = append(out, v1.WeightedPodAffinityTerm{Weight: oneOf[int32](f.g.strange, 1, 1, 10, 50, 100), PodAffinityTerm: f.term(p)})
	}
	return out
}

func (f *affinityFamily) term(p *v1.Pod) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{LabelSelector: f.g.labelSelector(p.Labels), TopologyKey: f.g.topologyKey(),
		NamespaceSelector: f.namespaceSelector()}
	if f.g.chance(25) {
		for range 1 + f.g.IntN(2) {
			t.Namespaces = append(t.Namespaces, oneOf(f.g.strange, "default", "team-a", "team-b", "lost"))
		}
	}
	return t
}

// namespaceSelector selects namespaces: all, by label, or by what they lack, which matches
// one without labels too.
func (f *affinityFamily) namespaceSelector() *metav1.LabelSelector {
	match := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	switch f.g.IntN(12) {
	case 0, 1:
		return &metav1.LabelSelector{}
	case 2:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"team": oneOf(f.g.strange, "a", "b", "c")}}
	case 3:
		return match("team", metav1.LabelSelectorOpNotIn, oneOf(f.g.strange, "a", "b"))
	case 4:
		return match("env", metav1.LabelSelectorOpDoesNotExist)
	case 5:
		return match("env", metav1.LabelSelectorOpExists)
	}
	return nil
}

func (f *affinityFamily) change() Round {
	switch f.g.IntN(4) {
	case 0:
		return f.g.relabel()
	case 1:
		name := oneOf(f.g.strange, "default", "team-a", "team-b", "lost")
		if f.g.chance(20) {
			return Round{{Type: Removed, Object: &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}}}
		}
		return Round{set(f.g.namespaceObject(name))}
	}
	return f.g.move()
}
