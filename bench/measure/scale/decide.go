package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/fanout"
	kinds "github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Decide is what deciding pods took: the scheduling loop in this process, its workers in others. By
// the pod where nothing else is said.
type Decide struct {
	Workers int `json:"workers"`
	Nodes   int `json:"nodes"`
	Shards  int `json:"shards"`
	// Rows are those of the worker that has the most.
	Rows int `json:"rowsOfLargest"`
	Pods int `json:"pods"`
	// PerSecond is by the wall clock.
	PerSecond         float64   `json:"decidedPerSecond"`
	CoordinatorMicros float64   `json:"coordinatorCPUMicros"`
	WorkerMicros      []float64 `json:"workerCPUMicros"`
	// FanMicros is how long the loop waited for the workers' merged answers.
	FanMicros   float64 `json:"fanMicros"`
	ToWorkers   float64 `json:"toWorkersBytes"`
	FromWorkers float64 `json:"fromWorkersBytes"`
	// Batches and Rounds are all of the run.
	Batches float64 `json:"batches"`
	Rounds  float64 `json:"rounds"`
	// Others are the cores that everybody else kept busy meanwhile.
	Others float64 `json:"othersCores"`
}

// loop is a scheduler that binds nothing, with workers.
type loop struct {
	*coordinator.Scheduler
	registry *prometheus.Registry
	group    *errgroup.Group
	stop     context.CancelFunc
}

// newLoop starts a scheduler that knows all but the pods that wait, and has its workers warm.
func (c *crew) newLoop(ctx context.Context, o objects, shards int, config fanout.Config) (*loop, error) {
	l := &loop{registry: prometheus.NewRegistry()}
	config.Dial = c.dial()
	term, err := c.term(ctx)
	if err != nil {
		return nil, err
	}
	l.Scheduler, err = coordinator.NewScheduler(coordinator.SchedulerConfig{
		Cluster: clusterName, Term: term, Shards: shards, Registerer: l.registry, Fanout: config,
	})
	if err != nil {
		return nil, err
	}
	l.SetMembers(c.members)
	l.Load(&kinds.Snapshot{Nodes: o.nodes, Pods: o.placed}, nil)
	ctx, l.stop = context.WithCancel(ctx)
	l.group, ctx = errgroup.WithContext(ctx)
	l.group.Go(func() error { return l.Run(ctx) })
	first := build.Pod("first").Namespace("first").CPU("50m").Memory("50Mi").Obj()
	if err := l.decide(ctx, []*v1.Pod{first}); err != nil {
		return nil, errors.Join(err, l.end())
	}
	return l, nil
}

// decide delivers pods and waits until they are decided.
func (l *loop) decide(ctx context.Context, pods []*v1.Pod) error {
	events := make([]kinds.Event, len(pods))
	for i, p := range pods {
		events[i] = kinds.Event{Type: kinds.Added, Kind: kinds.KindPod, Pod: p}
	}
	l.Deliver(events)
	return l.Idle(ctx)
}

func (l *loop) end() error {
	l.stop()
	if err := l.group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("scheduler: %w", err)
	}
	return nil
}

// sum is a metric's value over its labels; of a histogram, the sum of what it has seen, and how often.
func (l *loop) sum(name string) (sum, count float64, err error) {
	families, err := l.registry.Gather()
	if err != nil {
		return 0, 0, err
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			count += float64(m.GetHistogram().GetSampleCount())
		}
		return sum, count, nil
	}
	return 0, 0, fmt.Errorf("there is no metric %s", name)
}

// reading is how far a loop and its workers are.
type reading struct {
	at                   time.Time
	self                 time.Duration
	workers              []time.Duration
	in, out              int64
	busy                 time.Duration // of all cores, with everybody
	decisions            uint64
	fan, rounds, batches float64
}

func (c *crew) read(ctx context.Context, l *loop) (r reading, err error) {
	summary, err := l.Progress(ctx)
	if err != nil {
		return r, err
	}
	r.decisions = summary.GetDecisions()
	var e1, e2, e3 error
	r.fan, _, e1 = l.sum("shardsched_fanout_evaluation_duration_seconds")
	r.rounds, _, e2 = l.sum("shardsched_fanout_rounds_total")
	_, r.batches, e3 = l.sum("shardsched_batch_pods")
	if err := errors.Join(e1, e2, e3); err != nil {
		return r, err
	}
	r.in, r.out = c.traffic.in.Load(), c.traffic.out.Load()
	r.workers, err = c.cpu()
	r.self, r.busy, r.at = selfCPU(), machineCPU(), time.Now()
	return r, err
}

// decide has pods decided until all are or the limit is over.
func (c *crew) decide(ctx context.Context, o objects, shards int, limit time.Duration) (d Decide, err error) {
	l, err := c.newLoop(ctx, o, shards, fanout.Config{})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, l.end()) }()
	d = Decide{Workers: len(c.members), Nodes: len(o.nodes), Shards: shards}
	if d.Rows, err = l.largest(ctx); err != nil {
		return d, err
	}
	warm := min(warmPods, len(o.pods)/2)
	if err := l.decide(ctx, o.pods[:warm]); err != nil {
		return d, err
	}
	before, err := c.read(ctx, l)
	if err != nil {
		return d, err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := l.decide(limited, o.pods[warm:]); err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return d, err
	}
	after, err := c.read(ctx, l)
	if err != nil {
		return d, err
	}
	d.Pods = int(after.decisions - before.decisions)
	if d.Pods == 0 {
		return d, fmt.Errorf("no pod was decided within %v", limit)
	}
	n := float64(d.Pods)
	d.PerSecond = n / after.at.Sub(before.at).Seconds()
	d.Others = others(before.at, after.at, after.busy-before.busy, after.self-before.self, before.workers, after.workers)
	d.CoordinatorMicros = micros(after.self-before.self) / n
	for i := range before.workers {
		d.WorkerMicros = append(d.WorkerMicros, micros(after.workers[i]-before.workers[i])/n)
	}
	d.FanMicros = 1e6 * (after.fan - before.fan) / n
	d.ToWorkers, d.FromWorkers = float64(after.out-before.out)/n, float64(after.in-before.in)/n
	d.Batches, d.Rounds = after.batches-before.batches, after.rounds-before.rounds
	return d, c.check()
}

// largest is how many rows the worker has that is asked about the most.
func (l *loop) largest(ctx context.Context) (most int, err error) {
	shards, err := l.Shards(ctx)
	rows := map[string]int{}
	for _, s := range shards {
		if len(s.GetWorkers()) > 0 {
			first := s.GetWorkers()[0]
			rows[first] += int(s.GetNodes())
			most = max(most, rows[first])
		}
	}
	return most, err
}

// warmPods are decided before the clock runs: batches become as long as suits pods that are all distinct, and
// snapshots are with their workers.
const warmPods = 1024
