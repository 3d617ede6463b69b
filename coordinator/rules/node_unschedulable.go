package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeUnschedulable is the plugin that keeps pods off cordoned nodes.
const NodeUnschedulable = "NodeUnschedulable"

func nodeUnschedulable() *Rule {
	return &Rule{
		Name: NodeUnschedulable, Plugin: pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE,
		Points: []framework.Point{framework.Filter},
	}
}
