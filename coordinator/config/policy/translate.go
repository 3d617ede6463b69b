package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// The minor versions of kube-scheduler that read a Policy.
const (
	FirstMinor = 8
	LastMinor  = 22
)

// Options are what a Policy does not say of itself.
type Options struct {
	// Minor is that of the kube-scheduler (1.Minor) that read it, on which depends what it says by leaving
	// something out; 0: the last.
	Minor int
}

// ParseVersion reads a version such as 1.18, v1.18 or 1.18.2.
func ParseVersion(s string) (minor int, err error) {
	parts := strings.Split(strings.TrimPrefix(s, "v"), ".")
	if len(parts) >= 2 && parts[0] == "1" {
		minor, err = strconv.Atoi(parts[1])
	}
	if err != nil || minor < FirstMinor || minor > LastMinor {
		return 0, fmt.Errorf("%q is no version from 1.%d to 1.%d", clip(s), FirstMinor, LastMinor)
	}
	return minor, nil
}

// Result is a Policy translated.
type Result struct {
	// Notes tell, name by name, what became of the Policy.
	Notes []Note

	policy  *Policy
	minor   int
	profile profile
}

// Note is what became of one name or field.
type Note struct {
	// Part is predicates, priorities or other.
	Part string
	// Name is as the Policy has it, or would have it.
	Name string
	// Implied: the Policy does not name it.
	Implied bool
	// Weight is a priority's; 0: none.
	Weight int64
	// Plugins are those that it stands for; none: it has no effect.
	Plugins []string
	// Text is the reason, or what is different now; it may be empty.
	Text string
	// Warning: the Policy does something that is seldom meant.
	Warning bool
}

// String is the note as one line.
func (n Note) String() string {
	text := n.Name
	if n.Warning {
		return text + ": " + n.Text
	}
	if n.Weight != 0 {
		text += fmt.Sprintf(" %d", n.Weight)
	}
	if n.Implied {
		text += " (implied)"
	}
	text += " -> "
	switch {
	case len(n.Plugins) > 0 && n.Text != "":
		return text + strings.Join(n.Plugins, ", ") + ": " + n.Text
	case len(n.Plugins) > 0:
		return text + strings.Join(n.Plugins, ", ")
	}
	return text + "no effect: " + n.Text
}

// profile is what the plugins of the profile come to.
type profile struct {
	filters []string         // in order
	scores  map[string]int64 // weights
	// labels are what nodes must have and must not have.
	present, absent []string
	fit             *configv1.ScoringStrategy
	spread          configv1.PodTopologySpreadConstraintsDefaulting // empty: it scores nothing
	hardWeight      int32                                           // 0: the default
}

// Translate makes a profile of a Policy that does the same. What no plugin does any more is
// refused by name, as *config.Error, several of them joined.
func Translate(p *Policy, o Options) (*Result, error) {
	t := &translation{Result: Result{policy: p, minor: cmp.Or(o.Minor, LastMinor), profile: profile{scores: map[string]int64{}}}}
	t.predicates()
	t.priorities()
	t.rest()
	if len(t.errs) > 0 {
		return nil, errors.Join(t.errs...)
	}
	return &t.Result, nil
}

type translation struct {
	Result
	errs []error
}

// refuse notes that something can't be translated.
func (t *translation) refuse(path, problem string) {
	e := &config.Error{File: t.policy.File, Field: path, Problem: problem, Line: t.policy.line(path)}
	t.errs = append(t.errs, e)
}

// line is where the field at a path stands, or the nearest thing above it; 0: not known.
func (p *Policy) line(path string) int {
	for {
		if n, ok := p.lines[path]; ok {
			return n
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return 0
		}
		path = path[:i]
	}
}

// look is what becomes of a name; ok: it is not refused.
func (t *translation) look(l List, shown, name, path string) (Name, bool) {
	known, ok := find(l, name)
	what := "predicate"
	if l == Priorities {
		what = "priority"
	}
	switch {
	case !ok:
		t.refuse(path, fmt.Sprintf("%s type not found for %q", what, clip(shown)))
	case known.Fate == Refused:
		t.refuse(path, fmt.Sprintf("no plugin does what the %s %q did: %s", what, clip(shown), known.Note))
	default:
		return known, true
	}
	return known, false
}

// predicates takes the filters.
func (t *translation) predicates() {
	wanted := map[string]bool{} // names that are mapped
	take := func(known Name, shown string, implied bool) {
		if !wanted[known.Name] || known.Name != shown {
			t.Notes = append(t.Notes, Note{Part: Predicates.String(), Name: shown, Implied: implied, Plugins: known.Plugins,
				Text: known.Note})
		}
		wanted[known.Name] = known.Fate == Mapped
	}
	if t.policy.Predicates == nil {
		for _, name := range defaultPredicates(t.minor) {
			known, _ := find(Predicates, name)
			take(known, name, true)
		}
	}
	custom := ""
	for i, p := range t.policy.Predicates {
		path := fmt.Sprintf("predicates[%d]", i)
		name := p.Name
		switch {
		case p.ServiceAffinity != nil:
			name = serviceAffinityArgument
		case p.LabelsPresence != nil:
			name, custom = labelsPresenceArgument, path
			if p.LabelsPresence.Presence {
				t.profile.present = append(t.profile.present, p.LabelsPresence.Labels...)
			} else {
				t.profile.absent = append(t.profile.absent, p.LabelsPresence.Labels...)
			}
		case strings.HasPrefix(name, "("):
			name = "" // custom ones are not known by their name
		}
		if known, ok := t.look(Predicates, p.Name, name, path); ok {
			take(known, p.Name, false)
		}
	}
	for _, name := range mandatory() {
		if !wanted[name] {
			known, _ := find(Predicates, name)
			take(known, name, true)
			t.Notes[len(t.Notes)-1].Text = "mandatory"
		}
	}
	if custom != "" && !wanted["MatchNodeSelector"] && !wanted["GeneralPredicates"] {
		t.refuse(custom, "labelsPresence goes with MatchNodeSelector or GeneralPredicates: NodeAffinity, which looks at nodes' labels, "+
			"looks at the pods' node selectors too")
	}
	t.filters(wanted)
}

// filters takes the filter plugins of the predicates that are wanted.
func (t *translation) filters(wanted map[string]bool) {
	for _, known := range predicateNames() {
		if !wanted[known.Name] {
			continue
		}
		for _, plugin := range known.Plugins {
			if !slices.Contains(t.profile.filters, plugin) {
				t.profile.filters = append(t.profile.filters, plugin)
			}
		}
	}
	if !slices.Contains(t.profile.filters, rules.VolumeBinding) {
		t.Notes = append(t.Notes, Note{Part: Predicates.String(), Name: checkVolumeBinding + " is not listed", Warning: true,
			Text: "pods whose claims wait for their first consumer are scheduled without regard to their volumes, which are then not " +
				"bound by the scheduler"})
	}
}

// priorities takes the scores. Of a name that is there twice the last counts.
func (t *translation) priorities() {
	weight := map[string]int64{}
	var ratio *Priority
	ratioAt := ""
	take := func(known Name, shown string, w int64, implied bool) {
		if known.Fate == Mapped {
			weight[known.Name] = w
		}
		t.Notes = append(t.Notes,
			Note{Part: Priorities.String(), Name: shown, Weight: w, Implied: implied, Plugins: known.Plugins, Text: known.Note})
	}
	if t.policy.Priorities == nil {
		for _, p := range t.defaultPriorities() {
			known, _ := find(Priorities, p.name)
			take(known, p.name, p.weight, true)
		}
	}
	for i, p := range t.policy.Priorities {
		path := fmt.Sprintf("priorities[%d]", i)
		name := p.Name
		switch {
		case p.ServiceAntiAffinity != nil:
			name = serviceAntiAffinityArgument
		case p.LabelPreference != nil:
			name = labelPreferenceArgument
		case p.CapacityRatio != nil || name == capacityRatio:
			name = capacityRatioArgument
			if ratio != nil {
				t.refuse(path, "requestedToCapacityRatio custom policy declared twice")
			}
			ratio, ratioAt = &t.policy.Priorities[i], path
			if p.CapacityRatio == nil && t.minor > 16 {
				t.refuse(path,
					fmt.Sprintf("priority type not found for %q: without requestedToCapacityRatioArguments it was taken up to 1.16 only",
						p.Name))
			}
		case strings.HasPrefix(name, "("):
			name = ""
		}
		if known, ok := t.look(Priorities, p.Name, name, path); ok {
			take(known, p.Name, p.Weight, false)
		}
	}
	for _, plain := range []string{"TaintTolerationPriority", "NodeAffinityPriority", interPodAffinity, "BalancedResourceAllocation",
		imageLocality} {
		if w := weight[plain]; w != 0 {
			known, _ := find(Priorities, plain)
			t.profile.scores[known.Plugins[0]] = w
		}
	}
	t.spread(weight)
	t.fit(weight, ratio, ratioAt)
}

// defaultPriorities are those of the version, and of the provider.
func (t *translation) defaultPriorities() []weighed {
	list := defaultPriorities(t.minor)
	if t.policy.provider == ClusterAutoscalerProvider {
		for i := range list {
			if list[i].name == leastRequested {
				list[i].name = mostRequested
			}
		}
	}
	return list
}

// spread makes one plugin of what spread pods.
func (t *translation) spread(weight map[string]int64) {
	const plugin = rules.PodTopologySpread
	system := cmp.Or(weight[selectorSpread], weight[serviceSpreading])
	switch own := weight[evenPodsSpreadPriority]; {
	case system != 0:
		t.profile.scores[plugin], t.profile.spread = cmp.Or(own, system), configv1.SystemDefaulting
	case own != 0:
		t.profile.scores[plugin], t.profile.spread = own, configv1.ListDefaulting
	}
}

// fit makes one score of those that look at how full a node is.
func (t *translation) fit(weight map[string]int64, ratio *Priority, ratioAt string) {
	const plugin = rules.NodeResourcesFit
	least, most := weight[leastRequested], weight[mostRequested]
	if ratio != nil {
		if least != 0 || most != 0 {
			t.refuse(ratioAt,
				"NodeResourcesFit scores in one way: requestedToCapacityRatioArguments can't stand beside "+
					leastRequested+" or "+mostRequested)
		}
		t.profile.scores[plugin] = ratio.Weight
		t.profile.fit = capacityRatioStrategy(ratio.CapacityRatio)
		return
	}
	if least != 0 && most != 0 {
		text := "they take each other's weight off, but for rounding and for nodes that are promised more than they have; what is left is "
		switch {
		case least == most:
			text += "nothing"
		case least > most:
			text += fmt.Sprintf("LeastAllocated with %d", least-most)
		default:
			text += fmt.Sprintf("MostAllocated with %d", most-least)
		}
		t.Notes = append(t.Notes,
			Note{Part: Priorities.String(), Name: leastRequested + " and " + mostRequested, Plugins: []string{plugin}, Text: text})
	}
	switch {
	case least > most:
		t.profile.scores[plugin] = least - most
		t.profile.fit = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
	case most > least:
		t.profile.scores[plugin] = most - least
		t.profile.fit = &configv1.ScoringStrategy{Type: configv1.MostAllocated}
	}
}

// capacityRatioStrategy is the strategy of arguments; nil: the default up to 1.16.
func capacityRatioStrategy(c *CapacityRatio) *configv1.ScoringStrategy {
	if c == nil {
		c = &CapacityRatio{Shape: []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}}
	}
	return &configv1.ScoringStrategy{
		Type: configv1.RequestedToCapacityRatio, Resources: c.Resources,
		RequestedToCapacityRatio: &configv1.RequestedToCapacityRatioParam{Shape: c.Shape},
	}
}

// rest takes what is neither.
func (t *translation) rest() {
	note := func(name string, plugins []string, text string) {
		t.Notes = append(t.Notes, Note{Part: "other", Name: name, Plugins: plugins, Text: text})
	}
	if w := t.policy.HardPodAffinitySymmetricWeight; w != 0 {
		t.profile.hardWeight = w
		note("hardPodAffinitySymmetricWeight", []string{rules.InterPodAffinity}, "hardPodAffinityWeight of its arguments")
	}
	if t.policy.AlwaysCheckAllPredicates {
		note("alwaysCheckAllPredicates", nil, "the first filter that refuses a node gives the reason. No decision depends on it")
	}
	if t.policy.apiFields > 0 {
		note("apiVersion of extenders", nil, "there is one version of what extenders are sent")
	}
}

// addedAffinity is what nodes' labels must be; nil: nothing.
func (p *profile) addedAffinity() *v1.NodeAffinity {
	var all []v1.NodeSelectorRequirement
	for _, keys := range []struct {
		list     []string
		operator v1.NodeSelectorOperator
	}{{p.present, v1.NodeSelectorOpExists}, {p.absent, v1.NodeSelectorOpDoesNotExist}} {
		for _, key := range keys.list {
			r := v1.NodeSelectorRequirement{Key: key, Operator: keys.operator}
			if !slices.ContainsFunc(all, func(o v1.NodeSelectorRequirement) bool { return o.Key == key && o.Operator == r.Operator }) {
				all = append(all, r)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: all}},
	}}
}
