package coordinator

import (
	"context"
	"iter"

	v1 "k8s.io/api/core/v1"
)

func (s *Scheduler) findVictims(context.Context, *attempt, *pick) (node string, victims []*v1.Pod, why string, err error) {
	return "", nil, fitError(s.cache.Nodes(), nil), nil
}

func podsOn(*Scheduler, string) iter.Seq[*v1.Pod] { return func(func(*v1.Pod) bool) {} }
