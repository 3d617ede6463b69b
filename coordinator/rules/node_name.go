package rules

import (
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeName is the plugin for pods that name their node.
const NodeName = "NodeName"

func nodeName() *Rule {
	return &Rule{
		Name:   NodeName,
		Part:   compile.Part{Plugin: pb.Plugin_PLUGIN_NODE_NAME},
		Points: []framework.Point{framework.Filter},
		Hints:  nameHints,
		Words:  nameWords(),
	}
}

// nameHints waits for new nodes.
func nameHints(queue.Profiles) queue.Plugin {
	return queue.Plugin{Local: true, Events: []queue.Registration{{Resource: queue.Node, Actions: queue.Add}}}
}

func nameWords() *Words {
	return &Words{
		Says: []string{"node(s) didn't match the requested node name"},
		Lacks: func(r *Refused) []string {
			return []string{"spec.nodeName is " + r.Class.Query.GetNodeName() + ", another node"}
		},
		Wants: func(a *Asked) []Want {
			return []Want{{Cause: "spec.nodeName is " + a.Pod.Spec.NodeName, Help: "that node, or a pod without nodeName"}}
		},
	}
}
