package coordinator

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/quarantine"
	"github.com/shardsched/shardsched/scorer"
)

// A pod may meet a bug of ours: a panic while the pod is compiled, or while its class is evaluated on a worker, on the own
// tables or in the loop. Then the attempt ends in an error, and the class is in quarantine for a while, or the pod where it has
// no class: its attempts end in the same error, and nothing is evaluated for it. The term goes on. Package intake does the same
// for objects whose change panics in the state of the cluster.

// Where a panic was met, for the metric.
const (
	whileCompiling  = "compile"
	whileEvaluating = "evaluate"
)

// quarantined is why a class, or its base class, is not evaluated; nil: it is evaluated.
func (s *Scheduler) quarantined(c *compile.Class) error {
	if err := s.suspects.Why(quarantine.Suspect{Class: c.ID()}); err != nil || c.Base == nil {
		return err
	}
	return s.suspects.Why(quarantine.Suspect{Class: c.Base.ID()})
}

// confine puts a suspect into quarantine for a panic.
func (s *Scheduler) confine(x quarantine.Suspect, where string, panicked any) error {
	return s.suspects.Add(x, s.bugs.Met(where, x.Class, x.Pod, panicked))
}

// registerTerms registers the terms that a pod carries, unless the pod is in quarantine. It is false where the pod brings more than
// most terms that no other pod carries.
func (s *Scheduler) registerTerms(p *v1.Pod, most int) (few bool) {
	x := quarantine.Suspect{Pod: p.UID}
	if s.suspects.Why(x) != nil {
		return true // its terms count no more
	}
	defer func() {
		if v := recover(); v != nil {
			s.confine(x, whileCompiling, v)
			few = true
		}
	}()
	return s.state.RegisterTerms(p, most)
}

// classOf compiles a pod, unless it is in quarantine.
func (s *Scheduler) classOf(p *v1.Pod, prof *compile.Profile) (class *compile.Class, err error) {
	x := quarantine.Suspect{Pod: p.UID}
	if err := s.suspects.Why(x); err != nil {
		return nil, err
	}
	defer func() {
		if v := recover(); v != nil {
			class, err = nil, s.confine(x, whileCompiling, v)
		}
	}()
	return s.compileClass(p, prof, s.state)
}

// guardClass runs a function that looks at nodes for a class, and changes only what is held for the class. A panic puts
// the class into quarantine, and drops what is held for it.
func (s *Scheduler) guardClass(c *compile.Class, look func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = s.confineClass(c, v)
		}
	}()
	look()
	return nil
}

// confineClass puts a class into quarantine for a recovered panic, and drops what is held for it. That not all is found for the
// class is no bug.
func (s *Scheduler) confineClass(c *compile.Class, value any) error {
	s.answers.Forget(c)
	s.preempt.Forget(c.ID())
	if isUnfinished(value) {
		s.noteUnfinished(c.ID())
		return scorer.ErrUnfinished
	}
	return s.confine(quarantine.Suspect{Class: c.ID()}, whileEvaluating, value)
}
