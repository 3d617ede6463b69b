package rules

import (
	"fmt"
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
