package coordinator

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/store"
)

// event takes one change of an object in.
func (s *Scheduler) event(e *store.Event) {
	gone := e.Type == store.Deleted
	switch e.Kind {
	case objects.KindNode:
		if gone {
			s.nodeGone(e.Node)
		} else {
			s.nodeSet(e.Node)
		}
	case objects.KindPod:
		if gone || compile.IsTerminal(e.Pod) {
			s.podGone(e.Pod)
		} else {
			s.podSet(e.Pod)
		}
	}
}

func (s *Scheduler) nodeSet(n *v1.Node) {
	old, err := s.cache.SetNode(n)
	if err != nil {
		s.fail(err)
		return
	}
	if old == nil {
		s.queue.Move(queue.NodeAdded(n))
		return
	}
	for _, e := range queue.NodeUpdated(old, n) {
		s.queue.Move(e)
	}
}

func (s *Scheduler) nodeGone(n *v1.Node) {
	old, err := s.cache.RemoveNode(n.Name)
	if err != nil {
		s.fail(err)
		return
	}
	if old != nil {
		s.queue.Move(queue.NodeDeleted(old))
	}
}

// podSet takes a pod in that is new or changed.
func (s *Scheduler) podSet(p *v1.Pod) {
	if p.Spec.NodeName != "" {
		s.seen(p)
		return
	}
	if s.cfg.Profiles[p.Spec.SchedulerName] == nil {
		return
	}
	if promised, ok := s.binding[p.UID]; ok {
		promised.newest = p
		return
	}
	if s.queue.Has(p.UID) {
		delete(s.hopeless, p.UID)
		s.queue.Update(p)
		return
	}
	s.arrivals[p.UID] = s.cfg.Now()
	s.queue.Add(p)
}

// seen takes a pod in that is on its node.
func (s *Scheduler) seen(p *v1.Pod) {
	_, _, assumed := s.cache.Pod(p.UID)
	old, err := s.cache.SetPod(p)
	if err != nil {
		s.fail(fmt.Errorf("take in pod %s/%s: %w", p.Namespace, p.Name, err))
		return
	}
	s.queue.Delete(p.UID)
	delete(s.hopeless, p.UID)
	if old != nil {
		for _, e := range queue.AssignedPodUpdated(old, p) {
			s.queue.Move(e)
		}
		return
	}
	if !assumed {
		s.tally.present++
	}
	s.queue.Move(queue.AssignedPodAdded(p))
}

// podGone takes in that a pod is deleted or has ended.
func (s *Scheduler) podGone(p *v1.Pod) {
	old, node, err := s.cache.RemovePod(p.UID)
	if err != nil {
		s.fail(err)
		return
	}
	delete(s.binding, p.UID)
	delete(s.arrivals, p.UID)
	delete(s.hopeless, p.UID)
	delete(s.decisions, p.UID)
	if s.queue.Has(p.UID) {
		s.queue.Delete(p.UID)
		s.journal.put(p.UID, nil)
	}
	if old != nil {
		s.queue.Move(queue.AssignedPodDeleted(withNode(old, node)))
	}
}
