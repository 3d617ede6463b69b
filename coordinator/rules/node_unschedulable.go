package rules

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/census"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeUnschedulable is the plugin that keeps pods off cordoned nodes.
const NodeUnschedulable = "NodeUnschedulable"

func nodeUnschedulable() *Rule {
	return &Rule{
		Name:   NodeUnschedulable,
		Part:   compile.Part{Plugin: pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE},
		Points: []framework.Point{framework.Filter},
		Hints:  cordonHints,
		Words:  cordonWords(),
	}
}

// cordonHints waits for nodes that are no longer cordoned, and for the pod to tolerate such nodes.
func cordonHints(queue.Profiles) queue.Plugin {
	return queue.Plugin{Local: true, Events: []queue.Registration{
		{Resource: queue.Node, Actions: queue.Add | queue.UpdateNodeTaint, If: isSchedulableAgain},
		{Resource: queue.AnyPod, Actions: queue.UpdatePodToleration, Helps: ownToleratesUnschedulable},
	}}
}

// isSchedulableAgain: the node may be scheduled on, and is new or might not be before.
func isSchedulableAgain(e *queue.Event) bool {
	old, now := objects[*v1.Node](e)
	return !now.Spec.Unschedulable && (old == nil || old.Spec.Unschedulable)
}

// ownToleratesUnschedulable: the pod itself tolerates nodes now that may not be scheduled
// on.
func ownToleratesUnschedulable(p *queue.Pod, e *queue.Event) bool {
	_, now := objects[*v1.Pod](e)
	return queue.IsOwn(p, e) && queue.Tolerates(now, &v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
}

func cordonWords() *Words {
	return &Words{
		Says:  []string{"node(s) were unschedulable"},
		Lacks: func(*Refused) []string { return []string{"the node is cordoned (spec.unschedulable)"} },
		Wants: func(a *Asked) []Want {
			n := a.Nodes.Cordoned()
			if a.Refused > 0 {
				n = a.Refused
			}
			return []Want{{Cause: "cordoned nodes", Detail: nodesText(n), Help: a.help(census.Cordoned)}}
		},
	}
}
