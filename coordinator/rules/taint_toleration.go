package rules

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/census"
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
		Words:  taintWords(),
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

func taintWords() *Words {
	return &Words{
		Says: []string{"node(s) had untolerated taint(s)"},
		Lacks: func(r *Refused) []string {
			var out []string
			for i := range r.Node.Spec.Taints {
				if t := &r.Node.Spec.Taints[i]; keepsOff(r.Pod, t) {
					out = append(out, "taint "+t.ToString()+" is not tolerated")
				}
			}
			return out
		},
		Wants: func(a *Asked) []Want {
			var causes, counts []string
			cordoned := a.Profile.FiltersBy(pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE) && !toleratesCordon(a.Pod)
			for _, t := range a.Nodes.Taints() {
				n := t.Nodes
				if cordoned { // the cordon keeps the pod off before the taint does
					n -= t.Cordoned
				}
				if n > 0 && keepsOff(a.Pod, &t.Taint) {
					causes, counts = append(causes, t.Taint.ToString()), append(counts, nodesText(n))
				}
			}
			help := a.help(census.Tainted)
			switch len(causes) {
			case 0:
				return []Want{{Cause: "taints that are not tolerated", Help: help}}
			case 1:
				if a.Refused > 0 {
					counts[0] = nodesText(a.Refused)
				}
				return []Want{{Cause: "taint " + causes[0] + " is not tolerated", Detail: "on " + counts[0], Help: help}}
			}
			for i := range counts {
				counts[i] = causes[i] + " on " + counts[i]
			}
			return []Want{{Cause: "taints " + listed(causes) + " are not tolerated", Detail: listed(counts), Help: help}}
		},
	}
}

// keepsOff: the taint keeps the pod off the node.
func keepsOff(p *v1.Pod, t *v1.Taint) bool {
	return t.Effect != v1.TaintEffectPreferNoSchedule && !queue.Tolerates(p, t)
}
