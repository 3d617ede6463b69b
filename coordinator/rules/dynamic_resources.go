package rules

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// DynamicResources is the plugin that allocates the devices of resource claims. No table evaluates it: pods with claims are refused.
const DynamicResources = compile.DynamicResources

func dynamicResources() *Rule {
	return &Rule{
		Name: DynamicResources,
		Points: []framework.Point{
			framework.PreEnqueue, framework.PreFilter, framework.Filter, framework.PostFilter,
			framework.Score, framework.Reserve, framework.PreBind,
		},
		Weight:    2,
		Arguments: arguments(completeDynamicResources, validateDynamicResources, ignored[configv1.DynamicResourcesArgs]),
		Hints:     queue.DynamicResources,
	}
}

func completeDynamicResources(a *configv1.DynamicResourcesArgs) {
	orElse(&a.FilterTimeout, metav1.Duration{Duration: 10 * time.Second})
	orElse(&a.BindingTimeout, metav1.Duration{Duration: 600 * time.Second})
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

// ignored are arguments that nothing is compiled by.
func ignored[T any](*compile.ProfileConfig) *T { return new(T) }
