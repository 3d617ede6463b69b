package oracle

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// nominations are the waiting pods that room is kept for. Who that is, upstream's own queue
// tells: a pod that gates hold back is not nominated when it comes, and is when it is
// updated. No pod is ever popped from it. It is the nominator of every framework; what it
// is not asked for, it does not have.
type nominations struct {
	fwk.PodNominator
	queue *queue.PriorityQueue
	// pods are all that there are, as upstream's queue looks them up.
	pods cache.Indexer
	// nodes are those that pods were nominated to.
	nodes map[string]bool
}

// open makes the queue, with the gates of the profiles.
func (n *nominations) open(o *Oracle) {
	gates, hints := map[string]map[string]fwk.PreEnqueuePlugin{}, queue.QueueingHintMapPerProfile{}
	for name, p := range o.profiles {
		gates[name], hints[name] = map[string]fwk.PreEnqueuePlugin{}, queue.QueueingHintMap{}
		for _, plugin := range p.PreEnqueuePlugins() {
			gates[name][plugin.Name()] = plugin
		}
	}
	informers := o.objects.informers
	n.nodes = map[string]bool{}
	n.pods = informers.Core().V1().Pods().Informer().GetIndexer()
	n.queue = queue.NewPriorityQueue(o.first.QueueSortFunc(), informers,
		queue.WithPreEnqueuePluginMap(gates), queue.WithQueueingHintMapPerProfile(hints))
}

// set takes in a pod that is pending; old is how it was before, nil: not there.
func (n *nominations) set(old, now *v1.Pod) error {
	if err := n.pods.Update(now); err != nil {
		return err
	}
	n.nodes[now.Status.NominatedNodeName] = true
	ctx := klog.NewContext(context.Background(), quiet())
	if old == nil {
		n.queue.Add(ctx, now)
	} else {
		n.queue.Update(ctx, old, now)
	}
	return nil
}

// placed takes in that a pod is on a node, and no longer pending.
func (n *nominations) placed(pod *v1.Pod) error {
	n.queue.Delete(pod)
	return n.pods.Update(pod)
}

// remove takes in that a pod is gone.
func (n *nominations) remove(pod *v1.Pod) error {
	n.queue.Delete(pod)
	return n.pods.Delete(pod)
}

// withdraw takes a nomination back, as upstream does after an error.
func (n *nominations) withdraw(pod *v1.Pod) {
	info, _ := framework.NewPodInfo(pod) // terms that can't be read count as none
	n.queue.AddNominatedPod(quiet(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride})
}

// others tells whether room is kept, on any node, for pods other than one.
func (n *nominations) others(uid types.UID) bool {
	for node := range n.nodes {
		for _, p := range n.queue.NominatedPodsForNode(node) {
			if node != "" && p.GetPod().UID != uid {
				return true
			}
		}
	}
	return false
}

// NominatedPodsForNode are the pods that room is kept for on a node.
func (n *nominations) NominatedPodsForNode(node string) []fwk.PodInfo {
	return n.queue.NominatedPodsForNode(node)
}

// suspend takes a nomination back for as long as the pod is tried with its pod group, and resume brings it again.
func (n *nominations) suspend(pod *v1.Pod) { n.queue.DeleteNominatedPodIfExists(pod) }

func (n *nominations) resume(pod *v1.Pod) {
	if node := pod.Status.NominatedNodeName; node != "" {
		info, _ := framework.NewPodInfo(pod) // terms that can't be read count as none
		n.queue.AddNominatedPod(quiet(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
	}
}
