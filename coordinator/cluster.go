package coordinator

import "github.com/shardsched/shardsched/coordinator/objects"

// clusterSet takes an object in, neither node nor pod, that is new or changed.
func (s *Scheduler) clusterSet(now objects.Object) {
	ref := objects.RefOf(now)
	old := s.cluster[ref]
	s.cluster[ref] = now
	s.clusterObject(old, now)
}

// clusterGone takes in that an object is deleted.
func (s *Scheduler) clusterGone(last objects.Object) {
	ref := objects.RefOf(last)
	old, known := s.cluster[ref]
	if !known {
		return
	}
	delete(s.cluster, ref)
	s.clusterObject(old, nil)
}

// clusterObject is told of every change of an object that is neither node nor pod: old is
// nil where it is new, now is nil where it is gone. Pods that wait may fit after it.
func (s *Scheduler) clusterObject(old, now objects.Object) {
	_, _ = old, now
}
