package coordinator

import (
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/scorer"
)

// PodDisruptionBudgets say which victims of preemption there had better not be. The tables know of
// each pod which budgets count it; how many each allows is told with every dry run.

// followBudgets makes an empty set of budgets. counted says that nobody else keeps their status.
// It is called before any pod is put in.
func (w *picture) followBudgets(counted bool) {
	w.counted = counted
	w.budgets = cluster.NewBudgets(counted, func(namespace string, f func(*v1.Pod, bool)) {
		if counted && w.pending != nil {
			w.pending(namespace, func(p *v1.Pod) { f(p, false) })
		}
		w.EachIn(namespace, func(p *v1.Pod) { f(p, true) })
	})
	w.SetBudgets(w.budgets.Of)
}

// pend takes in a pod that waits for a node: it is one of those that its budgets expect.
func (w *picture) pend(p *v1.Pod) {
	if w.counted {
		w.follow(p, false)
	}
}

// follow takes in a pod that budgets may count.
func (w *picture) follow(p *v1.Pod, placed bool) {
	defer w.Untold(p, "its budgets")
	w.budgets.SetPod(p, placed)
}

// budget takes over a PodDisruptionBudget, and tells the tables of the pods that it concerns.
func (w *picture) budget(old, now objects.Object) error {
	either := now
	if either == nil {
		either = old
	}
	if _, ok := either.(*policyv1.PodDisruptionBudget); !ok {
		return nil
	}
	b, _ := now.(*policyv1.PodDisruptionBudget)
	for _, uid := range w.budgets.Set(either.GetNamespace(), either.GetName(), b) {
		if err := w.tell(uid); err != nil {
			return err
		}
	}
	return nil
}

// pendingIn calls f for the pending pods of a namespace.
func (s *Scheduler) pendingIn(namespace string, f func(*v1.Pod)) {
	s.queue.Each(func(p *queue.Pod) {
		if p.Obj.Namespace == namespace {
			f(p.Obj)
		}
	})
}

// budgets is how many pods of each budget may leave.
func (s *Scheduler) budgets() []scorer.Budget { return s.cache.budgets.Allowed() }
