package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/census"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeAffinity is the plugin for node selectors and node affinity.
const NodeAffinity = "NodeAffinity"

func nodeAffinity() *Rule {
	return &Rule{
		Name: NodeAffinity,
		Part: compile.Part{
			Plugin: pb.Plugin_PLUGIN_NODE_AFFINITY,
			FilterAsks: func(q *pb.Query) bool {
				a := q.GetNodeAffinity()
				return a.GetAdded() != nil || a.GetRequired() != nil || len(a.GetNodeSelector()) > 0
			},
			ScoreAsks: func(q *pb.Query) bool { return len(q.GetNodeAffinity().GetPreferred()) > 0 },
		},
		Points: []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score},
		Weight: 2, RefusesEarly: true,
		Arguments: arguments(func(*configv1.NodeAffinityArgs) {}, validateNodeAffinity,
			func(c *compile.ProfileConfig) *configv1.NodeAffinityArgs { return &c.NodeAffinity }),
		Hints: queue.NodeAffinity,
		Words: affinityWords(),
	}
}

func validateNodeAffinity(path *field.Path, a *configv1.NodeAffinityArgs) field.ErrorList {
	if a.AddedAffinity == nil {
		return nil
	}
	var errs field.ErrorList
	added := path.Child("addedAffinity")
	if required := a.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		at := added.Child("requiredDuringSchedulingIgnoredDuringExecution")
		_, err := nodeaffinity.NewNodeSelector(required, field.WithPath(at))
		errs = append(errs, fieldErrors(at, err)...)
	}
	if preferred := a.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(preferred) != 0 {
		at := added.Child("preferredDuringSchedulingIgnoredDuringExecution")
		_, err := nodeaffinity.NewPreferredSchedulingTerms(preferred, field.WithPath(at))
		errs = append(errs, fieldErrors(at, err)...)
		errs = append(errs, validatePreferredWeights(at, preferred)...)
	}
	return errs
}

// validatePreferredWeights holds added terms to what a pod's own are held to.
//
// Differs from upstream: it takes any weight here.
func validatePreferredWeights(path *field.Path, terms []v1.PreferredSchedulingTerm) field.ErrorList {
	var errs field.ErrorList
	for i, t := range terms {
		if t.Weight < 0 || t.Weight > 100 {
			errs = append(errs, field.Invalid(path.Index(i).Child("weight"), t.Weight, "must be in the range 1-100"))
		}
	}
	return errs
}

const (
	// termsConflict is the PreFilter's reason.
	termsConflict = "pod affinity terms conflict"
	// saysEnforced is why a node is refused by the profile's addedAffinity.
	saysEnforced = "node(s) didn't match scheduler-enforced node affinity"
)

func affinityWords() *Words {
	return &Words{
		Says: []string{
			"node(s) didn't match Pod's node affinity/selector", saysEnforced,
			"node(s) didn't satisfy plugin(s) [NodeAffinity", termsConflict,
		},
		Lacks: func(r *Refused) []string {
			out := selectorLacks(r.Pod, r.Node)
			if required := requiredAffinity(r.Pod); required != nil {
				out = append(out, termLacks(required, r.Node)...)
			}
			if added := r.Profile.AddedTerms(); added != nil {
				for _, text := range termLacks(added, r.Node) {
					out = append(out, "the profile's addedAffinity: "+text)
				}
			}
			return out
		},
		Wants: affinityWants,
	}
}

// selectorLacks words the labels of a nodeSelector that a node has not, sorted by key.
func selectorLacks(p *v1.Pod, n *v1.Node) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
		if value, has := n.Labels[key]; !has || value != p.Spec.NodeSelector[key] {
			out = append(out, fmt.Sprintf("label %s=%s (%s)", key, p.Spec.NodeSelector[key], labelOf(n, key)))
		}
	}
	return out
}

// termLacks words what a node lacks of each term, where it meets none of them.
func termLacks(s *v1.NodeSelector, n *v1.Node) []string {
	var words []string
	for i := range s.NodeSelectorTerms {
		text := termLack(&s.NodeSelectorTerms[i], n)
		if text == "" {
			return nil
		}
		if len(words) < maxNamed {
			words = append(words, text)
		}
	}
	return []string{strings.Join(words, ", or ")}
}

// termLack words the first requirement of a term that a node does not meet; "": it meets all.
func termLack(t *v1.NodeSelectorTerm, n *v1.Node) string {
	if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
		return "an empty term, which no node meets"
	}
	for i := range t.MatchExpressions {
		r := &t.MatchExpressions[i]
		if value, has := n.Labels[r.Key]; !meets(r, value, has) {
			return fmt.Sprintf("label %s (%s)", requirementText(r), labelOf(n, r.Key))
		}
	}
	for i := range t.MatchFields {
		if r := &t.MatchFields[i]; !meets(r, n.Name, r.Key == metav1.ObjectNameField) {
			return "field " + requirementText(r)
		}
	}
	return ""
}

// affinityWants words what the pod wants of nodes' labels, or its profile does.
func affinityWants(a *Asked) []Want {
	switch {
	case slices.Contains(a.Reasons, termsConflict):
		return []Want{{Cause: "node affinity that no node can meet", Detail: "a term names several nodes at once (metadata.name)",
			Help: "another affinity"}}
	case slices.Contains(a.Reasons, saysEnforced):
		w := labelWant(a, nil, a.Profile.AddedTerms(), census.Enforced)
		w.Cause = "the profile's addedAffinity: " + w.Cause
		return []Want{w}
	}
	return []Want{labelWant(a, a.Pod.Spec.NodeSelector, requiredAffinity(a.Pod), census.Unmatched)}
}

// maxRequirements is of how many requirements of a pod the nodes are counted that meet them.
const maxRequirements = 32

// labelWant words what nodes have of the labels that a selector and required terms, which may be nil, ask for: of one that none has, that.
func labelWant(a *Asked, selector map[string]string, required *v1.NodeSelector, o census.Obstacles) Want {
	var terms []v1.NodeSelectorTerm
	if required != nil {
		terms = required.NodeSelectorTerms
	}
	help := a.help(o)
	if names := nodesNamed(terms); len(names) > 0 && len(selector) == 0 {
		return namedWant(names, a.Cluster)
	}
	var list []v1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		list = append(list, v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{selector[key]}})
	}
	if len(terms) == 1 { // of several, one is enough
		list = append(list, terms[0].MatchExpressions...)
	}
	var words, counts []string
	for i := range list {
		r := &list[i]
		words = append(words, requirementText(r))
		if i >= maxRequirements {
			continue
		}
		n, known := meeting(a.Nodes, r)
		switch {
		case !known:
			continue
		case n == 0 && r.Operator == v1.NodeSelectorOpDoesNotExist:
			if help != "" && o == census.Unmatched {
				help = "a node without the label, or change the pod's affinity"
			}
			return Want{Cause: "every node has label " + r.Key, Detail: valuesText(a.Nodes, r.Key), Help: help}
		case n == 0:
			return Want{Cause: "no node has label " + requirementText(r), Detail: valuesText(a.Nodes, r.Key), Help: help}
		}
		counts = append(counts, fmt.Sprintf("%s on %d", requirementText(r), n))
	}
	if len(counts) > 0 {
		return Want{Cause: plural("label", len(words)) + " " + listed(words),
			Detail: fmt.Sprintf("%s of %s", listed(counts), nodesText(a.Nodes.Nodes())), Help: help}
	}
	for i := range terms[:min(len(terms), maxNamed)] {
		words = append(words, termText(&terms[i]))
	}
	if len(words) == 0 {
		return Want{Cause: "node selector or affinity", Help: help}
	}
	return Want{Cause: "node affinity: " + strings.Join(words[:min(len(words), maxNamed)], ", or "), Help: help}
}

// nodesNamed are the nodes that terms name, where each names one and says nothing else; none: they do not.
func nodesNamed(terms []v1.NodeSelectorTerm) (names []string) {
	for i := range terms {
		t := &terms[i]
		if len(t.MatchExpressions) > 0 || len(t.MatchFields) != 1 || t.MatchFields[0].Key != metav1.ObjectNameField ||
			t.MatchFields[0].Operator != v1.NodeSelectorOpIn || len(t.MatchFields[0].Values) != 1 {
			return nil
		}
		names = append(names, t.MatchFields[0].Values[0])
	}
	return names
}

// namedWant words that a pod is for some nodes by name, as those of DaemonSets are.
func namedWant(names []string, c Cluster) Want {
	absent := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return c.Node(name) != nil })
	nodes := plural("node", len(names)) + " " + listed(names)
	switch {
	case len(absent) < len(names):
		return Want{Cause: "the pod is for " + nodes + " alone", Help: "room there, or another affinity"}
	case len(names) == 1:
		return Want{Cause: nodes + " does not exist", Detail: "the pod is for it alone", Help: "that node, or another affinity"}
	}
	return Want{Cause: nodes + " do not exist", Detail: "the pod is for them alone", Help: "one of them, or another affinity"}
}

// meeting is how many nodes meet a requirement.
func meeting(c *census.Census, r *v1.NodeSelectorRequirement) (nodes int, known bool) {
	if len(r.Values) > census.MaxNamed {
		return 0, false
	}
	values, having, all := c.Label(r.Key)
	for _, v := range values {
		if meets(r, v.Value, true) {
			nodes += v.Nodes
		}
	}
	if meets(r, "", false) {
		nodes += c.Nodes() - having
	}
	// Values that a requirement names are counted at any rate.
	return nodes, all || r.Operator == v1.NodeSelectorOpIn && having > 0
}

func termText(t *v1.NodeSelectorTerm) string {
	var words []string
	for i := range t.MatchExpressions {
		words = append(words, requirementText(&t.MatchExpressions[i]))
	}
	for i := range t.MatchFields {
		words = append(words, requirementText(&t.MatchFields[i]))
	}
	return short(strings.Join(words, " and "))
}
