package rules

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// InterPodAffinity is the plugin for terms of pods about other pods.
const InterPodAffinity = "InterPodAffinity"

func interPodAffinity() *Rule {
	return &Rule{
		Name: InterPodAffinity,
		Part: compile.Part{
			Plugin: pb.Plugin_PLUGIN_INTER_POD_AFFINITY,
			FilterAsks: func(q *pb.Query) bool {
				a := q.GetInterPodAffinity()
				return len(a.GetRequired())+len(a.GetAnti())+len(a.GetExistingAnti()) > 0
			},
			ScoreAsks: func(q *pb.Query) bool { return len(q.GetInterPodAffinity().GetPreferred()) > 0 },
		},
		Points: []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score},
		Weight: 2,
		Arguments: arguments(completeInterPodAffinity, validateInterPodAffinity,
			func(c *compile.ProfileConfig) *configv1.InterPodAffinityArgs { return &c.InterPodAffinity }),
		Hints: queue.InterPodAffinity,
	}
}

func completeInterPodAffinity(a *configv1.InterPodAffinityArgs) {
	orElse(&a.HardPodAffinityWeight, 1)
}

func validateInterPodAffinity(path *field.Path, a *configv1.InterPodAffinityArgs) field.ErrorList {
	return between(path.Child("hardPodAffinityWeight"), *a.HardPodAffinityWeight, 0, 100)
}
