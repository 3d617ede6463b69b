package coordinator

import (
	"context"
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/preempt"
)

func (s *Scheduler) findVictims(context.Context, *attempt, *pick) (node string, victims []*v1.Pod, why string, err error) {
	return "", nil, fitError(s.cache.Nodes(), nil), nil
}

func (s *Scheduler) guestPostFilter(context.Context, string, *attempt, *pick) (preempt.Verdict, error) {
	return preempt.Verdict{}, nil
}

func (s *Scheduler) callOff(types.UID, string) bool { return false }

func podsOn(*Scheduler, string) iter.Seq[*v1.Pod] { return func(func(*v1.Pod) bool) {} }
