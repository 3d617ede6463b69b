package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/tune"
)

// Hedge is how long batches took, from when their pods come to when they are decided, calm or with workers
// that stall.
type Hedge struct {
	Workers  int `json:"workers"`
	Replicas int `json:"replicas"`
	// Stalls were made: a worker at random stops.
	Stalled bool `json:"stalled"`
	Stalls  int  `json:"stalls"`
	// Batches were decided, of Pods each.
	Batches   int     `json:"batches"`
	Pods      int     `json:"pods"`
	P50Micros float64 `json:"p50Micros"`
	P90Micros float64 `json:"p90Micros"`
	P99Micros float64 `json:"p99Micros"`
	MaxMicros float64 `json:"maxMicros"`
	// HitP50Micros is of those in which a stall began.
	HitP50Micros float64 `json:"hitP50Micros"`
	// Hedges are the times that the other owners were asked, LocalShards those that the coordinator
	// evaluated itself.
	Hedges      float64 `json:"hedges"`
	LocalShards float64 `json:"localShards"`
	Others      float64 `json:"othersCores"`
}

// stalls are what happens to workers.
type stalls struct {
	every, lasts time.Duration
	seed         uint64
}

// run stops a worker at random, again and again, until ctx ends, and says when.
func (x stalls) run(ctx context.Context, c *crew) (at []time.Time) {
	r := rand.New(rand.NewPCG(x.seed, 1))
	for wait(ctx, time.Duration(r.ExpFloat64()*float64(x.every))) {
		p := c.processes[r.IntN(len(c.processes))]
		at = append(at, time.Now())
		p.Pause()
		wait(ctx, x.lasts)
		p.Resume()
	}
	return at
}

// wait tells whether ctx has not ended before.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// hedge has batches decided, one when the one before is, until the limit is over.
func (c *crew) hedge(ctx context.Context, o objects, shards int, way tune.Way, replicas, pods int, stall *stalls, limit time.Duration) (
	h Hedge, err error) {
	l, err := c.newLoop(ctx, o, shards, way, fanout.Config{Replicas: replicas}, nil)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, l.end()) }()
	h = Hedge{Workers: len(c.members), Replicas: replicas, Stalled: stall != nil, Pods: pods}
	made := 0
	batch := func() (time.Duration, error) {
		list := make([]*v1.Pod, pods)
		for i := range list {
			list[i] = waiting(made)
			made++
		}
		began := time.Now()
		err := l.decide(ctx, list)
		return time.Since(began), err
	}
	for sent, rounds := 0.0, 0; sent < float64(shards*replicas) || rounds < warmBatches; rounds++ { // all copies are made
		if _, err := batch(); err != nil {
			return h, err
		}
		if sent, _, err = l.sum("shardsched_fanout_snapshots_total"); err != nil {
			return h, err
		}
	}
	before, err := c.read(ctx, l)
	if err != nil {
		return h, err
	}
	stalling, stop := context.WithCancel(ctx)
	defer stop()
	var done sync.WaitGroup
	var stalled, begun []time.Time
	if stall != nil {
		done.Go(func() { stalled = stall.run(stalling, c) })
	}
	var took []time.Duration
	for began := time.Now(); time.Since(began) < limit; {
		begun = append(begun, time.Now())
		d, err := batch()
		if err != nil {
			return h, err
		}
		took = append(took, d)
	}
	stop()
	done.Wait()
	after, err := c.read(ctx, l)
	if err != nil {
		return h, err
	}
	h.Hedges, h.LocalShards = after.hedges-before.hedges, after.local-before.local
	h.Others = others(&before, &after)
	h.Batches, h.Stalls, h.HitP50Micros = len(took), len(stalled), quantile(hit(begun, took, stalled), 0.5)
	h.P50Micros, h.P90Micros, h.P99Micros, h.MaxMicros = quantile(took, 0.5), quantile(took, 0.9), quantile(took, 0.99), quantile(took, 1)
	return h, c.check()
}

// hit are how long the batches took in which a stall began.
func hit(begun []time.Time, took []time.Duration, stalled []time.Time) (out []time.Duration) {
	for i := range begun {
		if slices.ContainsFunc(stalled, func(at time.Time) bool { return !at.Before(begun[i]) && at.Before(begun[i].Add(took[i])) }) {
			out = append(out, took[i])
		}
	}
	return out
}

// warmBatches are not measured.
const warmBatches = 8
