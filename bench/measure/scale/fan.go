package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardsched/shardsched/coordinator/fanout"
)

// Fan is what rounds to the workers took, with nothing decided: shards asked about classes that they
// have not seen, and the answers merged. All by the round where nothing else is said.
type Fan struct {
	Workers    int `json:"workers"`
	Nodes      int `json:"nodes"`
	Shards     int `json:"shards"`
	Classes    int `json:"classes"`
	Candidates int `json:"candidates"`
	// Rows are those of the worker that has the most.
	Rows            int     `json:"rowsOfLargest"`
	Rounds          int     `json:"rounds"`
	RoundsPerSecond float64 `json:"roundsPerSecond"`
	// ClassesPerSecond is what that comes to in classes: as many pods, where no two are alike.
	ClassesPerSecond  float64   `json:"classesPerSecond"`
	P50Micros         float64   `json:"p50Micros"`
	P99Micros         float64   `json:"p99Micros"`
	CoordinatorMicros float64   `json:"coordinatorCPUMicros"`
	WorkerMicros      []float64 `json:"workerCPUMicros"`
	ToWorkers         float64   `json:"toWorkersBytes"`
	FromWorkers       float64   `json:"fromWorkersBytes"`
	// Others are the cores that everybody else kept busy meanwhile.
	Others float64 `json:"othersCores"`
}

// ask asks workers for as long as limit says.
func (c *crew) ask(ctx context.Context, w *shardTables, classes, candidates int, limit time.Duration) (Fan, error) {
	term, err := c.term(ctx)
	if err != nil {
		return Fan{}, err
	}
	f := fanout.New(fanout.Config{Cluster: clusterName, Term: term, Shards: w, Dial: c.dial()})
	defer f.Close()
	f.SetMembers(c.members)
	r := Fan{Workers: len(c.members), Nodes: w.Nodes(), Shards: w.NumShards(), Classes: classes, Candidates: candidates}
	var took []time.Duration
	var busy time.Duration // of the coordinator
	round := func() error {
		requests, err := w.requests(classes, candidates)
		if err != nil {
			return err
		}
		began, used := time.Now(), selfCPU()
		results, err := f.Evaluate(ctx, requests)
		took, busy = append(took, time.Since(began)), busy+selfCPU()-used
		for _, result := range results {
			f.Recycle(result)
		}
		return err
	}
	if err := warm(f, round); err != nil {
		return Fan{}, err
	}
	took, busy = nil, 0
	r.Rows = largest(w, f.ShardOwners())
	in, out, local := c.traffic.in.Load(), c.traffic.out.Load(), f.Stats().LocalShards
	before, err := c.usage()
	if err != nil {
		return Fan{}, err
	}
	for time.Since(before.at) < limit {
		if err := round(); err != nil {
			return Fan{}, err
		}
	}
	after, err := c.usage()
	if err != nil {
		return Fan{}, err
	}
	r.Others = others(&before, &after)
	if here := f.Stats().LocalShards - local; here > 0 {
		return Fan{}, fmt.Errorf("%d shards were evaluated by the coordinator", here)
	}
	r.timed(took)
	n := float64(r.Rounds)
	r.CoordinatorMicros = micros(busy) / n
	for i := range before.workers {
		r.WorkerMicros = append(r.WorkerMicros, micros(after.workers[i]-before.workers[i])/n)
	}
	r.ToWorkers, r.FromWorkers = float64(c.traffic.out.Load()-out)/n, float64(c.traffic.in.Load()-in)/n
	return r, c.check()
}

// timed takes in how long each round took.
func (f *Fan) timed(took []time.Duration) {
	var sum time.Duration
	for _, t := range took {
		sum += t
	}
	f.Rounds, f.RoundsPerSecond = len(took), float64(len(took))/sum.Seconds()
	f.ClassesPerSecond = f.RoundsPerSecond * float64(f.Classes)
	f.P50Micros, f.P99Micros = quantile(took, 0.5), quantile(took, 0.99)
}

// warm asks until connections and memory are made, and workers have all shards.
func warm(f *fanout.Fanout, round func() error) error {
	local := uint64(0)
	for i := 0; i < warmRounds || f.Stats().LocalShards > local; i++ {
		if local = f.Stats().LocalShards; i == mostWarmRounds {
			return fmt.Errorf("the coordinator still evaluates shards after %d rounds", i)
		}
		if err := round(); err != nil {
			return err
		}
	}
	return nil
}

// warmRounds are not measured, nor those after them in which workers do not have all shards yet, up to mostWarmRounds.
const warmRounds, mostWarmRounds = 3, 100

// largest is how many rows the worker has that is asked about the most.
func largest(w *shardTables, owners [][]string) (most int) {
	rows := map[string]int{}
	for shard, list := range owners {
		rows[list[0]] += w.Table(shard).Nodes()
		most = max(most, rows[list[0]])
	}
	return most
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// quantile is in microseconds; 0 of no durations.
func quantile(took []time.Duration, q float64) float64 {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return micros(sorted[int(q*float64(len(sorted)-1)+0.5)])
}
