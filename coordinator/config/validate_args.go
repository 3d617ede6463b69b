package config

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// The rules of each plugin's completed arguments (upstream:
// validation_pluginargs.go, with the feature gates of 1.36).

func validatePreemption(path *field.Path, a *configv1.DefaultPreemptionArgs) field.ErrorList {
	var errs field.ErrorList
	percentage, absolute := path.Child("minCandidateNodesPercentage"), path.Child("minCandidateNodesAbsolute")
	errs = append(errs, between(percentage, *a.MinCandidateNodesPercentage, 0, 100)...)
	if *a.MinCandidateNodesAbsolute < 0 {
		errs = append(errs, field.Invalid(absolute, *a.MinCandidateNodesAbsolute, "not in valid range [0, inf)"))
	}
	if *a.MinCandidateNodesPercentage == 0 && *a.MinCandidateNodesAbsolute == 0 {
		errs = append(errs,
			field.Invalid(percentage, int32(0), "cannot be zero at the same time as minCandidateNodesAbsolute"),
			field.Invalid(absolute, int32(0), "cannot be zero at the same time as minCandidateNodesPercentage"))
	}
	return errs
}

// between refuses a value outside a range, ends included.
func between(path *field.Path, value, least, most int32) field.ErrorList {
	if value >= least && value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("not in valid range [%d, %d]", least, most))}
}

func validateInterPodAffinity(path *field.Path, a *configv1.InterPodAffinityArgs) field.ErrorList {
	return between(path.Child("hardPodAffinityWeight"), *a.HardPodAffinityWeight, 0, 100)
}

func validateDynamicResources(path *field.Path, a *configv1.DynamicResourcesArgs) field.ErrorList {
	var errs field.ErrorList
	if a.FilterTimeout.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("filterTimeout"), a.FilterTimeout, "must be zero or positive"))
	}
	if a.BindingTimeout.Duration < time.Second {
		errs = append(errs, field.Invalid(path.Child("bindingTimeout"), a.BindingTimeout, "must be at least 1 second"))
	}
	return errs
}

func validateVolumeBinding(path *field.Path, a *configv1.VolumeBindingArgs) field.ErrorList {
	var errs field.ErrorList
	if *a.BindTimeoutSeconds < 0 {
		errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), *a.BindTimeoutSeconds,
			"invalid BindTimeoutSeconds, should not be a negative value"))
	}
	if a.Shape != nil {
		errs = append(errs, field.Invalid(path.Child("shape"), a.Shape,
			"unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"))
	}
	return errs
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

func validateBalanced(path *field.Path, a *configv1.NodeResourcesBalancedAllocationArgs) field.ErrorList {
	var errs field.ErrorList
	seen := sets.Set[string]{}
	for i, r := range a.Resources {
		at := path.Child("resources").Index(i)
		if seen.Has(r.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), r.Name))
		}
		seen.Insert(r.Name)
		if r.Weight != 1 {
			errs = append(errs, field.Invalid(at.Child("weight"), r.Weight, "must be 1"))
		}
	}
	return errs
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
			errs = append(errs, field.Invalid(path.Index(i).Child("utilization"), shape[i].Utilization, "values must be sorted in increasing order"))
			break
		}
	}
	for i, s := range shape {
		errs = append(errs, between(path.Index(i).Child("utilization"), s.Utilization, 0, 100)...)
		errs = append(errs, between(path.Index(i).Child("score"), s.Score, 0, 10)...)
	}
	return errs
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
		errs = append(errs, field.Forbidden(path.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
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
