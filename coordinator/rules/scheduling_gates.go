package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
)

// SchedulingGates is the plugin that holds a pod back for as long as it has scheduling gates.
const SchedulingGates = "SchedulingGates"

func schedulingGates() *Rule {
	return &Rule{
		Name:   SchedulingGates,
		Points: []framework.Point{framework.PreEnqueue},
		Loop:   true,
	}
}
