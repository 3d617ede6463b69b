package decide

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/oracle"
)

// side decides pods.
type side interface {
	// decide decides pods in order, places each, and returns how many.
	decide(ctx context.Context, pods []*v1.Pod) (int, error)
	// end lets go of everything.
	end() error
}

// upstream is kube-scheduler's plugins.
type upstream struct {
	oracle *oracle.Oracle
	// limit is after how long it begins with no other pod.
	limit time.Duration
}

func newUpstream(ctx context.Context, w *Workload, limit time.Duration) (*upstream, error) {
	o, err := newOracle(ctx, w, oracle.DefaultParallelism)
	return &upstream{o, limit}, err
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

func (u *upstream) decide(ctx context.Context, pods []*v1.Pod) (int, error) {
	began := time.Now()
	for i, p := range pods {
		if time.Since(began) > u.limit {
			return i, nil
		}
		if _, err := u.oracle.Decide(ctx, p); err != nil {
			return i, err
		}
	}
	return len(pods), nil
}

func (u *upstream) end() error { return nil }
