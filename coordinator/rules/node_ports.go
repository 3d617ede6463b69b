package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodePorts is the plugin for host ports.
const NodePorts = "NodePorts"

func nodePorts() *Rule {
	return &Rule{
		Name: NodePorts, Plugin: pb.Plugin_PLUGIN_NODE_PORTS,
		Points: []framework.Point{framework.PreFilter, framework.Filter},
	}
}
