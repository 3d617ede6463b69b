package rules

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// PodTopologySpread is the plugin that spreads pods evenly over domains.
const PodTopologySpread = "PodTopologySpread"

func podTopologySpread() *Rule {
	return &Rule{
		Name: PodTopologySpread,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD,
			FilterAsks: func(q *pb.Query) bool { return len(q.GetSpread().GetHard()) > 0 },
			ScoreAsks:  func(q *pb.Query) bool { return len(q.GetSpread().GetSoft()) > 0 },
		},
		Points: []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score},
		Weight: 2,
		Arguments: arguments(completeSpread, validateSpread,
			func(c *compile.ProfileConfig) *configv1.PodTopologySpreadArgs { return &c.Spread }),
		Hints: queue.PodTopologySpread,
		Words: spreadWords(),
	}
}

func completeSpread(a *configv1.PodTopologySpreadArgs) {
	if a.DefaultingType == "" {
		a.DefaultingType = configv1.SystemDefaulting
	}
}

func validateSpread(path *field.Path, a *configv1.PodTopologySpreadArgs) field.ErrorList {
	var errs field.ErrorList
	kinds := []configv1.PodTopologySpreadConstraintsDefaulting{configv1.SystemDefaulting, configv1.ListDefaulting}
	list, kind := path.Child("defaultConstraints"), path.Child("defaultingType")
	switch {
	case !sets.New(kinds...).Has(a.DefaultingType):
		errs = append(errs, field.NotSupported(kind, a.DefaultingType, kinds))
	case a.DefaultingType == configv1.SystemDefaulting && len(a.DefaultConstraints) > 0:
		errs = append(errs, field.Invalid(kind, a.DefaultingType, "when .defaultConstraints are not empty"))
	}
	for i := range a.DefaultConstraints {
		errs = append(errs, validateConstraint(list.Index(i), &a.DefaultConstraints[i])...)
		if repeatsConstraint(a.DefaultConstraints, i) {
			c := a.DefaultConstraints[i]
			errs = append(errs, field.Duplicate(list.Index(i), fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
	}
	return errs
}

func validateConstraint(path *field.Path, c *v1.TopologySpreadConstraint) field.ErrorList {
	var errs field.ErrorList
	if c.MaxSkew <= 0 {
		errs = append(errs, field.Invalid(path.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
	}
	key, when := path.Child("topologyKey"), path.Child("whenUnsatisfiable")
	if c.TopologyKey == "" {
		errs = append(errs, field.Required(key, "can not be empty"))
	} else {
		errs = append(errs, metav1validation.ValidateLabelName(c.TopologyKey, key)...)
	}
	actions := []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway}
	switch {
	case c.WhenUnsatisfiable == "":
		errs = append(errs, field.Required(when, "can not be empty"))
	case !sets.New(actions...).Has(c.WhenUnsatisfiable):
		errs = append(errs, field.NotSupported(when, c.WhenUnsatisfiable, actions))
	}
	if c.LabelSelector != nil {
		errs = append(errs, field.Forbidden(path.Child("labelSelector"),
			"constraint must not define a selector, as they deduced for each pod"))
	}
	return errs
}

// repeatsConstraint tells whether a constraint says what one before it said.
func repeatsConstraint(list []v1.TopologySpreadConstraint, i int) bool {
	for j := range i {
		if list[j].TopologyKey == list[i].TopologyKey && list[j].WhenUnsatisfiable == list[i].WhenUnsatisfiable {
			return true
		}
	}
	return false
}

// The reasons of the plugin: a node without a label has the longer one.
const (
	saysSkewed     = "node(s) didn't match pod topology spread constraints"
	saysNoTopology = saysSkewed + " (missing required label)"
)

func spreadWords() *Words {
	return &Words{
		Says:  []string{saysSkewed},
		Lacks: func(r *Refused) []string { return []string{spreadLack(r)} },
		Wants: func(a *Asked) (out []Want) {
			for _, reason := range a.Reasons {
				if reason == saysNoTopology {
					out = append(out, topologyWant(a))
				} else {
					out = append(out, skewWant(a))
				}
			}
			return out
		},
	}
}

// skewWant words that pods are spread less evenly than a pod wants.
func skewWant(a *Asked) Want {
	var words, keys []string
	for _, c := range hardConstraints(a.Pod, a.Profile) {
		words, keys = append(words, fmt.Sprintf("%s with maxSkew %d", keyText(c.TopologyKey), c.MaxSkew)), append(keys, keyText(c.TopologyKey))
	}
	return Want{Cause: "spread over " + listed(words), Help: "room in the " + listed(keys) + " with the fewest pods, or a larger maxSkew"}
}

// topologyWant words that nodes lack a label over which a pod is spread.
func topologyWant(a *Asked) Want {
	var keys, counts []string
	for _, c := range hardConstraints(a.Pod, a.Profile) {
		if _, having, _ := a.Nodes.Label(c.TopologyKey); a.Nodes.Nodes() > having {
			keys = append(keys, c.TopologyKey)
			counts = append(counts, fmt.Sprintf("no %s on %d of %s", c.TopologyKey, a.Nodes.Nodes()-having, nodesText(a.Nodes.Nodes())))
		}
	}
	return Want{Cause: "no label " + listed(keys) + ", over which the pod is spread", Detail: listed(counts),
		Help: "label these nodes, or spread over another label"}
}

// hardConstraints are the constraints of a pod that must hold, or its profile's.
func hardConstraints(p *v1.Pod, prof *compile.Profile) (out []v1.TopologySpreadConstraint) {
	if len(p.Spec.TopologySpreadConstraints) == 0 && prof != nil {
		return prof.DefaultHardConstraints()
	}
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.DoNotSchedule {
			out = append(out, c)
		}
	}
	return out
}

// spreadLack words the numbers of the constraint that a node breaks.
func spreadLack(r *Refused) string {
	u := r.Unmet
	if u == nil || u.Term >= len(r.Class.Query.GetSpread().GetHard()) {
		return "a constraint on how pods spread"
	}
	key, domain := r.topologyOf(u)
	if u.Missing {
		return fmt.Sprintf("the node has no label %s, over which the pod is spread", key)
	}
	which := ""
	if u.Term < len(r.Class.HardSelectors) {
		which = " with " + short(r.Class.HardSelectors[u.Term].String())
	}
	h := r.Class.Query.GetSpread().GetHard()[u.Term]
	least := fmt.Sprintf("least %d", u.Least)
	if u.Domains < int64(h.GetMinDomains()) {
		least += fmt.Sprintf(" (there are %d of minDomains %d)", u.Domains, h.GetMinDomains())
	} else if len(u.LeastIn) > 0 {
		least += fmt.Sprintf(" (%s)", domainText(key, listed(u.LeastIn)))
	}
	return fmt.Sprintf("%s holds %d%s, %s, maxSkew %d", domainText(key, domain), u.Count, which, least, h.GetMaxSkew())
}
