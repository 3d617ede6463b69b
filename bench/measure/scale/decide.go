package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/fanout"
	kinds "github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/tune"
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
	// Share is what each worker may use of a core, Throttle by what it is held to that, and UsedShares how much of it each
	// has used. ThrottledShares is in what part of the time each was stopped for it; none: nobody has counted.
	Share           float64   `json:"shareOfCore"`
	Throttle        string    `json:"throttle,omitempty"`
	UsedShares      []float64 `json:"usedOfShare"`
	ThrottledShares []float64 `json:"throttledOfTime,omitempty"`
	// WaitMicros is the wall time that is more than this process's CPU time. All pods are there, so that it waits for answers only.
	WaitMicros float64 `json:"waitMicros"`
	// FanMicros is how long it took from a question that the loop waited for to the merged answer: those that were asked while
	// other pods were decided are left out.
	FanMicros   float64 `json:"fanMicros"`
	ToWorkers   float64 `json:"toWorkersBytes"`
	FromWorkers float64 `json:"fromWorkersBytes"`
	// Batches, Rounds and LocalShards, those that the coordinator has evaluated itself, are all of the run.
	Batches     float64 `json:"batches"`
	Rounds      float64 `json:"rounds"`
	LocalShards float64 `json:"localShards"`
	// Turns are the cores that went into holding workers to their share, Others those that everybody else kept busy meanwhile.
	Turns  float64 `json:"turnsCores"`
	Others float64 `json:"othersCores"`
}

// conditions are those that pods are decided under.
type conditions struct {
	shards int
	limit  time.Duration
	// small says that workers are held to an eighth of a core once their shards are with them.
	small bool
	way   tune.Way
}

// loop is a scheduler that binds nothing, with workers.
type loop struct {
	*coordinator.Scheduler
	registry *prometheus.Registry
	group    *errgroup.Group
	stop     context.CancelFunc
}

// newLoop starts a scheduler that knows all but the pods that wait, and has its workers warm.
func (c *crew) newLoop(ctx context.Context, o objects, shards int, way tune.Way, config fanout.Config, log *observe.DecisionLog) (
	*loop, error) {
	l := &loop{registry: prometheus.NewRegistry()}
	config.Dial = c.dial()
	term, err := c.term(ctx)
	if err != nil {
		return nil, err
	}
	l.Scheduler, err = coordinator.NewScheduler(coordinator.SchedulerConfig{
		Cluster: clusterName, Term: term, Shards: shards, Registerer: l.registry, Fanout: config, Decisions: log, Way: &way,
		QueueNow: time.Now, // how long a pod takes does not change the order, so that runs can be compared
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
	at                                  time.Time
	self, turns                         time.Duration
	workers, throttled                  []time.Duration
	busy                                time.Duration // of all cores, with everybody
	in, out                             int64
	decisions                           uint64
	fan, rounds, batches, local, hedges float64
	snapshots                           float64
}

// usage reads the clocks.
func (c *crew) usage() (r reading, err error) {
	var failed error
	if c.throttle != nil {
		r.turns, err = c.throttle.turns.CPU()
		r.throttled, failed = c.throttle.throttled()
		if err := errors.Join(err, failed); err != nil {
			return r, err
		}
	}
	r.workers, err = c.cpu()
	r.self, r.busy, r.at = selfCPU(), machineCPU(), time.Now()
	return r, err
}

func (c *crew) read(ctx context.Context, l *loop) (r reading, err error) {
	summary, err := l.Progress(ctx)
	if err != nil {
		return r, err
	}
	if r, err = c.usage(); err != nil {
		return r, err
	}
	r.in, r.out, r.decisions = c.traffic.in.Load(), c.traffic.out.Load(), summary.GetDecisions()
	var errs [6]error
	r.fan, _, errs[0] = l.sum("shardsched_fanout_evaluation_duration_seconds")
	r.rounds, _, errs[1] = l.sum("shardsched_fanout_rounds_total")
	_, r.batches, errs[2] = l.sum("shardsched_batch_pods")
	r.local, _, errs[3] = l.sum("shardsched_fanout_local_shards_total")
	r.hedges, _, errs[4] = l.sum("shardsched_fanout_hedges_total")
	r.snapshots, _, errs[5] = l.sum("shardsched_fanout_snapshots_total")
	return r, errors.Join(errs[:]...)
}

// decide has pods decided until all are or the limit is over, and returns all decisions, one line each, with those before the
// clock.
func (c *crew) decide(ctx context.Context, o objects, x conditions) (d Decide, lines []string, err error) {
	file, err := os.Create(filepath.Join(c.fleet.dir, fmt.Sprintf("decisions-%d-%d", len(o.nodes), len(c.members))))
	if err != nil {
		return d, nil, err
	}
	log := observe.NewDecisionLog(file)
	d, err = c.timed(ctx, o, x, log)
	if err := errors.Join(err, log.Close()); err != nil {
		return d, nil, err
	}
	text, err := os.ReadFile(file.Name())
	return d, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), err
}

func (c *crew) timed(ctx context.Context, o objects, x conditions, log *observe.DecisionLog) (d Decide, err error) {
	l, err := c.newLoop(ctx, o, x.shards, x.way, fanout.Config{}, log)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, l.end()) }()
	d = Decide{Workers: len(c.members), Nodes: len(o.nodes), Shards: x.shards}
	if d.Rows, err = l.largest(ctx); err != nil {
		return d, err
	}
	rest, err := c.warm(ctx, l, o, x)
	if err != nil {
		return d, err
	}
	runtime.GC()
	before, err := c.read(ctx, l)
	if err != nil {
		return d, err
	}
	limited, cancel := context.WithTimeout(ctx, x.limit)
	defer cancel()
	if err := l.decide(limited, rest); err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return d, err
	}
	after, err := c.read(ctx, l)
	if err != nil {
		return d, err
	}
	if after.decisions == before.decisions {
		return d, fmt.Errorf("no pod was decided within %v", x.limit)
	}
	d.Share = 1
	if c.throttle != nil {
		d.Share, d.Throttle = c.throttle.share, c.throttle.about
	}
	d.took(&before, &after)
	return d, c.check()
}

// warm has pods decided before the clock runs, and returns the others: until workers have their shards, until batches are as long as
// suits pods that are all distinct, and, if workers are small, until it is known how slow they are.
func (c *crew) warm(ctx context.Context, l *loop, o objects, x conditions) ([]*v1.Pod, error) {
	rest, err := c.loaded(ctx, l, o.pods, x.shards)
	if err != nil {
		return nil, err
	}
	if rest, err = l.some(ctx, rest, warmPods); err != nil || !x.small {
		return rest, err
	}
	if err := c.hold(); err != nil {
		return nil, err
	}
	return l.some(ctx, rest, heldPods)
}

// loaded has pods decided, a few at a time, until workers have all shards and the coordinator has evaluated none itself.
func (c *crew) loaded(ctx context.Context, l *loop, pods []*v1.Pod, shards int) ([]*v1.Pod, error) {
	local, all := 0.0, len(pods)
	for {
		var err error
		if pods, err = l.some(ctx, pods, loadPods); err != nil {
			return nil, err
		}
		r, err := c.read(ctx, l)
		if err != nil {
			return nil, err
		}
		if r.snapshots >= float64(shards) && r.local == local {
			return pods, nil
		}
		if len(pods) < all/2 {
			return nil, fmt.Errorf("workers have not got their shards while %d pods were decided", all-len(pods))
		}
		local = r.local
	}
}

// some decides the first n pods, or half of those that there are, and returns the others.
func (l *loop) some(ctx context.Context, pods []*v1.Pod, n int) (rest []*v1.Pod, err error) {
	n = min(n, len(pods)/2)
	return pods[n:], l.decide(ctx, pods[:n])
}

// took is what happened between two readings.
func (d *Decide) took(before, after *reading) {
	d.Pods = int(after.decisions - before.decisions)
	n, took := float64(d.Pods), after.at.Sub(before.at)
	d.PerSecond = n / took.Seconds()
	d.CoordinatorMicros = micros(after.self-before.self) / n
	for i := range before.workers {
		used := after.workers[i] - before.workers[i]
		d.WorkerMicros = append(d.WorkerMicros, micros(used)/n)
		d.UsedShares = append(d.UsedShares, used.Seconds()/took.Seconds()/d.Share)
	}
	for i := range before.throttled {
		d.ThrottledShares = append(d.ThrottledShares, (after.throttled[i]-before.throttled[i]).Seconds()/took.Seconds())
	}
	d.WaitMicros = max(micros(took)/n-d.CoordinatorMicros, 0)
	d.FanMicros = 1e6 * (after.fan - before.fan) / n
	d.ToWorkers, d.FromWorkers = float64(after.out-before.out)/n, float64(after.in-before.in)/n
	d.Batches, d.Rounds, d.LocalShards = after.batches-before.batches, after.rounds-before.rounds, after.local-before.local
	d.Turns, d.Others = (after.turns-before.turns).Seconds()/took.Seconds(), others(before, after)
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

// Pods that are decided before the clock runs: loadPods at a time until shards are with workers, then warmPods, and heldPods more where
// workers are small.
const (
	loadPods = 32
	warmPods = 1024
	heldPods = 128
)

// decisions are the longest runs of each number of nodes, a line each.
type decisions map[int][]string

// hold errs where a run of so many nodes has decided otherwise than one before, as far as both got.
func (x decisions) hold(nodes int, lines []string) error {
	for i := range min(len(lines), len(x[nodes])) {
		if lines[i] != x[nodes][i] {
			return fmt.Errorf("decision %d is %s, and was %s in a run before", i+1, lines[i], x[nodes][i])
		}
	}
	if len(lines) > len(x[nodes]) {
		x[nodes] = lines
	}
	return nil
}
