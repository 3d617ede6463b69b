package scan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/scorer"
)

// poisoned makes a pool panic at the class with the highest id.
func poisoned(p *Pool, list []Ask) *Pool {
	bad := list[len(list)-1].Class.ID()
	p.Before = func(c *scorer.Class) {
		if c.ID() == bad {
			panic("poison")
		}
	}
	return p
}

func wantPanic(t *testing.T, err error) {
	t.Helper()
	var p *Panic
	if !errors.As(err, &p) || p.Value != "poison" || !strings.Contains(string(p.Stack), "panic_test.go") {
		t.Errorf("error of the class that panics: want a panic with its stack, got %v", err)
	}
}

// A class that panics fails by itself, on whatever goroutine, and the pool is as before.
func TestAPanicFailsItsClassAlone(t *testing.T) {
	tabs, all := tables(t, 8, 900), asks(t, 6)
	healthy, bad := all[:5], all[5]
	want := make([]Answer, len(healthy))
	if err := NewPool(1, clock.RealClock{}).Run(t.Context(), tabs, healthy, want); err != nil {
		t.Fatal(err)
	}
	p := poisoned(NewPool(4, clock.RealClock{}), all)
	for at := range all {
		list := slices.Insert(slices.Clone(healthy), at, bad)
		got := make([]Answer, len(list))
		if err := p.Run(t.Context(), tabs, list, got); err != nil {
			t.Fatal(err)
		}
		wantPanic(t, got[at].Result.Failed)
		if diff := cmp.Diff(protos(want), protos(slices.Delete(got, at, at+1)), protocmp.Transform()); diff != "" {
			t.Errorf("answers of the others (-without +with the class that panics):\n%s", diff)
		}
	}
	if got := len(p.idle); got != p.Cores() {
		t.Errorf("got %d idle hands at the end, want %d", got, p.Cores())
	}
}

func TestAPanicFailsItsDryRunAlone(t *testing.T) {
	tabs, all := tables(t, 8, 900), asks(t, 2)
	var list []PreemptAsk
	for _, a := range all {
		list = append(list, PreemptAsk{Class: a.Class, Preemption: &scorer.Preemption{Priority: 5, All: 3}})
	}
	want := make([]scorer.PreemptionResult, 1)
	if err := NewPool(1, clock.RealClock{}).RunPreempt(t.Context(), tabs, list[:1], want); err != nil {
		t.Fatal(err)
	}
	p, got := poisoned(NewPool(4, clock.RealClock{}), all), make([]scorer.PreemptionResult, 2)
	if err := p.RunPreempt(t.Context(), tabs, list, got); err != nil {
		t.Fatal(err)
	}
	wantPanic(t, got[1].Failed)
	if diff := cmp.Diff(want[0].Proto(), got[0].Proto(), protocmp.Transform()); diff != "" {
		t.Errorf("the other (-without +with the dry run that panics):\n%s", diff)
	}
	if got := len(p.idle); got != p.Cores() {
		t.Errorf("got %d idle hands at the end, want %d", got, p.Cores())
	}
}
