package rules

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// DefaultPreemption is the plugin that makes room for a pod by having others leave.
const DefaultPreemption = "DefaultPreemption"

func defaultPreemption() *Rule {
	return &Rule{
		Name:   DefaultPreemption,
		Points: []framework.Point{framework.PreEnqueue, framework.PostFilter},
		Loop:   true,
		Arguments: arguments(completePreemption, validatePreemption,
			func(c *compile.ProfileConfig) *configv1.DefaultPreemptionArgs { return &c.Preemption }),
		Hints: preemptionHints,
		Words: preemptionWords(),
	}
}

func completePreemption(a *configv1.DefaultPreemptionArgs) {
	orElse(&a.MinCandidateNodesPercentage, 10)
	orElse(&a.MinCandidateNodesAbsolute, 100)
}

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

// What holds a preemptor back while its victims are told to leave, and a member of a pod group for which pods leave.
const (
	awaitsVictims = "waiting for the preemption for this pod to be finished"
	awaitsGang    = "waiting for the preemption for this pod group to be finished"
)

// preemptionHints holds a preemptor back while its victims are told to leave. It waits for no
// event by itself: a pod that it has rejected was rejected by others too, and what those wait for
// is what the victims' leaving brings.
func preemptionHints(profiles queue.Profiles) queue.Plugin {
	p := queue.Plugin{Events: []queue.Registration{
		{Resource: queue.AnyPod, Actions: queue.Delete, Helps: func(*queue.Pod, *queue.Event) bool { return false }},
	}}
	if profiles == nil {
		return p
	}
	p.PreEnqueue = func(p *v1.Pod) string {
		if !profiles.Preempting(p) {
			return ""
		}
		if k, ok := profiles.(queue.KnowsGroups); ok && k.Groups().Gates().Preemption && k.Groups().Of(p) != nil {
			return awaitsGang
		}
		return awaitsVictims
	}
	return p
}

func preemptionWords() *Words {
	return &Words{
		Says:  []string{awaitsVictims, awaitsGang},
		Lacks: func(*Refused) []string { return []string{"its victims are told to leave"} },
		Wants: func(*Asked) []Want {
			return []Want{{Cause: "its victims are told to leave", Help: "nothing: it is tried when they are told"}}
		},
	}
}
