package conformance

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Shrink makes a scenario as small as it gets while its first difference stays of the
// same kind. It returns that difference; nil where the scenario never showed it.
func Shrink(ctx context.Context, s *Scenario, split Split, what string) (*Scenario, *Difference) {
	return shrink(s, func(s *Scenario) *Difference {
		r, err := run(ctx, s, split, haste)
		if err != nil || len(r.Differences) == 0 || r.Differences[0].What != what {
			return nil
		}
		return r.Differences[0]
	})
}

// shrink makes a scenario as small as it gets while show finds a difference in it.
func shrink(s *Scenario, show func(*Scenario) *Difference) (*Scenario, *Difference) {
	k := &shrinker{show: show, best: s, difference: show(s)}
	if k.difference == nil {
		return s, nil
	}
	for before := -1; k.size() != before; {
		before = k.size()
		for i := range k.best.Rounds {
			k.dropEvents(i)
		}
		k.simplify()
	}
	return k.best, k.difference
}

type shrinker struct {
	show       func(*Scenario) *Difference
	best       *Scenario
	difference *Difference
	steps      int // simplifications that held
}

// size is how much there is left to take away.
func (k *shrinker) size() int {
	n := -k.steps
	for _, r := range k.best.Rounds {
		n += len(r)
	}
	return n
}

// accept takes a scenario that shows the difference still. Objects stay such as an API server lets in.
func (k *shrinker) accept(s *Scenario) bool {
	if slices.ContainsFunc(slices.Concat(s.Rounds...), func(e Event) bool {
		pod, ok := e.Object.(*v1.Pod)
		return ok && pod.Spec.SchedulingGroup != nil && pod.Spec.SchedulingGroup.PodGroupName == nil
	}) {
		return false
	}
	d := k.show(s)
	if d != nil {
		k.best, k.difference = s, d
	}
	return d != nil
}

// dropEvents leaves out what a round can do without: halves first, single events last.
func (k *shrinker) dropEvents(round int) {
	for chunk := len(k.best.Rounds[round]); chunk > 0; chunk /= 2 {
		for at := 0; at < len(k.best.Rounds[round]); {
			s := k.best.clone()
			end := min(at+chunk, len(s.Rounds[round]))
			s.Rounds[round] = slices.Delete(s.Rounds[round], at, end)
			if !k.accept(s) {
				at = end
			}
		}
	}
}

// clone copies the scenario; the objects are shared.
func (s *Scenario) clone() *Scenario {
	out := &Scenario{Config: s.Config, PodGroups: s.PodGroups, Split: s.Split}
	for _, r := range s.Rounds {
		out.Rounds = append(out.Rounds, slices.Clone(r))
	}
	return out
}
