package compile

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

func pick(t *rapid.T, label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(t, label)
}

// one is true one time out of n.
func one(t *rapid.T, n int, label string) bool { return rapid.IntRange(1, n).Draw(t, label) == 1 }

// drawClusterModel draws nodes, namespaces, Services and ReplicaSets.
func drawClusterModel(t *rapid.T, w *clusterModel) {
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		drawNode(t, w, fmt.Sprint("n", i))
	}
	for _, name := range []string{"red", "green"} {
		if !one(t, 4, "unknown namespace") {
			drawNamespace(t, w, name)
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "services") {
		s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: fmt.Sprint("s", i)}}
		s.Spec.Selector = map[string]string{pick(t, "key", "app", "tier"): pick(t, "value", "x", "y")}
		w.cluster.Set(nil, s)
	}
	r := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "green", Name: "r"}}
	r.Spec.Selector = drawLabelSelector(t)
	w.cluster.Set(nil, r)
}

// drawNode adds a node, or changes it.
func drawNode(t *rapid.T, w *clusterModel, name string) {
	b := build.Node(name)
	for _, key := range []string{v1.LabelTopologyZone, "rack"} {
		if v := pick(t, key, "-", "a", "b", "c", ""); v != "-" {
			b.Label(key, v)
		}
	}
	switch rapid.IntRange(0, 9).Draw(t, "host") {
	case 0:
	case 1:
		b.Label(v1.LabelHostname, "shared")
	default:
		b.Label(v1.LabelHostname, name)
	}
	if one(t, 3, "taint") {
		b.Taint(pick(t, "which", "gpu:NoSchedule", "gpu:PreferNoSchedule", "old:NoExecute"))
	}
	if err := w.setNode(b.Obj()); err != nil {
		t.Fatalf("node: %v", err)
	}
}

// drawNamespace adds a namespace, or changes it.
func drawNamespace(t *rapid.T, w *clusterModel, name string) {
	w.cluster.Set(nil, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": pick(t, "team", "x", "y")}}})
}

func drawLabelSelector(t *rapid.T) *metav1.LabelSelector {
	switch rapid.IntRange(0, 9).Draw(t, "selector") {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: pick(t, "key", "app", "tier", "team"), Operator: metav1.LabelSelectorOperator(pick(t, "operator", "Exists", "DoesNotExist"))}}}
	case 3:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: pick(t, "key", "app", "team"), Operator: metav1.LabelSelectorOperator(pick(t, "operator", "In", "NotIn")), Values: []string{"x"}}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{pick(t, "key", "app", "tier", "team"): pick(t, "value", "x", "y")}}
}

func drawConstraint(t *rapid.T) v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{
		TopologyKey:       pick(t, "topology", v1.LabelTopologyZone, v1.LabelHostname, "rack"),
		MaxSkew:           rapid.Int32Range(1, 3).Draw(t, "skew"),
		WhenUnsatisfiable: rapid.SampledFrom([]v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway}).Draw(t, "when"),
		LabelSelector:     drawLabelSelector(t),
	}
	policies := []*v1.NodeInclusionPolicy{nil, nil}
	for _, p := range []v1.NodeInclusionPolicy{v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore} {
		policies = append(policies, &p)
	}
	c.NodeAffinityPolicy = rapid.SampledFrom(policies).Draw(t, "affinity policy")
	c.NodeTaintsPolicy = rapid.SampledFrom(policies).Draw(t, "taints policy")
	if c.WhenUnsatisfiable == v1.DoNotSchedule && one(t, 3, "minDomains") {
		n := rapid.Int32Range(1, 4).Draw(t, "domains")
		c.MinDomains = &n
	}
	if one(t, 4, "matchLabelKeys") {
		c.MatchLabelKeys = []string{pick(t, "key", "app", "version")}
	}
	return c
}

func drawAffinityTerm(t *rapid.T) v1.PodAffinityTerm {
	term := v1.PodAffinityTerm{TopologyKey: pick(t, "topology", v1.LabelTopologyZone, v1.LabelHostname, "rack"), LabelSelector: drawLabelSelector(t)}
	if one(t, 3, "names") {
		term.Namespaces = rapid.SliceOfN(rapid.SampledFrom([]string{"red", "green"}), 1, 2).Draw(t, "namespaces")
	}
	if one(t, 4, "select namespaces") {
		term.NamespaceSelector = drawLabelSelector(t)
	}
	return term
}

func drawWeightedTerms(t *rapid.T, label string) []v1.WeightedPodAffinityTerm {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1.WeightedPodAffinityTerm {
		return v1.WeightedPodAffinityTerm{Weight: rapid.Int32Range(1, 100).Draw(t, "weight"), PodAffinityTerm: drawAffinityTerm(t)}
	}), 0, 2).Draw(t, label)
}

// drawNeighbour draws a pod that other pods matter to.
func drawNeighbour(t *rapid.T, i int) *v1.Pod {
	b := build.Pod(fmt.Sprint("p", i)).Namespace(pick(t, "namespace", "red", "green")).UID(fmt.Sprint(i))
	for _, key := range []string{"app", "tier", "team", "version"} {
		if v := pick(t, key, "-", "x", "y"); v != "-" {
			b.Label(key, v)
		}
	}
	if one(t, 5, "toleration") {
		b.Toleration("gpu")
	}
	if one(t, 5, "selector") {
		b.NodeSelector("rack", pick(t, "rack", "a", "b"))
	}
	p := b.Obj()
	if one(t, 6, "terminating") {
		p.DeletionTimestamp = &metav1.Time{}
	}
	if one(t, 3, "owner") {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: types.UID("r"), Controller: &yes}}
	}
	if one(t, 2, "spread") {
		p.Spec.TopologySpreadConstraints = rapid.SliceOfN(rapid.Custom(drawConstraint), 1, 3).Draw(t, "constraints")
	}
	if one(t, 2, "affinity") {
		terms := rapid.SliceOfN(rapid.Custom(drawAffinityTerm), 0, 2)
		p.Spec.Affinity = &v1.Affinity{
			PodAffinity: &v1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  terms.Draw(t, "required"),
				PreferredDuringSchedulingIgnoredDuringExecution: drawWeightedTerms(t, "preferred"),
			},
			PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  terms.Draw(t, "anti"),
				PreferredDuringSchedulingIgnoredDuringExecution: drawWeightedTerms(t, "preferred anti"),
			},
		}
	}
	return p
}
