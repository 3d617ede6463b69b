package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
)

// GangScheduling is a plugin of upstream behind a feature gate that is off: pods of a group start together.
const GangScheduling = "GangScheduling"

func gangScheduling() *Rule {
	return &Rule{
		Name:    GangScheduling,
		Points:  []framework.Point{framework.PreEnqueue, framework.Permit},
		GateOff: true,
	}
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
