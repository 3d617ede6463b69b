package rules

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// DynamicResources is the plugin that allocates the devices of resource claims.
const DynamicResources = compile.DynamicResources

func dynamicResources() *Rule {
	return &Rule{
		Name: DynamicResources,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_DYNAMIC_RESOURCES,
			FilterAsks: asksForDevices,
			ScoreAsks:  asksForDevices,
		},
		Points: []framework.Point{
			framework.PreEnqueue, framework.PreFilter, framework.Filter, framework.PostFilter,
			framework.Score, framework.Reserve, framework.PreBind,
		},
		Weight:       2,
		RefusesEarly: true,
		Arguments: arguments(completeDynamicResources, validateDynamicResources,
			func(c *compile.ProfileConfig) *configv1.DynamicResourcesArgs { return &c.DynamicResources }),
		Hints: queue.DynamicResources,
		Words: deviceWords(),
	}
}

func asksForDevices(q *pb.Query) bool { return q.GetResourceClaims() != nil }

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

func deviceWords() *Words {
	return &Words{
		Says: []string{
			"cannot allocate all claims", "resourceclaim not available on the node", "devices can not be searched for",
			"invalid resource pools were encountered", "cannot schedule extended resource claim", "cannot fit resource", "resourceclaim",
			"could not find ResourceClaim", "ResourceClaim ", "resource claim ", "request ", "pod \"", "podgroup.scheduling.k8s.io ",
		},
		Lacks: func(r *Refused) []string { return r.Row.Devices() },
		Wants: func(a *Asked) []Want {
			if text, cause, next := a.Cluster.ClaimProblem(a.Pod); text != "" {
				return []Want{{Cause: cause, Detail: text, Help: next}}
			}
			var names []string
			for i := range a.Pod.Spec.ResourceClaims {
				if name, _, err := compile.ClaimName(a.Pod, &a.Pod.Spec.ResourceClaims[i]); err == nil && name != "" {
					names = append(names, name)
				}
			}
			if len(names) == 0 {
				return []Want{{Cause: "no devices for its extended resources", Help: "devices, or pods with devices that end"}}
			}
			return []Want{{Cause: "no devices for claim " + listed(names), Help: "devices, or pods with devices that end"}}
		},
	}
}
