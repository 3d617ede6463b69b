package rules

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// GangScheduling has as many pods of a PodGroup start as it needs, or none.
const GangScheduling = queue.GangScheduling

func gangScheduling() *Rule {
	return &Rule{
		Name:   GangScheduling,
		Points: []framework.Point{framework.PreEnqueue, framework.Permit},
		With:   func(g groups.Gates) bool { return g.Gang },
		Loop:   true,
		Hints:  gangHints,
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

// TopologyPlacementGenerator proposes the domains of a label of nodes, one of which takes all pods of a PodGroup.
const TopologyPlacementGenerator = "TopologyPlacementGenerator"

func topologyPlacementGenerator() *Rule {
	return &Rule{
		Name:   TopologyPlacementGenerator,
		Points: []framework.Point{framework.PlacementGenerate},
		With:   func(g groups.Gates) bool { return g.Topology },
		Loop:   true,
	}
}

// PodGroupPodsCount prefers domains that take more pods of a PodGroup.
const PodGroupPodsCount = "PodGroupPodsCount"

func podGroupPodsCount() *Rule {
	return &Rule{
		Name:   PodGroupPodsCount,
		Points: []framework.Point{framework.PlacementScore},
		Weight: 1,
		With:   func(g groups.Gates) bool { return g.Topology },
		Loop:   true,
	}
}
