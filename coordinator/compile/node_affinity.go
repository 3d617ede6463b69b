package compile

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// affinity is NodeAffinity's part of a plan.
type affinity struct {
	query *pb.NodeAffinityQuery
	// honoured is the pod's nodeSelector and required node affinity, for those that look
	// at nothing else; nil where it has neither.
	honoured *pb.NodeAffinityQuery
	filters  bool // false: PreFilter skips
	scores   bool // false: PreScore skips
	narrowed *pb.NameSet
	rejected *Rejection
	err      error // of PreScore
}

// planAffinity is NodeAffinity's PreFilter and PreScore.
func (o *outline) planAffinity(p *v1.Pod) {
	o.affinity = compileAffinity(p, o.prof)
	o.refuse(pb.Plugin_PLUGIN_NODE_AFFINITY, o.affinity.rejected, nil)
	o.refuseScore(pb.Plugin_PLUGIN_NODE_AFFINITY, o.affinity.err)
}

// compileAffinity is what planAffinity keeps.
func compileAffinity(p *v1.Pod, prof *Profile) affinity {
	a := affinity{query: &pb.NodeAffinityQuery{}}
	required, preferred := nodeAffinityOf(p)
	a.honour(p, required)
	if prof.FiltersBy(pb.Plugin_PLUGIN_NODE_AFFINITY) {
		a.preFilter(required, prof)
	}
	if prof.scoresBy(pb.Plugin_PLUGIN_NODE_AFFINITY) {
		a.preScore(preferred, prof)
	}
	if !a.filters && !a.scores {
		a.query = nil
	}
	return a
}

// honour takes what the pod itself demands of every node.
func (a *affinity) honour(p *v1.Pod, required *v1.NodeSelector) {
	if required == nil && len(p.Spec.NodeSelector) == 0 {
		return
	}
	a.honoured = &pb.NodeAffinityQuery{NodeSelector: sortedLabels(p.Spec.NodeSelector)}
	if required != nil {
		a.honoured.Required = nodeSelector(required)
	}
	if len(a.honoured.NodeSelector) < len(p.Spec.NodeSelector) {
		a.honoured.Required = &pb.NodeSelector{} // it names a label that no node can have
	}
}

// preFilter takes what every node must match.
func (a *affinity) preFilter(required *v1.NodeSelector, prof *Profile) {
	a.filters = prof.added != nil || a.honoured != nil
	a.query.Added = prof.added
	a.query.NodeSelector, a.query.Required = a.honoured.GetNodeSelector(), a.honoured.GetRequired()
	if required != nil {
		a.narrowed, a.rejected = narrow(required.NodeSelectorTerms)
	}
}

// preScore takes what gives a node weight.
func (a *affinity) preScore(preferred []v1.PreferredSchedulingTerm, prof *Profile) {
	var terms []*pb.PreferredTerm
	terms, a.err = preferredTerms(preferred)
	a.query.Preferred = append(terms, prof.preferred...)
	// Where no term can match, every raw score is 0 and so is every normalised
	// one: as good as skipped.
	a.scores = len(a.query.Preferred) > 0
}

// nodeAffinityOf takes a pod's node affinity apart.
func nodeAffinityOf(p *v1.Pod) (*v1.NodeSelector, []v1.PreferredSchedulingTerm) {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return nil, nil
	}
	a := p.Spec.Affinity.NodeAffinity
	return a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution
}

// narrow is the PreFilterResult: where every term names nodes by metadata.name,
// only those need to be looked at. Within a term the names are intersected,
// between terms united; values that make the term unusable later do not matter
// here.
func narrow(terms []v1.NodeSelectorTerm) (*pb.NameSet, *Rejection) {
	if len(terms) == 0 {
		return nil, nil
	}
	all := sets.Set[string]{}
	for i := range terms {
		names, ok := namesOf(&terms[i])
		if !ok {
			return nil, nil
		}
		for name := range names {
			all.Insert(name)
		}
	}
	if len(all) == 0 {
		return nil, &Rejection{Plugins: []string{nodeAffinityName()}, Message: "pod affinity terms conflict", Unresolvable: true}
	}
	names := slices.DeleteFunc(sets.List(all), func(n string) bool { return n == "" || !usable(n) })
	if len(names) == 0 {
		names = []string{noNode}
	}
	return &pb.NameSet{Names: names, Plugins: []string{nodeAffinityName()}}, nil
}

// nodeAffinityName is the plugin's name in upstream's messages.
func nodeAffinityName() string { return scorer.PluginName(pb.Plugin_PLUGIN_NODE_AFFINITY) }

// noNode is a name that no node has.
const noNode = "/"

// namesOf is the set of nodes that a term names; false where it names none.
func namesOf(term *v1.NodeSelectorTerm) (sets.Set[string], bool) {
	var names sets.Set[string]
	for i := range term.MatchFields {
		r := &term.MatchFields[i]
		if r.Key != metav1.ObjectNameField || r.Operator != v1.NodeSelectorOpIn {
			continue
		}
		if names == nil {
			names = sets.New(r.Values...)
		} else {
			names = names.Intersection(sets.New(r.Values...))
		}
	}
	return names, names != nil
}

// nodeSelector translates required terms.
func nodeSelector(s *v1.NodeSelector) *pb.NodeSelector {
	return anyTerm(s.NodeSelectorTerms, selectorTerm)
}

// anyTerm translates terms of which one has to match; nil where one of them matches every
// node. Terms that match no node are left out.
func anyTerm(terms []v1.NodeSelectorTerm, translate func(*v1.NodeSelectorTerm) (*pb.SelectorTerm, matching)) *pb.NodeSelector {
	out := &pb.NodeSelector{}
	for i := range terms {
		term, is := translate(&terms[i])
		switch is {
		case always:
			return nil
		case sometimes:
			out.Terms = append(out.Terms, term)
		}
	}
	return out
}

// preferredTerms translates preferred terms. The error is upstream's, of all terms
// together, up to maxFaults.
func preferredTerms(terms []v1.PreferredSchedulingTerm) ([]*pb.PreferredTerm, error) {
	var out []*pb.PreferredTerm
	for i := range terms {
		t := &terms[i]
		if t.Weight == 0 || isEmpty(&t.Preference) {
			continue
		}
		term, is := selectorTerm(&t.Preference)
		switch is {
		case malformed:
			return nil, faultsOf(terms)
		case never:
			continue
		case always:
			term = everyNode()
		}
		if t.Weight < 0 || t.Weight > 100 {
			return nil, fmt.Errorf("[%d].weight: Invalid value: %d: must be in the range 1-100", i, t.Weight)
		}
		out = append(out, &pb.PreferredTerm{Weight: t.Weight, Term: term})
	}
	return out, nil
}

// maxFaults is how many faults of preferred terms are told: enough to mend them by hand. The library joins them in the
// square of their number, and adds a term's requirements up in the square of theirs: 11,000 take it a minute.
//
// Differs from upstream: it tells all of them.
const maxFaults = 64

// faultsOf is upstream's error of malformed terms.
func faultsOf(terms []v1.PreferredSchedulingTerm) error {
	var all []error
	for i := range terms {
		if terms[i].Weight == 0 {
			continue
		}
		of, at := &terms[i].Preference, field.ToPath().Index(i)
		for k := 0; k < len(of.MatchExpressions) && len(all) < maxFaults; k++ {
			if err := labelFault(&of.MatchExpressions[k], at.Child("matchExpressions").Index(k)); err != nil {
				all = append(all, err)
			}
		}
		for k := 0; k < len(of.MatchFields) && len(all) < maxFaults; k++ {
			if err := fieldFault(&of.MatchFields[k], at.Child("matchFields").Index(k)); err != nil {
				all = append(all, err)
			}
		}
	}
	all = errors.Flatten(errors.NewAggregate(all)).Errors()
	return errors.NewAggregate(all[:min(len(all), maxFaults)])
}

// labelFault is what is wrong with a requirement on a label.
func labelFault(r *v1.NodeSelectorRequirement, at *field.Path) error {
	_, op := operators(r.Operator)
	if op == "" {
		return field.NotSupported(at.Child("operator"), r.Operator, []v1.NodeSelectorOperator{
			v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist,
			v1.NodeSelectorOpGt, v1.NodeSelectorOpLt,
		})
	}
	_, err := labels.NewRequirement(r.Key, op, upToFaults(r.Values), field.WithPath(at))
	return err
}

// upToFaults are values up to the last that is told to be none of a label.
func upToFaults(values []string) []string {
	if len(values) <= maxFaults {
		return values
	}
	faults := 0
	for i, v := range values {
		if len(validation.IsValidLabelValue(v)) > 0 {
			if faults++; faults == maxFaults {
				return values[:i+1]
			}
		}
	}
	return values
}

// fieldFault is what is wrong with a requirement on a field.
func fieldFault(r *v1.NodeSelectorRequirement, at *field.Path) error {
	switch {
	case r.Operator != v1.NodeSelectorOpIn && r.Operator != v1.NodeSelectorOpNotIn:
		return field.NotSupported(at.Child("operator"), r.Operator, []v1.NodeSelectorOperator{v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn})
	case len(r.Values) != 1:
		return field.Invalid(at.Child("values"), r.Values, "must have one element")
	}
	return nil
}

// everyNode is a term that matches every node: none is without a name.
func everyNode() *pb.SelectorTerm {
	return &pb.SelectorTerm{Names: []*pb.NameRequirement{{Operator: pb.SelectorOperator_SELECTOR_OPERATOR_NOT_IN}}}
}

// matching is how often a term or requirement matches.
type matching int

const (
	sometimes matching = iota // it depends on the node
	always
	never
	malformed // never, and upstream has an error for it
)

// isEmpty tells whether a term has no requirement, and so matches nothing.
func isEmpty(t *v1.NodeSelectorTerm) bool {
	return len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0
}

// selectorTerm translates a term; it is nil unless the term matches sometimes.
func selectorTerm(t *v1.NodeSelectorTerm) (*pb.SelectorTerm, matching) {
	if isEmpty(t) {
		return nil, never
	}
	out := &pb.SelectorTerm{}
	result := always
	for i := range t.MatchExpressions {
		r := labelRequirement(&t.MatchExpressions[i])
		if r == nil {
			return nil, malformed
		}
		out.Labels = append(out.Labels, r)
		result = sometimes
	}
	for i := range t.MatchFields {
		r, is := fieldRequirement(&t.MatchFields[i])
		switch is {
		case malformed:
			return nil, malformed
		case never:
			// The requirements that follow may still be malformed.
			result = never
		case sometimes:
			out.Names = append(out.Names, r)
			if result == always {
				result = sometimes
			}
		}
	}
	if result != sometimes {
		return nil, result
	}
	return out, sometimes
}

// labelRequirement translates a requirement on a label; nil where it is malformed.
func labelRequirement(r *v1.NodeSelectorRequirement) *pb.LabelRequirement {
	operator, op := operators(r.Operator)
	if op == "" {
		return nil
	}
	if _, err := labels.NewRequirement(r.Key, op, upToFaults(r.Values)); err != nil {
		return nil
	}
	out := &pb.LabelRequirement{Key: r.Key, Operator: operator}
	switch op {
	case selection.GreaterThan, selection.LessThan:
		bound, err := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil {
			return nil
		}
		out.Bound = bound
	default:
		out.Values = slices.Clone(r.Values)
		slices.Sort(out.Values)
		out.Values = slices.Compact(out.Values)
	}
	return out
}

// operators translates an operator of a label requirement into ours and into that
// of apimachinery, which is empty for an unknown one.
func operators(o v1.NodeSelectorOperator) (pb.SelectorOperator, selection.Operator) {
	switch o {
	case v1.NodeSelectorOpIn:
		return pb.SelectorOperator_SELECTOR_OPERATOR_IN, selection.In
	case v1.NodeSelectorOpNotIn:
		return pb.SelectorOperator_SELECTOR_OPERATOR_NOT_IN, selection.NotIn
	case v1.NodeSelectorOpExists:
		return pb.SelectorOperator_SELECTOR_OPERATOR_EXISTS, selection.Exists
	case v1.NodeSelectorOpDoesNotExist:
		return pb.SelectorOperator_SELECTOR_OPERATOR_DOES_NOT_EXIST, selection.DoesNotExist
	case v1.NodeSelectorOpGt:
		return pb.SelectorOperator_SELECTOR_OPERATOR_GT, selection.GreaterThan
	case v1.NodeSelectorOpLt:
		return pb.SelectorOperator_SELECTOR_OPERATOR_LT, selection.LessThan
	}
	return pb.SelectorOperator_SELECTOR_OPERATOR_UNSPECIFIED, ""
}

// fieldRequirement translates a requirement on a field. A node has one field, its
// name, which is never empty; every other is empty on every node.
func fieldRequirement(r *v1.NodeSelectorRequirement) (*pb.NameRequirement, matching) {
	in := r.Operator == v1.NodeSelectorOpIn
	if !in && r.Operator != v1.NodeSelectorOpNotIn || len(r.Values) != 1 {
		return nil, malformed
	}
	value := r.Values[0]
	if r.Key == metav1.ObjectNameField && value != "" && usable(value) {
		operator, _ := operators(r.Operator)
		return &pb.NameRequirement{Operator: operator, Name: value}, sometimes
	}
	equal := r.Key != metav1.ObjectNameField && value == ""
	if equal == in {
		return nil, always
	}
	return nil, never
}
