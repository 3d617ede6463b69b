package tune

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// limits are those of full batches.
var limits = Limits{MinAhead: 1, MaxAhead: 2, MinClasses: 8, MaxClasses: 128}

// run has batches cost what cost says of their ways, give or take a fifth, and now and then ten times as much.
func run(t *Tuner, batches int, cost func(Way) time.Duration) (total time.Duration) {
	r := rand.New(rand.NewPCG(1, 2))
	for range batches {
		w := t.Way()
		took := time.Duration(float64(cost(w)) * (0.8 + 0.4*r.Float64()))
		if r.IntN(20) == 0 {
			took *= 10
		}
		t.Took(w.Classes, took*time.Duration(w.Classes))
		total += took
	}
	return total
}

// The way that costs the least is found from any other, and what was tried on the way there costs little in the end.
func TestTheCheapestWayIsFound(t *testing.T) {
	for name, x := range map[string]struct {
		cost func(Way) time.Duration
		want Way
	}{
		"own tables": {func(w Way) time.Duration {
			if w.Own {
				return 50 * time.Microsecond
			}
			return 100 * time.Microsecond
		}, Way{Own: true, Classes: 16}},
		"deep, and long batches, as where workers are far": {func(w Way) time.Duration {
			if w.Own {
				return 500 * time.Microsecond
			}
			return time.Duration(int(2*time.Millisecond) / w.Ahead / w.Classes)
		}, Way{Ahead: 2, Classes: 128}},
		"short batches": {func(w Way) time.Duration {
			if w.Own {
				return 300 * time.Microsecond
			}
			return time.Duration(w.Ahead*w.Classes+20) * time.Microsecond
		}, Way{Ahead: 1, Classes: 8}},
		"all the same": {func(Way) time.Duration { return 100 * time.Microsecond }, Way{Ahead: 1, Classes: 16}},
	} {
		t.Run(name, func(t *testing.T) {
			tuner := New(Way{Ahead: 1, Classes: 16}, limits)
			tuner.See(Cluster{Workers: 2, Nodes: 1000})
			run(tuner, 8000, x.cost)
			if got := tuner.inUse; x.cost(got) > x.cost(x.want) {
				t.Errorf("got %+v, want %+v", got, x.want)
			}
			const batches = 40_000
			best, took := run(&Tuner{inUse: x.want}, batches, x.cost), run(tuner, batches, x.cost)
			if took > best*11/10 {
				t.Errorf("later batches took %v, want at most a tenth more than %v", took, best)
			}
		})
	}
}

// Once costs change, or the cluster does, other ways are tried soon.
func TestCostsThatChange(t *testing.T) {
	workers := func(w Way) time.Duration {
		if w.Own {
			return 400 * time.Microsecond
		}
		return 100 * time.Microsecond
	}
	slow := func(w Way) time.Duration {
		if w.Own {
			return 400 * time.Microsecond
		}
		return time.Millisecond
	}
	tuner := New(Way{Ahead: 1, Classes: 16}, limits)
	tuner.See(Cluster{Workers: 4, Nodes: 50_000})
	run(tuner, 100_000, workers)
	if tuner.inUse.Own || tuner.pause < maxPause/2 {
		t.Fatalf("got %+v, and a pause of %d, want workers, and a pause of %d", tuner.inUse, tuner.pause, maxPause)
	}
	run(tuner, 2000, slow)
	if !tuner.inUse.Own {
		t.Errorf("workers became slow: got %+v, want own tables", tuner.inUse)
	}
	tuner.See(Cluster{Workers: 8, Nodes: 50_000})
	if got := tuner.Choices(); len(got) > 0 {
		t.Errorf("more workers: got %+v, want that nothing of before counts", got)
	}
	run(tuner, 2000, workers)
	if tuner.inUse.Own {
		t.Errorf("more workers, that are fast: got %+v, want workers", tuner.inUse)
	}
	tuner.See(Cluster{Workers: 8, Nodes: 60_000})
	if got := tuner.Choices(); len(got) < 2 || !got[0].InUse || got[1].InUse || !slices.IsSortedFunc(got[1:], func(a, b Choice) int {
		return int(a.Cost - b.Cost)
	}) {
		t.Errorf("a fifth more nodes: got %+v, want the way in use first, then others, the cheaper first", got)
	}
}

// Without workers there is nothing to try.
func TestWithoutWorkers(t *testing.T) {
	first := Way{Ahead: 1, Classes: 16}
	tuner := New(first, limits)
	tuner.See(Cluster{Nodes: 1000})
	if run(tuner, 2000, func(Way) time.Duration { return time.Millisecond }); tuner.Way() != first || len(tuner.Choices()) > 0 {
		t.Errorf("got %+v, %+v, want the first way", tuner.Way(), tuner.Choices())
	}
}
