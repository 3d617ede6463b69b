package oracle

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// nominations are the waiting pods that room is kept for, each on the node that its
// status.nominatedNodeName tells, in the order in which they came. It is the nominator
// of every framework; what it is not asked for, it does not have.
type nominations struct {
	fwk.PodNominator
	pods []*v1.Pod
	// queued tells whether a pod is in the queue: upstream nominates no other.
	queued func(*v1.Pod) bool
}

func (n *nominations) add(pod *v1.Pod) {
	if pod.Status.NominatedNodeName != "" && n.queued(pod) {
		n.pods = append(n.pods, pod)
	}
}

// withdraw takes a nomination back.
func (n *nominations) withdraw(uid types.UID) {
	n.pods = slices.DeleteFunc(n.pods, func(p *v1.Pod) bool { return p.UID == uid })
}

// others tells whether room is kept, on any node, for pods other than one.
func (n *nominations) others(uid types.UID) bool {
	return slices.ContainsFunc(n.pods, func(p *v1.Pod) bool { return p.UID != uid })
}

// NominatedPodsForNode are the pods that room is kept for on a node.
func (n *nominations) NominatedPodsForNode(node string) (out []fwk.PodInfo) {
	for _, p := range n.pods {
		if p.Status.NominatedNodeName != node {
			continue
		}
		// Terms that can't be read count as none, as upstream has it.
		info, _ := framework.NewPodInfo(p.DeepCopy())
		out = append(out, info)
	}
	return out
}
