package rules

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeResourcesBalancedAllocation is the plugin that evens out how much of each resource a node has in use.
const NodeResourcesBalancedAllocation = "NodeResourcesBalancedAllocation"

func nodeResourcesBalancedAllocation() *Rule {
	return &Rule{
		Name: NodeResourcesBalancedAllocation,
		Part: compile.Part{
			Plugin:    pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION,
			ScoreAsks: func(q *pb.Query) bool { return q.GetBalanced() != nil },
		},
		Points: []framework.Point{framework.PreScore, framework.Score},
		Weight: 1,
		Arguments: arguments(completeBalanced, validateBalanced,
			func(c *compile.ProfileConfig) *configv1.NodeResourcesBalancedAllocationArgs { return &c.Balanced }),
	}
}

func completeBalanced(a *configv1.NodeResourcesBalancedAllocationArgs) {
	a.Resources = completeResources(a.Resources)
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
