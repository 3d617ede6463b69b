package state

import (
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// What nominated pods carry is made known once, until the nominations or the volumes change.
func TestTermsOfNominatedPodsAreMadeKnownOnce(t *testing.T) {
	s := New(1)
	p := build.Pod("shy").UID("shy").Apart(build.Around(v1.LabelHostname, "app=shy")).Obj()
	calls := 0
	observe := func() {
		calls++
		s.RegisterTerms(p, math.MaxInt)
	}
	for _, c := range []struct {
		what        string
		nominations uint64
		again       bool
		volume      bool
		want        int
	}{
		{what: "the first batch", nominations: 1, want: 1},
		{what: "nothing has changed", nominations: 1, want: 1},
		{what: "another nomination", nominations: 2, want: 2},
		{what: "a volume has come", nominations: 2, volume: true, want: 3},
		{what: "a pod is in quarantine", nominations: 2, again: true, want: 4},
		{what: "the quarantine has ended", nominations: 2, want: 5},
		{what: "nothing has changed since", nominations: 2, want: 5},
	} {
		if c.volume {
			if err := s.Change(nil, build.Volume("v", "").Obj()); err != nil {
				t.Fatal(err)
			}
		}
		s.RegisterNominated(c.nominations, c.again, observe)
		if calls != c.want || len(s.nominated) != 1 || len(s.terms) != 0 {
			t.Errorf("%s: pods were observed %d times, want %d; %d carry terms, want 1", c.what, calls, c.want, len(s.nominated))
		}
	}
}
