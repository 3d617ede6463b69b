package quarantine

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/scorer"
)

// Where a panic was met, for the metric.
const (
	whileCompiling  = "compile"
	whileEvaluating = "evaluate"
)

// Guard keeps a bug of ours from ending the term where a pod or a class meets it: a panic while the pod is compiled, or while its
// class is evaluated on a worker, on the own tables or in the loop. The attempt ends in an error then, and the class is in quarantine
// for a while, or the pod where it has no class: its attempts end in the same error, and nothing is evaluated for it.
type Guard struct {
	*Suspects
	// Compile compiles a pod.
	Compile func(*v1.Pod, *compile.Profile) (*compile.Class, error)
	// Register registers the terms that a pod carries. It is false where the pod brings more than most terms that no other pod
	// carries.
	Register func(p *v1.Pod, most int) (few bool)
	// Met tells of a bug, and gives the error for the attempt.
	Met func(where string, class uint64, pod types.UID, panicked any) error
	// Forget drops what is held for a class.
	Forget func(*compile.Class)
	// Unfinished tells whether what was recovered says that the evaluation of a class was stopped, and notes it.
	Unfinished func(class uint64, panicked any) bool
}

// WhyNot is why a class, or its base class, is not evaluated; nil: it is evaluated.
func (g *Guard) WhyNot(c *compile.Class) error {
	if err := g.Why(Suspect{Class: c.ID()}); err != nil || c.Base == nil {
		return err
	}
	return g.Why(Suspect{Class: c.Base.ID()})
}

// RegisterTerms is Register, unless the pod is in quarantine.
func (g *Guard) RegisterTerms(p *v1.Pod, most int) (few bool) {
	x := Suspect{Pod: p.UID}
	if g.Why(x) != nil {
		return true // its terms count no more
	}
	defer func() {
		if v := recover(); v != nil {
			g.confine(x, whileCompiling, v)
			few = true
		}
	}()
	return g.Register(p, most)
}

// ClassOf is Compile, unless the pod is in quarantine.
func (g *Guard) ClassOf(p *v1.Pod, prof *compile.Profile) (class *compile.Class, err error) {
	x := Suspect{Pod: p.UID}
	if err := g.Why(x); err != nil {
		return nil, err
	}
	defer func() {
		if v := recover(); v != nil {
			class, err = nil, g.confine(x, whileCompiling, v)
		}
	}()
	return g.Compile(p, prof)
}

// Look calls a function that looks at nodes for a class, and changes only what is held for the class. A panic confines the class.
func (g *Guard) Look(c *compile.Class, look func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = g.Confine(c, v)
		}
	}()
	look()
	return nil
}

// Confine puts a class into quarantine for a recovered panic, and drops what is held for it.
func (g *Guard) Confine(c *compile.Class, panicked any) error {
	g.Forget(c)
	return g.ConfineEvaluated(c.ID(), panicked)
}

// ConfineEvaluated puts a class into quarantine that could not be evaluated, so that nothing is held for it. That its evaluation was
// stopped is no bug.
func (g *Guard) ConfineEvaluated(class uint64, panicked any) error {
	if g.Unfinished(class, panicked) {
		return scorer.ErrUnfinished
	}
	return g.confine(Suspect{Class: class}, whileEvaluating, panicked)
}

func (g *Guard) confine(x Suspect, where string, panicked any) error {
	return g.Add(x, g.Met(where, x.Class, x.Pod, panicked))
}
