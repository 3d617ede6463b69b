package oracle

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

func near(key string) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{TopologyKey: key, LabelSelector: selectWeb()}
}

func affinity(p *v1.Pod, terms ...v1.PodAffinityTerm) *v1.Pod {
	p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	return p
}

func antiAffinity(p *v1.Pod, terms ...v1.PodAffinityTerm) *v1.Pod {
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	return p
}

// prefer has a weight for being near, and one for being apart.
func prefer(p *v1.Pod, key string, near, apart int32) *v1.Pod {
	term := v1.PodAffinityTerm{TopologyKey: key, LabelSelector: selectWeb()}
	p.Spec.Affinity = &v1.Affinity{
		PodAffinity:     &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: near, PodAffinityTerm: term}}},
		PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: apart, PodAffinityTerm: term}}},
	}
	return p
}

func elsewhere(p *v1.Pod) *v1.Pod {
	p.Namespace = "other"
	return p
}

func TestAffinityRequired(t *testing.T) {
	const zone, host = v1.LabelTopologyZone, v1.LabelHostname
	selecting := func(operator metav1.LabelSelectorOperator, values ...string) v1.PodAffinityTerm {
		term := near(zone)
		term.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: operator, Values: values}}}
		return term
	}
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"team": "x"}}}
	hold(t, []verdict{
		{name: "near another", objects: append(three(), web("x", "a")), pod: affinity(web("p", ""), near(zone)), want: `
			a fits
			b InterPodAffinity: node(s) didn't match pod affinity rules (for good)
			c InterPodAffinity: node(s) didn't match pod affinity rules (for good)
		`},
		{name: "the first of its kind goes anywhere with the label", objects: three(), pod: affinity(web("p", ""), near(zone)), want: `
			a fits
			b fits
			c InterPodAffinity: node(s) didn't match pod affinity rules (for good)
		`},
		{name: "but only where it is of the kind", objects: three(), pod: affinity(build.Pod("p").Obj(), near(zone)), want: `
			a InterPodAffinity: node(s) didn't match pod affinity rules (for good)
			b InterPodAffinity: node(s) didn't match pod affinity rules (for good)
			c InterPodAffinity: node(s) didn't match pod affinity rules (for good)
		`},
		{name: "a pod that goes counts", objects: append(three(), terminating(web("x", "a"))), pod: antiAffinity(web("p", ""), near(host)), want: `
			a InterPodAffinity: node(s) didn't match pod anti-affinity rules
			b fits
			c fits
		`},
		{name: "others keep it away", objects: append(three(), antiAffinity(web("x", "a"), near(zone))), pod: web("p", ""), want: `
			a InterPodAffinity: node(s) didn't satisfy existing pods anti-affinity rules
			b fits
			c fits
		`},
		{name: "not those of another namespace", objects: append(three(), elsewhere(antiAffinity(web("x", "a"), near(zone)))), pod: web("p", ""), want: `
			a fits
			b fits
			c fits
		`},
		{name: "a namespace by its labels", objects: append(three(), namespace, elsewhere(web("x", "a"))), pod: antiAffinity(web("p", ""), selecting(metav1.LabelSelectorOpIn, "x")), want: `
			a InterPodAffinity: node(s) didn't match pod anti-affinity rules
			b fits
			c fits
		`},
		{name: "a selector that an unlabelled namespace matches selects all", objects: append(three(), namespace, elsewhere(web("x", "a"))), pod: antiAffinity(web("p", ""), selecting(metav1.LabelSelectorOpNotIn, "x")), want: `
			a InterPodAffinity: node(s) didn't match pod anti-affinity rules
			b fits
			c fits
		`},
		{name: "of an existing pod it selects what it says", objects: append(three(), namespace, antiAffinity(web("x", "a"), selecting(metav1.LabelSelectorOpNotIn, "x"))), pod: elsewhere(web("p", "")), want: `
			a fits
			b fits
			c fits
		`},
	})
}

func TestAffinityPreferred(t *testing.T) {
	const zone = v1.LabelTopologyZone
	hold(t, []verdict{
		{name: "weights add up, and are spread over 100", plugin: "InterPodAffinity", objects: append(three(), web("x", "a"), web("y", "a"), web("z", "b")), pod: prefer(web("p", ""), zone, 10, 3), want: `
			a 14 100
			b 7 50
			c 0 0
		`},
		{name: "what others require is worth 1", plugin: "InterPodAffinity", objects: append(three(), affinity(web("x", "a"), near(zone))), pod: web("p", ""), want: `
			a 1 100
			b 0 0
			c 0 0
		`},
		{name: "or what the configuration says", config: "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 7}}]}]",
			plugin: "InterPodAffinity", objects: append(three(), affinity(web("x", "a"), near(zone)), prefer(web("y", "b"), zone, 1, 2)), pod: web("p", ""), want: `
			a 7 100
			b -1 0
			c 0 12
		`},
		{name: "what others prefer can be left out", config: "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {ignorePreferredTermsOfExistingPods: true}}]}]",
			plugin: "InterPodAffinity", objects: append(three(), prefer(web("y", "b"), zone, 1, 2)), pod: web("p", ""), want: `
			a 0 0
			b 0 0
			c 0 0
		`},
	})
}
