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
	requests := compile.Requests(a.Pod)
	var full, large, sizes []string
	for _, name := range resourcesIn(a.Reasons) {
		if name == tooManyPods {
			full = append(full, "pods")
			continue
		}
		asked := requests[v1.ResourceName(name)]
		if most := a.Nodes.Largest(v1.ResourceName(name)); asked.Cmp(most) > 0 {
			large = append(large, name)
			sizes = append(sizes, fmt.Sprintf("%s > %s", asked.String(), most.String()))
		} else {
			full = append(full, name)
		}
	}
	enough, less, known := a.Nodes.Large(requests)
	switch {
	case len(large) > 0 && (!a.Judged || a.Unresolvable):
		return []Want{{Cause: strings.Join(large, ", ") + ": larger than any node", Detail: strings.Join(sizes, ", "),
			Help: "larger nodes, or smaller requests"}}
	case a.Judged && a.Unresolvable:
		return []Want{{Cause: strings.Join(tooLittle(a.Reasons, less), ", ") + ": too small even when empty",
			Help: "larger nodes, or smaller requests"}}
	case !a.Judged && known && enough == 0:
		return []Want{{Cause: strings.Join(full, ", ") + ": no node has enough of all at once", Help: "larger nodes, or smaller requests"}}
	}
	w := Want{Cause: strings.Join(full, ", ") + ": big enough, but full", Help: "more such nodes, pods that leave, or a higher priority"}
	if !a.Judged {
		w.Cause = strings.Join(full, ", ") + ": full on every node that is big enough"
		if known {
			w.Detail = nodesText(enough)
		}
	}
	return []Want{w}
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
