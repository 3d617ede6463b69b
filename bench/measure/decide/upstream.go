package main

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// side decides pods.
type side interface {
	// decide decides pods in order, places each, and returns how many, those that fit nowhere
	// included. After limit it begins with no other.
	decide(ctx context.Context, pods []*v1.Pod, limit time.Duration) (int, error)
	// decisions are those since the last call; nothing can be decided any more.
	decisions() ([]decision, error)
	// end lets go of everything.
	end() error
}

// upstream is kube-scheduler's plugins.
type upstream struct {
	oracle *oracle.Oracle
	leave  int // the kind's
	made   []decision
	stop   context.CancelFunc // ends the oracle, which nobody lets go of before
}

func newUpstream(ctx context.Context, w *Workload) (*upstream, error) {
	ctx, stop := context.WithCancel(ctx)
	o, err := newOracle(ctx, w, oracle.DefaultParallelism)
	if err != nil {
		stop()
	}
	return &upstream{oracle: o, leave: w.Kind.leave, stop: stop}, err
}

// newOracle is an oracle that knows all but the waiting pods.
func newOracle(ctx context.Context, w *Workload, parallelism int) (*oracle.Oracle, error) {
	c, err := oracle.DefaultConfig()
	if err != nil {
		return nil, err
	}
	o, err := oracle.NewParallel(ctx, c, parallelism)
	if err != nil {
		return nil, err
	}
	for _, n := range w.Nodes {
		if err := o.Set(n); err != nil {
			return nil, err
		}
	}
	for _, obj := range w.Objects {
		if err := o.Set(obj); err != nil {
			return nil, err
		}
	}
	for _, p := range w.Placed {
		if err := o.Set(p); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (u *upstream) decide(ctx context.Context, pods []*v1.Pod, limit time.Duration) (int, error) {
	began := time.Now()
	for i, p := range pods {
		if time.Since(began) > limit {
			return i, nil
		}
		if u.leave > 0 && i > 0 && i%u.leave == 0 {
			for _, before := range pods[i-u.leave : i] {
				if err := leave(u.oracle, before); err != nil {
					return i, err
				}
			}
		}
		d, err := u.oracle.Decide(ctx, p)
		if err != nil && !errors.Is(err, oracle.ErrNoFit) {
			return i, err
		}
		u.made = append(u.made, decision{UID: string(p.UID), Node: d.Node, Score: d.Total, Feasible: d.Feasible})
	}
	return len(pods), nil
}

func (u *upstream) decisions() ([]decision, error) { return u.made, nil }

func (u *upstream) end() error {
	u.stop()
	return nil
}
