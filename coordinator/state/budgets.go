package state

import (
	"cmp"
	"iter"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// A PodDisruptionBudget says how many of its pods may be disrupted. Preemption avoids victims beyond that number. The tables
// hold for each pod which budgets count it. Each dry run brings how many more pods each budget allows to leave.

// FollowBudgets makes an empty set of budgets. counted says that the status of budgets is computed here; else a controller
// keeps it. It is called before any pod is added.
func (s *State) FollowBudgets(counted bool) {
	s.counted = counted
	s.budgets = cluster.NewBudgets(counted, func(namespace string) iter.Seq2[*v1.Pod, bool] {
		return func(yield func(*v1.Pod, bool) bool) {
			for p := range s.In(namespace) {
				if !yield(p, true) {
					return
				}
			}
			if !counted || s.hooks.Pending == nil {
				return
			}
			for q := range s.hooks.Pending() {
				p := q.Obj
				if p.Namespace != namespace {
					p = nil
				}
				if !yield(p, false) {
					return
				}
			}
		}
	})
	s.SetBudgets(s.budgets.Of)
}

// Pend takes in a pod that waits for a node: its budgets expect it.
func (s *State) Pend(p *v1.Pod) {
	s.groups.PodSet(p, true)
	if s.counted {
		s.follow(p, false)
	}
}

// follow takes in a pod that budgets may count.
func (s *State) follow(p *v1.Pod, placed bool) {
	defer s.Untold(p, "its budgets")
	s.budgets.SetPod(p, placed)
}

// budget takes over a PodDisruptionBudget, and tells the tables which pods it counts. Where the pods are many, the tables are
// told in later turns.
func (s *State) budget(old, now objects.Object) error {
	either := cmp.Or(now, old)
	if _, ok := either.(*policyv1.PodDisruptionBudget); !ok {
		return nil
	}
	b, _ := now.(*policyv1.PodDisruptionBudget)
	for _, uid := range s.budgets.Set(either.GetNamespace(), either.GetName(), b) {
		if err := s.tellBudgets(uid); err != nil {
			return err
		}
	}
	_, err := s.budgets.Some(s.counting.AtOnce, cache.TellSteps, s.tellBudgets)
	return err
}

// tellBudgets tells the tables of a pod whose budgets have changed while the pod itself has not.
func (s *State) tellBudgets(uid types.UID) error {
	p, _, _ := s.Pod(uid)
	defer s.Untold(p, "its budgets")
	return s.tell(uid)
}
