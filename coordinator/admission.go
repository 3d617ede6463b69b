package coordinator

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/observe"
)

// departuresWaiting bounds how many pods wait to be read that have left before they ran. What comes beyond is not counted.
const departuresWaiting = 1024

// admission finds the pods of this leader that a kubelet did not take:
//
//	committed ──> pending ──┬─ seen to run, or to leave by a DELETE ──> forgotten
//	                        └─ gone without either ──> read ──> counted, if it ended by a kubelet's reason
//
// Informers leave out pods that have ended, and show such a pod as it was before. So it is read, one at a time and off the loop.
type admission struct {
	// pending are the pods that this leader has bound and of which no kubelet has told that they run; nil: nothing is counted, for
	// pods can't be read.
	pending map[types.UID]struct{}
	gone    chan *v1.Pod
}

func newAdmission(cfg *SchedulerConfig) admission {
	if cfg.ReadPod == nil {
		return admission{}
	}
	return admission{pending: map[types.UID]struct{}{}, gone: make(chan *v1.Pod, departuresWaiting)}
}

// bound takes in that a pod is bound to a node.
func (a *admission) bound(uid types.UID) {
	if a.pending != nil {
		a.pending[uid] = struct{}{}
	}
}

// seen takes in what a kubelet tells of a pod.
func (a *admission) seen(p *v1.Pod) {
	if p.Status.Phase != v1.PodPending && p.Status.Phase != "" {
		delete(a.pending, p.UID)
	}
}

// left takes in that a pod is gone.
func (a *admission) left(p *v1.Pod) {
	if _, ok := a.pending[p.UID]; !ok {
		return
	}
	delete(a.pending, p.UID)
	if p.DeletionTimestamp != nil || p.Status.Phase == v1.PodRunning || p.Status.Phase == v1.PodSucceeded {
		return
	}
	select {
	case a.gone <- p:
	default:
	}
}

// countRefusals reads pods that have left before they ran, until ctx ends, and has those counted that a kubelet refused.
func (s *Scheduler) countRefusals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-s.admission.gone:
			if reason := s.readRefusal(ctx, p); reason != "" {
				s.inbox.put(func() { s.metrics.KubeletRefused(reason) })
			}
		}
	}
}

// readRefusal is the label of the reason why a kubelet has refused a pod; "": none did, or nobody can tell any more.
func (s *Scheduler) readRefusal(ctx context.Context, p *v1.Pod) string {
	ctx, cancel := context.WithTimeout(ctx, arrivalPatience)
	defer cancel()
	now, err := s.cfg.ReadPod(ctx, p.Namespace, p.Name)
	if err != nil || now.UID != p.UID || now.Status.Phase != v1.PodFailed {
		return ""
	}
	return observe.KubeletRefusal(now.Status.Reason)
}
