package rules

import (
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeVolumeLimits is the plugin for how many volumes of a driver a node can attach.
const NodeVolumeLimits = "NodeVolumeLimits"

func nodeVolumeLimits() *Rule {
	return &Rule{
		Name: NodeVolumeLimits,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS,
			FilterAsks: func(q *pb.Query) bool { return q.GetVolumeLimits() != nil },
		},
		Points: []framework.Point{framework.PreFilter, framework.Filter},
		Hints:  queue.NodeVolumeLimits,
	}
}
