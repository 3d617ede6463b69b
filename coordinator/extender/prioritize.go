package extender

import (
	"context"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// scale takes an extender's scores, of up to 10, to those of plugins, of up to 100.
const scale = fwk.MaxScore / extenderv1.MaxExtenderPriority

// Scores asks how good each node is for a pod. What an extender without that verb says is that
// they are all the same.
func (e *Extender) Scores(ctx context.Context, pod *v1.Pod, nodes []*v1.Node) (extenderv1.HostPriorityList, error) {
	if !e.IsPrioritizer() {
		out := make(extenderv1.HostPriorityList, len(nodes))
		for i, n := range nodes {
			out[i].Host = n.Name
		}
		return out, nil
	}
	var answer extenderv1.HostPriorityList
	if err := e.send(ctx, Prioritize, e.question(pod, nodes), &answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// Weigh is what a score adds to a node's total. A score is not held to its range, as in upstream.
func (e *Extender) Weigh(score int64) int64 { return score * e.weight * scale }
