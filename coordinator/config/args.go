package config

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// argsKind is the type of one plugin's arguments.
type argsKind struct {
	empty    func() runtime.Object
	complete func(runtime.Object)
	validate func(*field.Path, runtime.Object) field.ErrorList
}

// argsKindOf makes an argsKind of functions on the type itself.
func argsKindOf[T any, P interface {
	*T
	runtime.Object
}](complete func(P), validate func(*field.Path, P) field.ErrorList) argsKind {
	return argsKind{
		empty:    func() runtime.Object { return P(new(T)) },
		complete: func(o runtime.Object) { complete(o.(P)) },
		validate: func(path *field.Path, o runtime.Object) field.ErrorList { return validate(path, o.(P)) },
	}
}

// argsOf is the type of a plugin's arguments; not every plugin takes any.
func argsOf(plugin string) (argsKind, bool) {
	switch plugin {
	case defaultPreemption:
		return argsKindOf(completePreemption, validatePreemption), true
	case celFilter:
		return argsKindOf(completeCELFilter, validateCELFilter), true
	case celScore:
		return argsKindOf(completeCELScore, validateCELScore), true
	case "DynamicResources":
		return argsKindOf(completeDynamicResources, validateDynamicResources), true
	case "InterPodAffinity":
		return argsKindOf(completeInterPodAffinity, validateInterPodAffinity), true
	case "NodeAffinity":
		return argsKindOf(func(*configv1.NodeAffinityArgs) {}, validateNodeAffinity), true
	case "NodeResourcesBalancedAllocation":
		return argsKindOf(completeBalanced, validateBalanced), true
	case "NodeResourcesFit":
		return argsKindOf(completeFit, validateFit), true
	case "PodTopologySpread":
		return argsKindOf(completeSpread, validateSpread), true
	case "VolumeBinding":
		return argsKindOf(completeVolumeBinding, validateVolumeBinding), true
	}
	return argsKind{}, false
}

// isArguments tells whether a kind is that of some plugin's arguments.
func isArguments(kind string) bool {
	_, ok := argsOf(strings.TrimSuffix(kind, "Args"))
	return ok && strings.HasSuffix(kind, "Args")
}

// The defaults (upstream: pkg/scheduler/apis/config/v1/defaults.go, with the feature
// gates of 1.36).

func completePreemption(a *configv1.DefaultPreemptionArgs) {
	orElse(&a.MinCandidateNodesPercentage, 10)
	orElse(&a.MinCandidateNodesAbsolute, 100)
}

func completeInterPodAffinity(a *configv1.InterPodAffinityArgs) {
	orElse(&a.HardPodAffinityWeight, 1)
}

func completeVolumeBinding(a *configv1.VolumeBindingArgs) {
	orElse(&a.BindTimeoutSeconds, 600)
}

func completeSpread(a *configv1.PodTopologySpreadArgs) {
	if a.DefaultingType == "" {
		a.DefaultingType = configv1.SystemDefaulting
	}
}

func completeDynamicResources(a *configv1.DynamicResourcesArgs) {
	orElse(&a.FilterTimeout, metav1.Duration{Duration: 10 * time.Second})
	orElse(&a.BindingTimeout, metav1.Duration{Duration: 600 * time.Second})
}

func completeBalanced(a *configv1.NodeResourcesBalancedAllocationArgs) {
	a.Resources = completeResources(a.Resources)
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

func orElse[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
