package coordinator

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// A pod may meet a bug of ours: a panic while the pod is compiled, or while its class is evaluated on a worker, on the own
// tables or in the loop. Then the attempt ends in an error, and the class is in quarantine for a while, or the pod where it has
// no class: its attempts end in the same error, and nothing is evaluated for it. The term goes on. taking_in.go does the same
// for objects whose change panics in the state of the cluster.

const (
	// quarantineTime is longer than a pod's backoff, so that the same bug is met rarely.
	quarantineTime = 5 * time.Minute
	// maxQuarantined bounds the memory of the quarantine. With more suspects all of them are released.
	maxQuarantined = 1024
)

// Where a panic was met, for the metric.
const (
	whileCompiling  = "compile"
	whileEvaluating = "evaluate"
	whileTakingIn   = "take_in"
)

// suspect is a class that met a bug, or a pod without a class.
type suspect struct {
	class uint64
	pod   types.UID
}

// quarantine has the suspects, which are not evaluated.
type quarantine map[suspect]confinement

// confinement is how long a suspect is not evaluated, and why.
type confinement struct {
	until time.Time
	why   error
}

// holds is why a suspect is not evaluated; nil: it is evaluated. A suspect whose time is over is released.
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

// quarantined is why a class, or its base class, is not evaluated; nil: it is evaluated.
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

// observe registers the terms that a pod carries, unless the pod is in quarantine. It is false where the pod brings more than
// most terms that no other pod carries.
func (s *Scheduler) observe(p *v1.Pod, most int) (few bool) {
	x := suspect{pod: p.UID}
	if len(s.quarantine) > 0 && s.quarantine.holds(x, s.cfg.Now()) != nil {
		return true // its terms count no more
	}
	defer func() {
		if v := recover(); v != nil {
			s.confine(x, whileCompiling, v)
			few = true
		}
	}()
	return s.state.Observe(p, most)
}

// classOf compiles a pod, unless it is in quarantine.
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

// confineClass puts a class into quarantine for a recovered panic, and drops what is held for it.
func (s *Scheduler) confineClass(c *compile.Class, value any) error {
	s.answers.Forget(c)
	s.candidates.Forget(c.ID())
	return s.confine(suspect{class: c.ID()}, whileEvaluating, value)
}
