package rules

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// SchedulingGates is the plugin that holds a pod back for as long as it has scheduling gates.
const SchedulingGates = "SchedulingGates"

func schedulingGates() *Rule {
	return &Rule{
		Name:   SchedulingGates,
		Points: []framework.Point{framework.PreEnqueue},
		Loop:   true,
		Hints:  gateHints,
		Words:  gateWords(),
	}
}

// gateHints holds a pod back, under profiles that have the plugin, until its gates are gone.
func gateHints(profiles queue.Profiles) queue.Plugin {
	return queue.Plugin{
		Events: []queue.Registration{
			{Resource: queue.PendingPod, Actions: queue.UpdatePodSchedulingGatesEliminated, Helps: queue.IsOwn},
		},
		PreEnqueue: func(p *v1.Pod) string {
			if len(p.Spec.SchedulingGates) == 0 || profiles != nil && !profiles.HoldsBack(p, SchedulingGates) {
				return ""
			}
			names := make([]string, len(p.Spec.SchedulingGates))
			for i, g := range p.Spec.SchedulingGates {
				names[i] = g.Name
			}
			return "waiting for scheduling gates: [" + strings.Join(names, " ") + "]"
		},
	}
}

// gateWords: Lacks and Wants name the gates.
func gateWords() *Words {
	gates := func(p *v1.Pod) string {
		names := make([]string, len(p.Spec.SchedulingGates))
		for i, g := range p.Spec.SchedulingGates {
			names[i] = g.Name
		}
		return strings.Join(names, ", ")
	}
	return &Words{
		Says:  []string{"waiting for scheduling gates"},
		Lacks: func(r *Refused) []string { return []string{"scheduling gates: " + short(gates(r.Pod))} },
		Wants: func(a *Asked) []Want {
			w := Want{Cause: "scheduling gate " + short(gates(a.Pod)), Help: "nothing here: whoever set the gate removes it"}
			if len(a.Pod.Spec.SchedulingGates) > 1 {
				w = Want{Cause: "scheduling gates " + short(gates(a.Pod)), Help: "nothing here: whoever set the gates removes them"}
			}
			return []Want{w}
		},
	}
}
