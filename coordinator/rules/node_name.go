package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeName is the plugin for pods that name their node.
const NodeName = "NodeName"

func nodeName() *Rule {
	return &Rule{
		Name: NodeName, Plugin: pb.Plugin_PLUGIN_NODE_NAME,
		Points: []framework.Point{framework.Filter},
	}
}
