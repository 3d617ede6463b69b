package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/census"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeResourcesFit is the plugin for what a pod requests and a node has.
const NodeResourcesFit = "NodeResourcesFit"

func nodeResourcesFit() *Rule {
	return &Rule{
		Name:      NodeResourcesFit,
		Part:      compile.Part{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT},
		Points:    []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score, framework.PlacementScore},
		Weight:    1,
		Arguments: arguments(completeFit, validateFit, func(c *compile.ProfileConfig) *configv1.NodeResourcesFitArgs { return &c.Fit }),
		Hints:     queue.NodeResourcesFit,
		Words:     fitWords(),
	}
}

func completeFit(a *configv1.NodeResourcesFitArgs) {
	if a.ScoringStrategy == nil {
		a.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
	}
	a.ScoringStrategy.Resources = completeResources(a.ScoringStrategy.Resources)
}

// completeResources takes cpu and memory where nothing is named. A weight of 0 is 1.
func completeResources(list []configv1.ResourceSpec) []configv1.ResourceSpec {
	if len(list) == 0 {
		list = []configv1.ResourceSpec{{Name: string(v1.ResourceCPU)}, {Name: string(v1.ResourceMemory)}}
	}
	for i := range list {
		if list[i].Weight == 0 {
			list[i].Weight = 1
		}
	}
	return list
}

func validateFit(path *field.Path, a *configv1.NodeResourcesFitArgs) field.ErrorList {
	var errs field.ErrorList
	for i, name := range a.IgnoredResources {
		errs = append(errs, metav1validation.ValidateLabelName(name, path.Child("ignoredResources").Index(i))...)
	}
	for i, group := range a.IgnoredResourceGroups {
		at := path.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			errs = append(errs, field.Invalid(at, group, "resource group name can't contain '/'"))
		}
		errs = append(errs, metav1validation.ValidateLabelName(group, at)...)
	}
	return append(errs, validateStrategy(path.Child("scoringStrategy"), a.ScoringStrategy)...)
}

func validateStrategy(path *field.Path, s *configv1.ScoringStrategy) field.ErrorList {
	var errs field.ErrorList
	strategies := []configv1.ScoringStrategyType{configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio}
	if !sets.New(strategies...).Has(s.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), s.Type, strategies))
	}
	for i, r := range s.Resources {
		if r.Weight <= 0 || r.Weight > 100 {
			errs = append(errs, field.Invalid(path.Child("resources").Index(i).Child("weight"), r.Weight,
				fmt.Sprintf("resource weight of %v not in valid range (0, 100]", r.Name)))
		}
	}
	ratio := path.Child("requestedToCapacityRatio")
	switch by, given := s.RequestedToCapacityRatio, s.RequestedToCapacityRatio != nil; {
	case s.Type == configv1.RequestedToCapacityRatio && !given:
		errs = append(errs, field.Required(ratio, "must be specified when type is RequestedToCapacityRatio"))
	case s.Type == configv1.RequestedToCapacityRatio:
		errs = append(errs, validateShape(ratio.Child("shape"), by.Shape)...)
	case given:
		errs = append(errs, field.Forbidden(ratio, "must be nil when type is not RequestedToCapacityRatio"))
	}
	return errs
}

func validateShape(path *field.Path, shape []configv1.UtilizationShapePoint) field.ErrorList {
	if len(shape) == 0 {
		return field.ErrorList{field.Required(path, "at least one point must be specified")}
	}
	var errs field.ErrorList
	for i := 1; i < len(shape); i++ {
		if shape[i-1].Utilization >= shape[i].Utilization {
			errs = append(errs, field.Invalid(path.Index(i).Child("utilization"), shape[i].Utilization,
				"values must be sorted in increasing order"))
			break
		}
	}
	for i, s := range shape {
		errs = append(errs, between(path.Index(i).Child("utilization"), s.Utilization, 0, 100)...)
		errs = append(errs, between(path.Index(i).Child("score"), s.Score, 0, 10)...)
	}
	return errs
}

func fitWords() *Words {
	return &Words{
		Says:     []string{"Insufficient ", "Too many pods"},
		Together: true,
		Lacks: func(r *Refused) []string {
			var out []string
			for _, x := range r.Row.Shortfalls() {
				out = append(out, x.Text)
			}
			return out
		},
		Wants: fitWants,
	}
}

// fitWants tells what no node has enough of from what nodes have, but others use.
func fitWants(a *Asked) []Want {
	requests, names, d := compile.Requests(a.Pod), resourcesIn(a.Reasons), a.demand()
	var large, sizes, absent []string
	which := "any node"
	for _, name := range names {
		asked, most := requests[v1.ResourceName(name)], a.Nodes.Largest(v1.ResourceName(name))
		largest := most
		if within, known := d.Largest(v1.ResourceName(name)); known {
			largest = within
		}
		switch {
		case name == tooManyPods || asked.Cmp(largest) <= 0:
		case most.IsZero():
			absent = append(absent, name)
		default:
			large = append(large, name)
			sizes = append(sizes, fmt.Sprintf("%s > %s", asked.String(), largest.String()))
			if asked.Cmp(most) <= 0 {
				which = "any node that it may be on"
			}
		}
	}
	var detail []string
	if a.Judged { // pods that are told together may ask for other amounts
		detail = requestsText(names, requests)
	}
	w := Want{Help: "more such nodes, pods that leave, or a higher priority"}
	if policy := a.Pod.Spec.PreemptionPolicy; policy != nil && *policy == v1.PreemptNever {
		w.Help = "more such nodes, or pods that leave"
	}
	switch full := a.full(); {
	case len(absent) > 0:
		w = Want{Cause: "no node has " + listed(absent), Help: "nodes that have it"}
		detail = nil
	case len(large) > 0 && (!a.Judged || a.Unresolvable):
		w = Want{Cause: strings.Join(large, ", ") + ": larger than " + which, Help: a.help(census.Small)}
		detail = sizes
	case a.Judged && a.Unresolvable:
		names = tooLittle(a.Reasons, d.Short())
		w = Want{Cause: strings.Join(names, ", ") + ": too small even when empty", Help: a.help(census.Small)}
		detail = requestsText(names, requests)
	case a.Judged:
		w.Cause = wordsOf(names, ", ") + ": big enough, but full"
	case d == nil:
		w.Cause = wordsOf(names, " or ") + ": not enough"
	case d.Large() == 0:
		w = Want{Cause: wordsOf(names, ", ") + ": no node has enough of all at once", Help: a.help(census.Small)}
	case full > 0:
		w.Cause = wordsOf(names, " or ") + ": full on every node that is big enough"
		detail = []string{nodesText(full)}
	default:
		w = Want{Cause: wordsOf(names, " or ") + ": larger than the nodes that nothing else refuses", Help: a.help(census.Small)}
		detail = []string{nodesText(a.Refused)}
	}
	w.Detail = strings.Join(detail, ", ")
	return []Want{w}
}

// full is how many nodes are big enough for the pod, and refused for what others use of them.
func (a *Asked) full() int {
	d := a.demand()
	n := d.Nodes(0)
	if a.Refused == 0 {
		return n
	}
	refused := a.Refused
	if len(hostPorts(a.Pod)) == 0 { // no filter before this one may have refused the small nodes
		refused -= d.Nodes(census.Small)
	}
	return min(n, refused)
}

// wordsOf joins the names of resources.
func wordsOf(resources []string, by string) string {
	return strings.ReplaceAll(strings.Join(resources, by), tooManyPods, "pods")
}

// requestsText words what a pod asks of some resources: "asks cpu 4", "memory 2Gi".
func requestsText(names []string, requests v1.ResourceList) (words []string) {
	for _, name := range names {
		if q, ok := requests[v1.ResourceName(name)]; ok {
			words = append(words, name+" "+q.String())
		}
	}
	if len(words) > 0 {
		words[0] = "asks " + words[0]
	}
	return words
}

// tooManyPods stands for the number of pods among resources: no resource is named so.
const tooManyPods = "\xffpods"

// resourcesIn are the resources that some reasons name: cpu and memory first, the number of pods last, as pods that wait for the same
// are told alike.
func resourcesIn(reasons []string) (names []string) {
	for _, reason := range reasons {
		if name, isResource := strings.CutPrefix(reason, "Insufficient "); isResource {
			names = append(names, name)
		} else {
			names = append(names, tooManyPods)
		}
	}
	first := []string{string(v1.ResourceMemory), string(v1.ResourceCPU)}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(slices.Index(first, y), slices.Index(first, x)), strings.Compare(x, y))
	})
	return names
}

// tooLittle are the resources among some reasons that nodes have too little of when they are empty.
func tooLittle(reasons []string, less map[v1.ResourceName]int) (out []string) {
	for _, name := range resourcesIn(reasons) {
		if name != tooManyPods && (less == nil || less[v1.ResourceName(name)] > 0) {
			out = append(out, name)
		}
	}
	return out
}
