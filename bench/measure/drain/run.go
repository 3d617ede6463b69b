package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/process"
)

const (
	// A scheduler has settled when it uses less than this of a core for so long.
	settledShare = 0.05
	settledFor   = time.Second
	settledPoll  = 100 * time.Millisecond
	// creators is how many pods are being made at once at the most.
	creators = 256
	// profileFor is what a CPU profile is of.
	profileFor = 8 * time.Second
)

// run is one case under way.
type run struct {
	*drainRun
	*measurement
	bed     *testbed.Bed
	figures *figures
	// servers is how many processes the bed has without the scheduler's.
	servers int
	objects []*v1.Pod
	keys    []string
	begun   counters

	mu    sync.Mutex
	sent  map[string]time.Time
	bound map[string]time.Time
	last  time.Time
	first chan struct{} // closed with the first pod bound
}

func newRun(b *drainRun, m *measurement, bed *testbed.Bed) *run {
	c := &run{
		drainRun: b, measurement: m, bed: bed, servers: len(bed.Processes()), objects: b.pods(m.kinds, m.pods),
		figures: &figures{Workload: m.workload, Pods: m.pods, Rate: m.rate, Side: m.side, Run: m.run},
		sent:    map[string]time.Time{}, bound: map[string]time.Time{}, first: make(chan struct{}),
	}
	for _, p := range c.objects {
		c.keys = append(c.keys, p.Namespace+"/"+p.Name)
	}
	return c
}

// counters are read before and after.
type counters struct {
	at                                       time.Time
	scheduler, apiServer, etcd, own, machine float64
	requests                                 requests
}

func (c *run) processes() []*process.Process { return c.bed.Processes()[c.servers:] }

func (c *run) count() (now counters, err error) {
	now.at, now.machine = time.Now(), process.MachineCPUSeconds()
	var errs [4]error
	now.scheduler, errs[0] = cpu(c.processes()...)
	now.apiServer, errs[1] = cpu(c.bed.APIServer.Process())
	now.etcd, errs[2] = cpu(c.bed.Etcd.Process())
	now.own, errs[3] = process.OwnCPUSeconds()
	return now, errors.Join(errs[:]...)
}

// begin reads the counters before the measurement.
func (c *run) begin(ctx context.Context) error {
	asked, err := countRequests(ctx, c.bed.Admin)
	if err != nil {
		return err
	}
	c.begun, err = c.count()
	c.begun.requests = asked
	return err
}

// isBound notes when pods are seen to be bound.
func (c *run) isBound(p *v1.Pod) bool {
	if !testbed.IsBound(p) {
		return false
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bound) == 0 {
		close(c.first)
	}
	c.bound[p.Namespace+"/"+p.Name], c.last = now, now
	return true
}

// untilBound waits for all pods, or as long as a case may take.
func (c *run) untilBound(ctx context.Context) ([]*v1.Pod, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience, errSlow)
	defer cancel()
	pods, err := c.bed.Pods.Until(ctx, "are bound", c.isBound, c.keys...)
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		return nil, nil
	}
	return pods, err
}

// drain starts the scheduler beside pods that are there.
func (c *run) drain(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	var pods []*v1.Pod
	g.Go(func() (err error) {
		pods, err = c.untilBound(gctx)
		return err
	})
	began := make(chan counters, 1)
	g.Go(func() error {
		select {
		case <-c.first:
		case <-gctx.Done():
			return gctx.Err()
		}
		now, err := c.count()
		began <- now
		return err
	})
	p, err := c.startSide(gctx, c.bed, c.side)
	if err != nil {
		return errors.Join(err, g.Wait())
	}
	defer func() { stopSide(c.processes()) }()
	c.profile(gctx, g, p)
	if err := g.Wait(); err != nil {
		return err
	}
	start := <-began
	c.figures.StartSeconds = start.at.Sub(c.begun.at).Seconds()
	c.figures.StartCPUSeconds = start.scheduler
	c.figures.Seconds = c.last.Sub(start.at).Seconds()
	return c.end(ctx, pods)
}

// arrive has pods come while the scheduler runs.
func (c *run) arrive(ctx context.Context) error {
	p, err := c.startSide(ctx, c.bed, c.side)
	if err != nil {
		return err
	}
	defer func() { stopSide(c.processes()) }()
	if _, err := c.settle(ctx); err != nil {
		return err
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	c.profile(gctx, g, p)
	var pods []*v1.Pod
	g.Go(func() (err error) {
		pods, err = c.untilBound(gctx)
		return err
	})
	g.Go(func() error { return c.create(gctx) })
	if err := g.Wait(); err != nil {
		return err
	}
	c.figures.Seconds = c.last.Sub(c.begun.at).Seconds()
	return c.end(ctx, pods)
}

// create makes the pods, each at its time.
func (c *run) create(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(creators)
	begin := time.Now()
	for i, p := range c.objects {
		due := time.Duration(float64(i) / float64(c.rate) * float64(time.Second))
		select {
		case <-time.After(time.Until(begin.Add(due))):
		case <-ctx.Done():
			return g.Wait()
		}
		g.Go(func() error {
			c.mu.Lock()
			c.sent[c.keys[i]] = time.Now()
			c.mu.Unlock()
			return c.bed.Create(ctx, p)
		})
	}
	return g.Wait()
}

// settle waits until the scheduler has nothing to do, and returns since when.
func (c *run) settle(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience, errSlow)
	defer cancel()
	tick := time.NewTicker(settledPoll)
	defer tick.Stop()
	type sample struct {
		at  time.Time
		cpu float64
	}
	var samples []sample
	for {
		used, err := cpu(c.processes()...)
		if err != nil {
			return time.Time{}, err
		}
		samples = append(samples, sample{time.Now(), used})
		now := samples[len(samples)-1]
		// The last sample that is old enough.
		i := len(samples) - 1
		for i > 0 && now.at.Sub(samples[i].at) < settledFor {
			i--
		}
		if since := now.at.Sub(samples[i].at); since >= settledFor && now.cpu-samples[i].cpu < settledShare*since.Seconds() {
			return samples[i].at, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("the scheduler does not settle: %w", context.Cause(ctx))
		}
	}
}

// end reads all counters again. No pods: not all are bound.
func (c *run) end(ctx context.Context, pods []*v1.Pod) error {
	f := c.figures
	settled := time.Now()
	if pods != nil {
		var err error
		if settled, err = c.settle(ctx); err != nil {
			return err
		}
		if err := c.options.check(c.kinds, pods, c.cluster); err != nil {
			return err
		}
	}
	now, err := c.count()
	if err != nil {
		return err
	}
	if f.PeakMiB, err = peakMiB(c.processes()...); err != nil {
		return err
	}
	asked, err := countRequests(ctx, c.bed.Admin)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f.Requests = asked.since(c.begun.requests)
	f.Bound = len(c.bound)
	f.PodsPerSecond = float64(f.Bound) / max(f.Seconds, 1e-3)
	f.SettledSeconds = max(settled.Sub(c.last), 0).Seconds()
	f.WallSeconds = now.at.Sub(c.begun.at).Seconds()
	f.CPUSeconds = now.scheduler - c.begun.scheduler
	f.APIServerCPUSeconds, f.EtcdCPUSeconds = now.apiServer-c.begun.apiServer, now.etcd-c.begun.etcd
	f.BenchCPUSeconds = now.own - c.begun.own
	f.OthersCPUSeconds = max(now.machine-c.begun.machine-f.CPUSeconds-f.APIServerCPUSeconds-f.EtcdCPUSeconds-f.BenchCPUSeconds, 0)
	f.P50Milliseconds, f.P99Milliseconds = c.latencies()
	return nil
}

// latencies are those of pods that have arrived; of those not bound there is none.
func (c *run) latencies() (p50, p99 float64) {
	var all []float64
	for key, at := range c.bound {
		if sent, ok := c.sent[key]; ok {
			all = append(all, at.Sub(sent).Seconds()*1e3)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

// profile takes a CPU profile from when pods are bound on, where that is asked for.
func (c *run) profile(ctx context.Context, g *errgroup.Group, p *testbed.SchedulerProcess) {
	if c.profiles == "" {
		return
	}
	g.Go(func() error {
		select {
		case <-c.first:
		case <-ctx.Done():
			return nil
		}
		return p.Profile(ctx, profileFor, filepath.Join(c.profiles, c.name()+".pprof"))
	})
}
