package rules

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeAffinity is the plugin for node selectors and node affinity.
const NodeAffinity = "NodeAffinity"

func nodeAffinity() *Rule {
	return &Rule{
		Name: NodeAffinity,
		Part: compile.Part{
			Plugin: pb.Plugin_PLUGIN_NODE_AFFINITY,
			FilterAsks: func(q *pb.Query) bool {
				a := q.GetNodeAffinity()
				return a.GetAdded() != nil || a.GetRequired() != nil || len(a.GetNodeSelector()) > 0
			},
			ScoreAsks: func(q *pb.Query) bool { return len(q.GetNodeAffinity().GetPreferred()) > 0 },
		},
		Points: []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score},
		Weight: 2, RefusesEarly: true,
		Arguments: arguments(func(*configv1.NodeAffinityArgs) {}, validateNodeAffinity,
			func(c *compile.ProfileConfig) *configv1.NodeAffinityArgs { return &c.NodeAffinity }),
		Hints: queue.NodeAffinity,
	}
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
