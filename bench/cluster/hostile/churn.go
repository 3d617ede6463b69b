package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// round is what a scheduler has come through when it has met each attack once more.
type round struct {
	Side    string        `json:"side"`
	After   time.Duration `json:"afterNanoseconds"` // the scheduler's start
	EndMiB  float64       `json:"endMiB"`           // when all is deleted
	PeakMiB float64       `json:"peakMiB"`
	Unbound int           `json:"unbound"`
	P99     float64       `json:"p99"` // of the attack under which it was highest, in milliseconds
}

func (r *round) String() string {
	return fmt.Sprintf("%s, after %v: %.0f MiB, %.0f at the most, highest p99 %.0f ms, %d unbound", r.Side, r.After.Round(time.Second),
		r.EndMiB, r.PeakMiB, r.P99, r.Unbound)
}

// endure has one scheduler meet all attacks again and again.
func (o *options) endure(ctx context.Context, data, programs, dir, side string, progress io.Writer) (rounds []*round, err error) {
	bed, err := testbed.Start(ctx, testbed.Config{Dir: dir, Data: data, Programs: programs, NoAudit: true, OwnEtcd: true})
	if err != nil {
		return nil, err
	}
	defer bed.Close()
	scheduler, err := startScheduler(ctx, bed, side, o.localWorkers)
	if err != nil {
		return nil, err
	}
	defer testbed.Stop(scheduler.Process)
	begin := time.Now()
	for n := 1; n == 1 || time.Since(begin) < o.churn; n++ {
		r := &round{Side: side}
		for _, a := range o.attacks {
			f, err := o.onceMore(ctx, bed, scheduler, a, n)
			if err != nil {
				return rounds, fmt.Errorf("%s, round %d: %w", a.name, n, err)
			}
			if !f.LeaderStays {
				return rounds, fmt.Errorf("%s, round %d: the leader ends", a.name, n)
			}
			r.P99, r.PeakMiB, r.Unbound = max(r.P99, f.P99), max(r.PeakMiB, f.PeakMiB), r.Unbound+f.Unbound
		}
		if r.EndMiB, _, err = scheduler.MemoryMiB(); err != nil {
			return rounds, err
		}
		r.After = time.Since(begin)
		fmt.Fprintf(progress, "round %d: %s\n", n, r)
		rounds = append(rounds, r)
	}
	return rounds, os.RemoveAll(dir)
}

// onceMore runs an attack on a scheduler that has met others, and deletes what it has made.
func (o *options) onceMore(ctx context.Context, bed *testbed.Bed, scheduler *testbed.SchedulerProcess, a *attack, n int) (*figures, error) {
	s, err := newAttackCluster(ctx, bed, o.size, fmt.Sprintf("%s-%d", a.name, n))
	if err != nil {
		return nil, err
	}
	s.scheduler = scheduler
	if a.before != nil {
		if err := a.before(ctx, s); err != nil {
			return nil, err
		}
	}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	f, err := s.play(ctx, a, "")
	if err != nil {
		return nil, err
	}
	return f, s.clear(ctx)
}

// churns runs each side for as long as was asked.
func (o *options) churns(ctx context.Context, r *report, programs, dir string, progress io.Writer) error {
	data, err := o.prepare(ctx, programs, dir, true)
	if err != nil {
		return err
	}
	for _, side := range o.sides {
		rounds, err := o.endure(ctx, data, programs, filepath.Join(dir, "churn-"+side), side, progress)
		if r.Rounds = append(r.Rounds, rounds...); err != nil {
			return fmt.Errorf("churn, %s: %w", side, err)
		}
	}
	return nil
}

// grown is an error where our memory has grown since the first round, or a victim was not bound.
func (r *report) grown() error {
	var first *round
	for _, at := range r.Rounds {
		switch {
		case at.Side != ours:
		case at.Unbound > 0:
			return fmt.Errorf("ours does not stand the churn: %s", at)
		case first == nil:
			first = at
		case at == r.Rounds[len(r.Rounds)-1] && at.EndMiB > memoryRatio*first.EndMiB:
			return fmt.Errorf("ours grows: %s; %s", first, at)
		}
	}
	return nil
}
