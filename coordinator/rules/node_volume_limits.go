package rules

import (
	"fmt"

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
		Words:  limitWords(),
	}
}

func limitWords() *Words {
	return &Words{
		Says: []string{"node(s) exceed max volume count"},
		Lacks: func(r *Refused) []string {
			var out []string
			for _, d := range r.Row.FullDrivers() {
				out = append(out, fmt.Sprintf("driver %s has %d of %d volumes attached, the pod adds %d", d.Driver, d.Attached, d.Limit, d.Adds))
			}
			if len(out) == 0 { // a claim that is not there
				return claimProblems(r.Pod, r.Cluster)
			}
			return out
		},
		Wants: func(a *Asked) []Want {
			return []Want{{Cause: "as many volumes are attached as the driver can", Help: "more nodes, or pods with volumes that leave"}}
		},
	}
}
