package rules

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// InterPodAffinity is the plugin for terms of pods about other pods.
const InterPodAffinity = "InterPodAffinity"

func interPodAffinity() *Rule {
	return &Rule{
		Name: InterPodAffinity, Plugin: pb.Plugin_PLUGIN_INTER_POD_AFFINITY,
		Points: []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score},
		Weight: 2,
		Arguments: arguments(completeInterPodAffinity, validateInterPodAffinity,
			func(c *compile.ProfileConfig) *configv1.InterPodAffinityArgs { return &c.InterPodAffinity }),
	}
}

func completeInterPodAffinity(a *configv1.InterPodAffinityArgs) {
	orElse(&a.HardPodAffinityWeight, 1)
}

func validateInterPodAffinity(path *field.Path, a *configv1.InterPodAffinityArgs) field.ErrorList {
	return between(path.Child("hardPodAffinityWeight"), *a.HardPodAffinityWeight, 0, 100)
}
