package conformance

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// carrierFamily gives nodes many labels, and some pods terms of many of them, which match other pods:
// more than rows are grouped by.
type carrierFamily struct{ affinityFamily }

// carrierKeys is how many labels there are.
const carrierKeys = 14

func carrierKey(i int) string { return fmt.Sprintf("example.com/label-%d", i) }

// node gives a node most of the labels: of few values, of as many as there are nodes, or of its own.
func (f *carrierFamily) node(n *v1.Node) {
	f.g.place(n)
	for i := range carrierKeys {
		if f.g.chance(85) {
			n.Labels[carrierKey(i)] = f.value(n, i)
		}
	}
}

func (f *carrierFamily) value(n *v1.Node, i int) string {
	switch i % 7 {
	case 0:
		return n.Name
	case 1, 2, 3:
		return fmt.Sprint(f.g.IntN(1 + len(f.g.cluster.Nodes)))
	}
	return fmt.Sprint(f.g.IntN(3))
}

func (f *carrierFamily) pod(p *v1.Pod) Round {
	g := f.g
	g.identify(p)
	if g.chance(70) {
		return nil
	}
	p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}, PodAntiAffinity: &v1.PodAntiAffinity{}}
	keys := g.Perm(carrierKeys)[:1+g.IntN(carrierKeys)]
	a := p.Spec.Affinity
	for _, i := range keys {
		t := v1.WeightedPodAffinityTerm{Weight: int32(1 + g.IntN(100)), PodAffinityTerm: f.term(p)}
		t.PodAffinityTerm.TopologyKey = carrierKey(i)
		switch g.IntN(6) {
		case 0, 1, 2:
			preferred := &a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			*preferred = append(*preferred, t)
		case 3, 4:
			preferred := &a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			*preferred = append(*preferred, t)
		default:
			if i%7 < 4 { // of many values: it does not forbid everything
				required := &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				*required = append(*required, t.PodAffinityTerm)
			} else if len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) == 0 {
				t.PodAffinityTerm.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}
				required := &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				*required = append(*required, t.PodAffinityTerm)
			}
		}
	}
	return nil
}

// change gives a node another value of a label, or does what the family of affinity does.
func (f *carrierFamily) change() Round {
	if len(f.g.nodes) == 0 || f.g.chance(50) {
		return f.affinityFamily.change()
	}
	at := f.g.IntN(len(f.g.nodes))
	n := f.g.nodes[at].DeepCopy()
	for _, i := range slices.Sorted(slices.Values(f.g.Perm(carrierKeys)[:3])) {
		if n.Labels[carrierKey(i)] = f.value(n, i); f.g.chance(20) {
			delete(n.Labels, carrierKey(i))
		}
	}
	f.g.nodes[at] = n
	return Round{set(n)}
}
