package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/cmd/internal/otlp"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// simulation is a scheduler without etcd, API or clock: pods in, decisions out.
type simulation struct {
	sharding  Sharding
	config    *config.Config // nil: the defaults
	extenders bool           // they are asked
	plugins   framework.Registry
	batch     int // 0: the default
	decisions *observe.DecisionLog
	recording Recording
	process   Process
	tracing   otlp.Options
	reporter  coordinator.Reporter // nil: nobody is told what becomes of pods
	// drive changes the cluster once all that is loaded is decided, and ends when nothing is left to do; nil: nothing changes.
	drive driver
}

// driver changes a simulated cluster.
type driver interface {
	// configure has the scheduler tell it what it does.
	configure(*coordinator.SchedulerConfig)
	// begin is what the scheduler begins with.
	begin(*coordinator.Scheduler) *objects.Snapshot
	// run goes on from what is there. The scheduler is idle.
	run(context.Context, *coordinator.Scheduler) error
}

// runSimulate is `shardsched simulate`.
func runSimulate(ctx context.Context, s Streams, o SimulateOptions) error {
	configuration, err := o.Configuration.load()
	if err != nil {
		return err
	}
	in, err := o.kubernetes.readInput(ctx, s, o.Live, o.input())
	if err != nil {
		return err
	}
	if in.Asked != nil {
		return o.runWhatIf(ctx, s, configuration, in)
	}
	if err := writeObjects(o.Objects, in); err != nil {
		return err
	}
	out := s.Out
	if o.Decisions == "-" {
		out = s.Err
	}
	log, err := createDecisionLog(o.Decisions, s.Out)
	if err != nil {
		return err
	}
	if err := tellOfExtenders(s.Err, configuration, o.AskExtenders, in.Pods); err != nil {
		return err
	}
	sim := simulation{sharding: o.Sharding, config: configuration, extenders: o.AskExtenders, plugins: o.plugins, decisions: log,
		recording: o.Recording, process: o.Process, tracing: o.Tracing}
	seen := &placements{placed: map[types.UID]string{}}
	sim.reporter = seen
	report := newProgress(s, waiting(in.Pods))
	sum, err := sim.run(ctx, in, report.update)
	report.done()
	err = errors.Join(err, log.Close())
	if sum == nil {
		return err
	}
	if err := errors.Join(printSummary(s, out, o.Output, sum), err); err != nil {
		return err
	}
	if o.Picture != "" {
		if err := writePicture(o.Picture, in, seen.placed, sum.GetPodGroups()); err != nil {
			return err
		}
	}
	if !seen.all(in.Come) {
		return errPends
	}
	return nil
}

// placements notes which pods have found a node.
type placements struct {
	coordinator.Silent
	mu     sync.Mutex
	placed map[types.UID]string
}

// Scheduled is part of coordinator.Reporter.
func (x *placements) Scheduled(p *v1.Pod, node string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.placed[p.UID] = node
}

// all tells whether all of some pods have found a node.
func (x *placements) all(pods []*v1.Pod) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return x.placed[p.UID] == "" })
}

// tellOfExtenders says what a simulation leaves out of what the configuration's extenders are for, and how many of the pods that
// wait for a node it would have been about.
func tellOfExtenders(w io.Writer, c *config.Config, asked bool, pods []*v1.Pod) error {
	if c == nil {
		return nil
	}
	extenders, err := extender.NewAll(c.Extenders(), extender.Options{})
	if err != nil {
		return err
	}
	for _, e := range extenders {
		interested := 0
		for _, p := range pods {
			if p.Spec.NodeName == "" && !objects.IsTerminal(p) && e.IsInterested(p) {
				interested++
			}
		}
		switch {
		case !asked:
			fmt.Fprintf(w, "extender %s not asked: its say is left out (%s); --ask-extenders asks it\n", e.Label(), numbered(interested, "pod"))
		case e.IsBinder():
			fmt.Fprintf(w, "extender %s not asked to bind: pods count as bound where they are placed (%s)\n", e.Label(), numbered(interested, "pod"))
		}
	}
	return nil
}

// createDecisionLog is openDecisionLog for a run of its own: what the file held is gone.
func createDecisionLog(name string, out io.Writer) (*observe.DecisionLog, error) {
	if name == "" || name == "-" {
		return openDecisionLog(name, out)
	}
	f, err := createPrivate(name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return nil, fmt.Errorf("decisions: %w", err)
	}
	return observe.NewDecisionLog(f), nil
}

// run schedules the input until nothing is left to do. Where ctx ends before, there is a
// summary as well as the error.
func (m simulation) run(ctx context.Context, in *Input, progress func(*pb.Summary)) (sum *pb.Summary, err error) {
	registry := newRegistry()
	cfg, err := m.scheduler(registry, len(in.Nodes))
	if err != nil {
		return nil, err
	}
	recorder, endRecord, err := m.recording.start(ctx, registry)
	if err != nil {
		return nil, err
	}
	cfg.Recorder = recorder
	defer func() { err = errors.Join(err, endRecord()) }()
	spans, err := startSpans(ctx, m.tracing, "simulate", registry)
	if err != nil {
		return nil, err
	}
	defer spans.stop()
	workers := newLocalWorkers(m.sharding.Workers, m.sharding.Cluster, registry, spans.workers)
	cfg.Tracer, cfg.Fanout.Local = spans.tracer, workers.members
	cfg.Fanout.Dial = workers.dial(nil, spans.dialOptions())
	s, err := coordinator.NewScheduler(cfg)
	if err != nil {
		return nil, err
	}
	// An interrupt ends the waiting first: the scheduler still has to tell how far it is.
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, gctx := errgroup.WithContext(alive)
	if err := m.process.serve(gctx, g, &serving.Guard{}, serving.Endpoint{Gatherer: registry}); err != nil {
		return nil, err
	}
	workers.serve(gctx, g, &serving.Guard{})
	all := &objects.Snapshot{Nodes: in.Nodes, Pods: in.Pods, Cluster: in.Cluster}
	if m.drive != nil {
		all = m.drive.begin(s)
	}
	s.Load(all, nil)
	var waited error
	g.Go(func() error { return s.Run(gctx) })
	g.Go(func() error {
		defer end()
		waiting, stop := context.WithCancel(ctx)
		defer stop()
		context.AfterFunc(gctx, stop)
		waited = watchUntilIdle(waiting, s, progress)
		if waited == nil && m.drive != nil {
			waited = m.drive.run(waiting, s)
		}
		if gctx.Err() != nil {
			return nil
		}
		if sum, err = s.Summary(gctx); err == nil {
			sum.PodGroups, err = podGroupOutcomes(gctx, s)
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return sum, waited
}

// scheduler configures the scheduler for so many nodes.
func (m simulation) scheduler(registry prometheus.Registerer, nodes int) (coordinator.SchedulerConfig, error) {
	cfg := coordinator.SchedulerConfig{
		FreeClaims: true,
		Cluster:    m.sharding.Cluster, Term: 1, Shards: cmp.Or(m.sharding.Shards, max(coordinator.ShardsFor(nodes), m.sharding.Workers)),
		BatchSize: m.batch, Decisions: m.decisions, Registerer: registry, QueueNow: standstill(), Frozen: true, ExtendersInline: true,
	}
	if err := configure(m.config, m.plugins, &cfg); err != nil {
		return cfg, err
	}
	if !m.extenders {
		cfg.Extenders = nil
	}
	cfg.Reporter = m.reporter
	if m.drive != nil {
		m.drive.configure(&cfg)
	}
	return cfg, nil
}

// standstill is a clock that does not move: how long a simulation takes must not decide
// whether a pod's backoff is over.
func standstill() func() time.Time {
	start := time.Now()
	return func() time.Time { return start }
}

// progressEvery is how often progress is shown.
const progressEvery = 200 * time.Millisecond

// watchUntilIdle shows progress until the scheduler has nothing left to do.
func watchUntilIdle(ctx context.Context, s *coordinator.Scheduler, progress func(*pb.Summary)) error {
	idle := make(chan error, 1)
	go func() { idle <- s.Idle(ctx) }()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-idle:
			return err
		case <-tick.C:
			sum, err := s.Progress(ctx)
			if err != nil {
				return err
			}
			progress(sum)
		}
	}
}
