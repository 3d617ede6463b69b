package coordinator

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// A pod may meet a bug of ours: compiling it panics, or evaluating its class does, on a worker, on the own
// tables or in the loop. Then that attempt ends in an error, and the class, or the pod where it has none,
// is in quarantine for a while: its attempts end in the same error and nothing is evaluated. The term goes
// on. taking_in.go has objects that meet a bug while the state of the cluster takes them in.

const (
	// quarantineTime is longer than a pod's backoff, so that a bug is met rarely.
	quarantineTime = 5 * time.Minute
	// maxQuarantined bounds what is in quarantine. Beyond that all of it comes free.
	maxQuarantined = 1024
)

// Where a panic was met, for the metric.
const (
	whileCompiling  = "compile"
	whileEvaluating = "evaluate"
	whileTakingIn   = "take_in"
)

// suspect is what met a bug: a class, or a pod that has none.
type suspect struct {
	class uint64
	pod   types.UID
}

// quarantine has the suspects that are not evaluated.
type quarantine map[suspect]confinement

type confinement struct {
	until time.Time
	why   error
}

// holds is why a suspect is not evaluated; nil: it may be.
func (q quarantine) holds(x suspect, now time.Time) error {
	c, ok := q[x]
	if ok && !now.Before(c.until) {
		delete(q, x)
		ok = false
	}
	if !ok {
		return nil
	}
	return c.why
}

// quarantined is why a class is not evaluated, or the base that it is asked by; nil: it may be.
func (s *Scheduler) quarantined(c *compile.Class) error {
	if len(s.quarantine) == 0 {
		return nil
	}
	now := s.cfg.Now()
	if err := s.quarantine.holds(suspect{class: c.ID()}, now); err != nil || c.Base == nil {
		return err
	}
	return s.quarantine.holds(suspect{class: c.Base.ID()}, now)
}

// confine puts a suspect into quarantine for a panic.
func (s *Scheduler) confine(x suspect, where string, panicked any) error {
	return s.confineFor(x, s.bugs.Met(where, x.class, x.pod, panicked))
}

// confineFor puts a suspect into quarantine for an error.
func (s *Scheduler) confineFor(x suspect, why error) error {
	if len(s.quarantine) >= maxQuarantined {
		clear(s.quarantine)
	}
	err := fmt.Errorf("%w; not tried again for %s", why, quarantineTime)
	s.quarantine[x] = confinement{s.cfg.Now().Add(quarantineTime), err}
	return err
}

// observe makes known what a pod carries, but for one in quarantine. It is false where the pod brings more
// terms than most that nobody carries.
func (s *Scheduler) observe(p *v1.Pod, most int) (few bool) {
	x := suspect{pod: p.UID}
	if len(s.quarantine) > 0 && s.quarantine.holds(x, s.cfg.Now()) != nil {
		return true // it carries nothing
	}
	defer func() {
		if v := recover(); v != nil {
			s.confine(x, whileCompiling, v)
			few = true
		}
	}()
	return s.cache.observe(p, most)
}

// classOf compiles a pod, but for one in quarantine.
func (s *Scheduler) classOf(p *v1.Pod, prof *compile.Profile) (class *compile.Class, err error) {
	x := suspect{pod: p.UID}
	if len(s.quarantine) > 0 {
		if err := s.quarantine.holds(x, s.cfg.Now()); err != nil {
			return nil, err
		}
	}
	defer func() {
		if v := recover(); v != nil {
			class, err = nil, s.confine(x, whileCompiling, v)
		}
	}()
	return s.compileClass(p, prof, s.cache)
}

// looking runs what looks at nodes for a class, and changes nothing but what is held for the class. A panic
// puts the class into quarantine, and nothing of it is used again.
func (s *Scheduler) looking(c *compile.Class, look func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = s.confineClass(c, v)
		}
	}()
	look()
	return nil
}

// confineClass puts a class into quarantine for what recover has returned, and forgets what is held of it.
func (s *Scheduler) confineClass(c *compile.Class, value any) error {
	s.answers.Forget(c)
	s.candidates.Forget(c.ID())
	return s.confine(suspect{class: c.ID()}, whileEvaluating, value)
}
