package rules

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TaintToleration is the plugin for taints of nodes and tolerations of pods.
const TaintToleration = "TaintToleration"

func taintToleration() *Rule {
	return &Rule{
		Name:   TaintToleration,
		Part:   compile.Part{Plugin: pb.Plugin_PLUGIN_TAINT_TOLERATION},
		Points: []framework.Point{framework.Filter, framework.PreScore, framework.Score},
		Weight: 3,
		Hints:  taintHints,
	}
}

// taintHints waits for nodes whose taints the pod tolerates, and for the pod to tolerate others.
func taintHints(queue.Profiles) queue.Plugin {
	return queue.Plugin{Local: true, Events: []queue.Registration{
		{Resource: queue.Node, Actions: queue.Add | queue.UpdateNodeTaint, Helps: isTolerated},
		{Resource: queue.AnyPod, Actions: queue.UpdatePodToleration, Helps: queue.IsOwn},
	}}
}

// isTolerated: the node's taints are tolerated, and it is new or they were not before.
func isTolerated(p *queue.Pod, e *queue.Event) bool {
	old, now := objects[*v1.Node](e)
	return queue.ToleratesAll(p.Obj, now) && (old == nil || !queue.ToleratesAll(p.Obj, old))
}
