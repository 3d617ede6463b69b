package rules

import (
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodePorts is the plugin for host ports.
const NodePorts = "NodePorts"

func nodePorts() *Rule {
	return &Rule{
		Name: NodePorts,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_NODE_PORTS,
			FilterAsks: func(q *pb.Query) bool { return len(q.GetHostPorts()) > 0 },
		},
		Points: []framework.Point{framework.PreFilter, framework.Filter},
		Hints:  queue.NodePorts,
	}
}
