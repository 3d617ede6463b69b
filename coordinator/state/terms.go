package state

import (
	v1 "k8s.io/api/core/v1"
)

// BatchTerms is how many new affinity terms, which no other pod carries, a batch may bring. Each is matched with all pods of
// the batch, so the work grows with both. Pods of one workload bring the same terms: usually one to three.
const BatchTerms = 32

// RegisterTerms registers the terms that a pod carries, until the next batch has registered its own. It comes before the batch is
// compiled, because the pod may share a node with any pod of it. It is false where the pod brings more than most new terms;
// these count once the pod is placed.
func (s *State) RegisterTerms(p *v1.Pod, most int) bool {
	s.volumes.CountDrivers(p)
	c, brings, few := s.counters.CarryFew(p, most)
	if c != nil {
		s.terms = append(s.terms, c)
		s.mayBring -= min(brings, s.mayBring)
	}
	return few
}

// MayBring is how many more new terms the batch may bring.
func (s *State) MayBring() int { return s.mayBring }

// BeginTerms opens a batch. The terms of the batch before stay registered until end is called, so that
// terms of both batches are not dropped and made again.
func (s *State) BeginTerms() (end func()) {
	before := s.terms
	s.terms, s.mayBring = nil, BatchTerms
	return func() {
		for _, c := range before {
			s.counters.Release(c)
		}
	}
}

// RegisterNominated registers the terms of nominated pods, which register passes to RegisterTerms. They stay registered until the
// nominations or the volumes change; with again only until the next call.
func (s *State) RegisterNominated(nominations uint64, again bool, register func()) {
	if s.nominations == nominations && s.storage == s.volumes.Version() && !again {
		return
	}
	others, before := s.terms, s.nominated
	s.terms = nil
	register()
	s.nominated, s.terms = s.terms, others
	s.nominations, s.storage = nominations, s.volumes.Version()
	if again {
		s.nominations = 0
	}
	for _, c := range before {
		s.counters.Release(c)
	}
}
