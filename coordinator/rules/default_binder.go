package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
)

// DefaultBinder is the plugin that binds a pod to its node.
const DefaultBinder = "DefaultBinder"

func defaultBinder() *Rule {
	return &Rule{
		Name:   DefaultBinder,
		Points: []framework.Point{framework.Bind},
		Loop:   true,
	}
}
