package quarantine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// errStopped is what an evaluation ends with that was stopped.
var errStopped = errors.New("stopped")

// newGuard makes a guard whose compiler panics for the pod "bad". It counts calls of the compiler, and classes that were forgotten.
func newGuard(now func() time.Time) (g *Guard, compiled *int, forgotten *[]uint64) {
	compiled, forgotten = new(int), new([]uint64)
	return &Guard{
		Suspects: NewSuspects(now),
		Compile: func(p *v1.Pod, _ *compile.Profile) (*compile.Class, error) {
			*compiled++
			if p.Name == "bad" {
				panic("bug")
			}
			return &compile.Class{}, nil
		},
		Register:   func(*v1.Pod, int) bool { panic("bug") },
		Met:        func(where string, _ uint64, _ types.UID, v any) error { return fmt.Errorf("%s: %v", where, v) },
		Forget:     func(c *compile.Class) { *forgotten = append(*forgotten, c.ID()) },
		Unfinished: func(_ uint64, v any) bool { return v == errStopped },
	}, compiled, forgotten
}

// A pod that meets a bug is not compiled again before its time is over, and its terms count no more.
func TestAPodThatMeetsABugIsNotCompiledAgain(t *testing.T) {
	now := time.Unix(0, 0)
	g, compiled, _ := newGuard(func() time.Time { return now })
	bad := build.Pod("bad").Obj()
	for range 2 {
		if _, err := g.ClassOf(bad, nil); err == nil || !strings.HasPrefix(err.Error(), "compile: bug") {
			t.Errorf("got %v, want the bug", err)
		}
	}
	if *compiled != 1 {
		t.Errorf("compiled %d times, want once", *compiled)
	}
	if !g.RegisterTerms(bad, 1) {
		t.Error("the terms of a pod in quarantine are too many, want them left out")
	}
	now = now.Add(Time)
	if _, err := g.ClassOf(bad, nil); err == nil || *compiled != 2 {
		t.Errorf("after its time: got %v in call %d, want the bug in the second", err, *compiled)
	}
	if other := build.Pod("other").Obj(); !g.RegisterTerms(other, 1) || g.Why(Suspect{Pod: other.UID}) == nil {
		t.Error("a pod whose terms panic is not in quarantine")
	}
}

// A class that meets a bug is forgotten and not evaluated, nor are those that share its answer. One whose evaluation was stopped is
// forgotten, and is no suspect.
func TestAClassThatMeetsABugIsNotEvaluated(t *testing.T) {
	g, _, forgotten := newGuard(func() time.Time { return time.Unix(0, 0) })
	class := func(id uint64) *compile.Class { return &compile.Class{Query: &pb.Query{ClassId: id}} }
	bad, stopped, view := class(1), class(2), class(3)
	view.Base = bad
	if err := g.Look(bad, func() { panic("bug") }); err == nil || !strings.HasPrefix(err.Error(), "evaluate: bug") {
		t.Errorf("got %v, want the bug", err)
	}
	if err := g.Look(stopped, func() { panic(errStopped) }); err != scorer.ErrUnfinished {
		t.Errorf("stopped: got %v, want %v", err, scorer.ErrUnfinished)
	}
	if fmt.Sprint(*forgotten) != "[1 2]" {
		t.Errorf("forgotten are %d, want both", *forgotten)
	}
	for c, want := range map[*compile.Class]bool{bad: true, view: true, stopped: false} {
		if err := g.WhyNot(c); (err != nil) != want {
			t.Errorf("class %d: got %v, in quarantine is %v", c.ID(), err, want)
		}
	}
}
