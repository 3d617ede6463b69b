package rules

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// GangScheduling is a plugin of upstream behind a feature gate that is off: pods of a group start together.
const GangScheduling = queue.GangScheduling

func gangScheduling() *Rule {
	return &Rule{
		Name:    GangScheduling,
		Points:  []framework.Point{framework.PreEnqueue, framework.Permit},
		GateOff: true,
		Hints:   gangHints,
	}
}

// gangHints holds the members of a pod group back until there is a PodGroup and, for a gang, minCount of them. The queue is told of
// both by the pod groups, not by events.
func gangHints(profiles queue.Profiles) queue.Plugin {
	known, ok := profiles.(queue.KnowsGroups)
	if !ok || known.Groups() == nil {
		return queue.Plugin{}
	}
	return queue.Plugin{PreEnqueue: func(p *v1.Pod) string {
		if g := known.Groups().Of(p); g != nil {
			return g.Gate()
		}
		return ""
	}}
}

// TopologyPlacementGenerator is likewise: it proposes domains for a group.
const TopologyPlacementGenerator = "TopologyPlacementGenerator"

func topologyPlacementGenerator() *Rule {
	return &Rule{
		Name:    TopologyPlacementGenerator,
		Points:  []framework.Point{framework.PlacementGenerate},
		GateOff: true,
	}
}

// PodGroupPodsCount is likewise: it prefers domains that take more pods of a group.
const PodGroupPodsCount = "PodGroupPodsCount"

func podGroupPodsCount() *Rule {
	return &Rule{
		Name:    PodGroupPodsCount,
		Points:  []framework.Point{framework.PlacementScore},
		GateOff: true,
	}
}
