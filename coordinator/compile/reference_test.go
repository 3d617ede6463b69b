package compile

import (
	"fmt"
	"math"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// The rules of PodTopologySpread and InterPodAffinity written down naively, pod by pod and
// node by node, and random clusters that compile and scorer are held against them on.

// verdict is what the naive rules say of a node.
type naiveVerdict struct {
	refused string // by the plugins together, in order; empty: feasible
	spread  int64  // raw scores
	near    int64
	ignored bool // by PodTopologySpread's score
}

func (w *clusterModel) on(n *v1.Node) (out []*v1.Pod) {
	for _, r := range w.pods {
		if r.row == w.rows[n.Name] {
			out = append(out, r.pod)
		}
	}
	return out
}

func selects(t rapid.TB, s *metav1.LabelSelector, p *v1.Pod) bool {
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatalf("selector: %v", err)
	}
	return parsed.Matches(labels.Set(p.Labels))
}

// constrained is a constraint with all that the rules need of it.
type constrained struct {
	v1.TopologySpreadConstraint
	matches func(*v1.Pod) bool
	empty   bool
}

// constraintsOf resolves a pod's constraints of one kind, without profiles' lists.
func (w *clusterModel) constraintsOf(t rapid.TB, p *v1.Pod, kind v1.UnsatisfiableConstraintAction) (out []constrained) {
	list, defaults := p.Spec.TopologySpreadConstraints, w.cluster.DefaultSelector(p)
	own := len(list) > 0
	if !own && defaults != nil {
		list = systemDefaults()
	}
	for _, c := range list {
		if c.WhenUnsatisfiable != kind {
			continue
		}
		x := constrained{TopologySpreadConstraint: c}
		if !own {
			x.matches = func(o *v1.Pod) bool { return defaults.Matches(o.Labels) }
			out = append(out, x)
			continue
		}
		merged := c.LabelSelector.DeepCopy()
		for _, key := range c.MatchLabelKeys {
			if v, ok := p.Labels[key]; ok && merged != nil {
				merged.MatchExpressions = append(merged.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: "In", Values: []string{v}})
			}
		}
		x.empty = merged != nil && len(merged.MatchLabels)+len(merged.MatchExpressions) == 0
		x.matches = func(o *v1.Pod) bool { return selects(t, merged, o) }
		out = append(out, x)
	}
	return out
}

// count is how many pods of a node a constraint counts.
func (w *clusterModel) count(c *constrained, p *v1.Pod, n *v1.Node) (total int64) {
	for _, o := range w.on(n) {
		if !c.empty && o.Namespace == p.Namespace && o.DeletionTimestamp == nil && c.matches(o) {
			total++
		}
	}
	return total
}

// included tells whether a constraint counts on a node.
func included(c *constrained, p *v1.Pod, n *v1.Node) bool {
	if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor {
		if ok, _ := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); !ok {
			return false
		}
	}
	if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor {
		hard := func(taint *v1.Taint) bool { return taint.Effect != v1.TaintEffectPreferNoSchedule }
		if _, untolerated := corev1.FindMatchingUntoleratedTaint(klog.Logger{}, n.Spec.Taints, p.Spec.Tolerations, hard, false); untolerated {
			return false
		}
	}
	return true
}

func hasAll(n *v1.Node, list []constrained) bool {
	return !slices.ContainsFunc(list, func(c constrained) bool { _, ok := n.Labels[c.TopologyKey]; return !ok })
}

// spreadFilter gives the reason against each node.
func (w *clusterModel) spreadFilter(t rapid.TB, p *v1.Pod, refuse func(*v1.Node, string)) {
	hard := w.constraintsOf(t, p, v1.DoNotSchedule)
	counts := make([]map[string]int64, len(hard))
	for i := range hard {
		counts[i] = map[string]int64{}
		for _, n := range w.nodes {
			if hasAll(n, hard) && included(&hard[i], p, n) {
				counts[i][n.Labels[hard[i].TopologyKey]] += w.count(&hard[i], p, n)
			}
		}
	}
	for _, n := range w.nodes {
		for i, c := range hard {
			domain, ok := n.Labels[c.TopologyKey]
			if !ok {
				refuse(n, "node(s) didn't match pod topology spread constraints (missing required label)")
				break
			}
			least := int64(math.MaxInt32)
			for _, k := range counts[i] {
				least = min(least, k)
			}
			if c.MinDomains != nil && len(counts[i]) < int(*c.MinDomains) || len(counts[i]) == 0 {
				least = 0
			}
			self := int64(0)
			if c.matches(p) {
				self = 1
			}
			if counts[i][domain]+self-least > int64(c.MaxSkew) {
				refuse(n, "node(s) didn't match pod topology spread constraints")
				break
			}
		}
	}
}

// spreadScore gives the raw score of each feasible node.
func (w *clusterModel) spreadScore(t rapid.TB, p *v1.Pod, feasible []*v1.Node, verdicts map[string]*naiveVerdict) {
	soft := w.constraintsOf(t, p, v1.ScheduleAnyway)
	all := len(p.Spec.TopologySpreadConstraints) > 0
	var scored []*v1.Node
	for _, n := range feasible {
		if all && !hasAll(n, soft) {
			verdicts[n.Name].ignored = true
		} else {
			scored = append(scored, n)
		}
	}
	sums := map[string]float64{}
	for i := range soft {
		c := &soft[i]
		domains := map[string]int64{}
		for _, n := range scored {
			domains[n.Labels[c.TopologyKey]] = 0
		}
		for _, n := range w.nodes {
			value := n.Labels[c.TopologyKey]
			if _, known := domains[value]; known && (!all || hasAll(n, soft)) && included(c, p, n) {
				domains[value] += w.count(c, p, n)
			}
		}
		size := len(domains)
		if c.TopologyKey == v1.LabelHostname {
			size = len(scored)
		}
		for _, n := range scored {
			value, ok := n.Labels[c.TopologyKey]
			if !ok {
				continue
			}
			k := domains[value]
			if c.TopologyKey == v1.LabelHostname {
				k = w.count(c, p, n)
			}
			sums[n.Name] += float64(k)*math.Log(float64(size+2)) + float64(c.MaxSkew-1)
		}
	}
	for _, n := range scored {
		verdicts[n.Name].spread = int64(math.Round(sums[n.Name]))
	}
}

// about tells whether a term of an existing pod is about an incoming one.
func (w *clusterModel) about(t rapid.TB, term *v1.PodAffinityTerm, owner, incoming *v1.Pod) bool {
	in := slices.Contains(term.Namespaces, incoming.Namespace)
	if len(term.Namespaces) == 0 && term.NamespaceSelector == nil {
		in = owner.Namespace == incoming.Namespace
	}
	of := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: w.cluster.NamespaceLabels(incoming.Namespace)}}
	return (in || selects(t, term.NamespaceSelector, of)) && selects(t, term.LabelSelector, incoming)
}

// looksAt tells whether a term of the incoming pod is about an existing one: its
// namespaceSelector is resolved to names, and shown no labels beside.
func (w *clusterModel) looksAt(t rapid.TB, term *v1.PodAffinityTerm, incoming, existing *v1.Pod) bool {
	in := slices.Contains(term.Namespaces, existing.Namespace) || selects(t, term.NamespaceSelector, &v1.Pod{})
	if len(term.Namespaces) == 0 && term.NamespaceSelector == nil {
		in = incoming.Namespace == existing.Namespace
	}
	if known := w.cluster.NamespaceLabels(existing.Namespace); known != nil {
		in = in || selects(t, term.NamespaceSelector, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: known}})
	}
	return in && selects(t, term.LabelSelector, existing)
}

func requiredOf(p *v1.Pod) (near, anti []v1.PodAffinityTerm) {
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		near = a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		anti = a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return near, anti
}

func preferredOf(p *v1.Pod) (near, anti []v1.WeightedPodAffinityTerm) {
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		near = a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		anti = a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return near, anti
}

// pair is a label of nodes.
type pair struct{ key, value string }

// sums are numbers by the labels of nodes.
type sums map[pair]int64

// add adds to the label of a node, if it has that.
func (s sums) add(n *v1.Node, key string, by int64) {
	if value, ok := n.Labels[key]; ok {
		s[pair{key, value}] += by
	}
}

// at is the number at a node's label; 0 where it lacks that.
func (s sums) at(n *v1.Node, key string) int64 {
	value, ok := n.Labels[key]
	if !ok {
		return 0
	}
	return s[pair{key, value}]
}

// affinityFilter gives the reason against each node.
func (w *clusterModel) affinityFilter(t rapid.TB, p *v1.Pod, refuse func(*v1.Node, string)) {
	near, anti := requiredOf(p)
	matchesAll := func(o *v1.Pod) bool {
		return len(near) > 0 && !slices.ContainsFunc(near, func(x v1.PodAffinityTerm) bool { return !w.looksAt(t, &x, p, o) })
	}
	attracting, repelling, existing := sums{}, sums{}, sums{}
	for _, n := range w.nodes {
		for _, o := range w.on(n) {
			if matchesAll(o) {
				for i := range near {
					attracting.add(n, near[i].TopologyKey, 1)
				}
			}
			for i := range anti {
				if w.looksAt(t, &anti[i], p, o) {
					repelling.add(n, anti[i].TopologyKey, 1)
				}
			}
			_, theirs := requiredOf(o)
			for i := range theirs {
				if w.about(t, &theirs[i], o, p) {
					existing.add(n, theirs[i].TopologyKey, 1)
				}
			}
		}
	}
	for _, n := range w.nodes {
		switch {
		case !w.attracted(n, near, attracting, matchesAll(p)):
			refuse(n, "node(s) didn't match pod affinity rules")
		case slices.ContainsFunc(anti, func(x v1.PodAffinityTerm) bool { return repelling.at(n, x.TopologyKey) > 0 }):
			refuse(n, "node(s) didn't match pod anti-affinity rules")
		default:
			for key, value := range n.Labels {
				if existing[pair{key, value}] > 0 {
					refuse(n, "node(s) didn't satisfy existing pods anti-affinity rules")
					break
				}
			}
		}
	}
}

func (w *clusterModel) attracted(n *v1.Node, near []v1.PodAffinityTerm, attracting sums, self bool) bool {
	met := true
	for i := range near {
		value, ok := n.Labels[near[i].TopologyKey]
		if !ok {
			return false
		}
		met = met && attracting[pair{near[i].TopologyKey, value}] > 0
	}
	return met || len(attracting) == 0 && self
}

// affinityScore gives the raw score of each node.
func (w *clusterModel) affinityScore(t rapid.TB, p *v1.Pod, verdicts map[string]*naiveVerdict) {
	near, anti := preferredOf(p)
	score := sums{}
	for _, n := range w.nodes {
		for _, o := range w.on(n) {
			for i := range near {
				if w.looksAt(t, &near[i].PodAffinityTerm, p, o) {
					score.add(n, near[i].PodAffinityTerm.TopologyKey, int64(near[i].Weight))
				}
			}
			for i := range anti {
				if w.looksAt(t, &anti[i].PodAffinityTerm, p, o) {
					score.add(n, anti[i].PodAffinityTerm.TopologyKey, -int64(anti[i].Weight))
				}
			}
			hard, _ := requiredOf(o)
			for i := range hard {
				if w.about(t, &hard[i], o, p) {
					score.add(n, hard[i].TopologyKey, 1)
				}
			}
			theirs, theirAnti := preferredOf(o)
			for i := range theirs {
				if w.about(t, &theirs[i].PodAffinityTerm, o, p) {
					score.add(n, theirs[i].PodAffinityTerm.TopologyKey, int64(theirs[i].Weight))
				}
			}
			for i := range theirAnti {
				if w.about(t, &theirAnti[i].PodAffinityTerm, o, p) {
					score.add(n, theirAnti[i].PodAffinityTerm.TopologyKey, -int64(theirAnti[i].Weight))
				}
			}
		}
	}
	for _, n := range w.nodes {
		for key, value := range n.Labels {
			verdicts[n.Name].near += score[pair{key, value}]
		}
	}
}

// naive judges every node.
func (w *clusterModel) naive(t rapid.TB, p *v1.Pod) map[string]*naiveVerdict {
	out := map[string]*naiveVerdict{}
	for name := range w.nodes {
		out[name] = &naiveVerdict{}
	}
	refuse := func(plugin string) func(*v1.Node, string) {
		return func(n *v1.Node, why string) {
			if v := out[n.Name]; v.refused == "" {
				v.refused = plugin + ": " + why
			}
		}
	}
	w.spreadFilter(t, p, refuse("PodTopologySpread"))
	w.affinityFilter(t, p, refuse("InterPodAffinity"))
	var feasible []*v1.Node
	for _, n := range w.nodes {
		if out[n.Name].refused == "" {
			feasible = append(feasible, n)
		}
	}
	w.spreadScore(t, p, feasible, out)
	w.affinityScore(t, p, out)
	return out
}

// TestRulesAreTheNaiveOnes holds verdicts, reasons and raw scores of random pods in random
// clusters against the naive rules. The normalisation is the scorer's to test.
func TestRulesAreTheNaiveOnes(t *testing.T) {
	only := ProfileConfig{
		Name:    "x",
		Filters: []pb.Plugin{pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, pb.Plugin_PLUGIN_INTER_POD_AFFINITY},
		Scores:  []PluginWeight{{pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, 2}, {pb.Plugin_PLUGIN_INTER_POD_AFFINITY, 2}},
	}
	prof, err := newProfile(only)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		w, c, eval := newClusterModel(), New(), scorer.NewEvaluator(nil)
		drawClusterModel(t, w)
		for i := range rapid.IntRange(1, 12).Draw(t, "pods") {
			switch rapid.IntRange(0, 15).Draw(t, "change") {
			case 0:
				drawNode(t, w, rapid.SampledFrom(w.names).Draw(t, "changed"))
			case 1:
				drawNamespace(t, w, pick(t, "changed", "red", "green"))
			case 2:
				w.sweep(t)
			}
			p := drawNeighbour(t, i)
			w.counters.Carry(p)
			class, err := c.Class(p, prof, w)
			if err != nil {
				t.Fatalf("class: %v", err)
			}
			if err := w.settle(); err != nil {
				t.Fatalf("settle: %v", err)
			}
			if err := class.Query.Validate(); err != nil {
				t.Fatalf("validate: %v", err)
			}
			a := w.ask(class, eval)
			compareNaive(t, w, a, eval, p)
			if err := w.check(a, eval); err != nil {
				t.Error(err)
			}
			if _, err := w.place(rapid.SampledFrom(w.names).Draw(t, "node"), p); err != nil {
				t.Fatalf("place: %v", err)
			}
		}
	})
}

// compareNaive compares every node's answer.
func compareNaive(t *rapid.T, w *clusterModel, a *answer, eval *scorer.Evaluator, p *v1.Pod) {
	want := w.naive(t, p)
	for i := range a.nodes {
		n := &a.nodes[i]
		v, got := want[n.name], ""
		if _, ok := a.feasible(n); !ok {
			var reasons []scorer.Reason
			if n.group < 0 {
				_, reasons = eval.Reasons(w.table, n.row, nil, a.class.Scorer)
			} else {
				_, reasons = a.class.Scorer.GroupReasons(&a.result, &a.standing, n.group)
			}
			got = fmt.Sprintf("%s: %s", reasons[0].Plugin, reasons[0].Text)
		}
		if got != v.refused {
			t.Fatalf("node %s: want %q, got %q\n%s", n.name, v.refused, got, a.class.Query)
		}
		if got != "" {
			continue
		}
		var spread, near int64
		for _, g := range a.class.Scorer.GroupScores(&a.result, &a.standing, n.group) {
			switch g.Plugin {
			case pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD:
				spread = g.Raw
			case pb.Plugin_PLUGIN_INTER_POD_AFFINITY:
				near = g.Raw
			}
		}
		if !v.ignored && spread != v.spread || near != v.near {
			t.Fatalf("node %s: want raw scores %d and %d, got %d and %d\n%s", n.name, v.spread, v.near, spread, near, a.class.Query)
		}
	}
}
