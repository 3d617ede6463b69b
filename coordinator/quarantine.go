package coordinator

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/scorer/scan"
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
	whileHinting    = "hint"
	whileTakingIn   = "take_in"
	whileInPlugin   = "plugin"
	whileReading    = "read"
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

// met tells of a bug that a suspect met, or a read that is about none, and gives the error for whoever asked.
func (s *Scheduler) met(x suspect, where string, panicked any) error {
	p := scan.Recovered(panicked)
	s.metrics.panics(where).Inc()
	klog.FromContext(s.life).Error(p, "The scheduler met a bug of its own", "where", where, "class", x.class, "podUID", x.pod, "stack", string(p.Stack))
	return fmt.Errorf("the scheduler met a bug of its own (%s): %w", where, p)
}

// hintMet tells of a bug that a plugin's hint met, the log once a plugin: the hint is asked again with every event.
func (s *Scheduler) hintMet(plugin string, p *queue.Pod, panicked any) {
	s.metrics.panics(whileHinting).Inc()
	if _, told := s.hintsMet[plugin]; told {
		return
	}
	s.hintsMet[plugin] = struct{}{}
	why, about := scan.Recovered(panicked), klog.ObjectRef{}
	if p != nil {
		about = klog.KObj(p.Obj)
	}
	klog.FromContext(s.life).Error(why, "A queueing hint met a bug: from now on that counts as if an event helps", "plugin", plugin, "pod", about, "stack", string(why.Stack))
}

// pluginMet tells of an out-of-tree plugin that has panicked, on any goroutine: the log once a plugin and point, for the error of
// each attempt says it, too.
func (s *Scheduler) pluginMet(plugin, point string, why *scan.Panic) {
	s.metrics.panics(whileInPlugin).Inc()
	if _, told := s.pluginsMet.LoadOrStore([2]string{plugin, point}, nil); !told {
		klog.FromContext(s.life).Error(why, "A plugin met a bug", "plugin", plugin, "point", point, "stack", string(why.Stack))
	}
}

// confine puts a suspect into quarantine for a panic.
func (s *Scheduler) confine(x suspect, where string, panicked any) error {
	return s.confineFor(x, s.met(x, where, panicked))
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
