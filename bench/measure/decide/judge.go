package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// judge replays our decisions beside upstream and holds a sample of them against it: as
// many nodes are feasible, ours has the highest total, and the total is the one that we have
// told; where we have found none, neither does upstream. Several oracles share the sample. Those
// of warm came before, of pods that are no part of the workload.
func judge(ctx context.Context, w *Workload, warm, decisions []decision, sample int) (judged int, err error) {
	places := picked(len(decisions), sample)
	for i := range places {
		places[i] += len(warm)
	}
	decisions = slices.Concat(warm, decisions)
	var next, done atomic.Int64
	ctx, stop := context.WithCancel(ctx)
	defer stop() // ends the oracles
	g, failing := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), len(places)) {
		g.Go(func() error {
			j, err := newReplay(ctx, w, decisions, len(warm))
			if err != nil {
				return err
			}
			for failing.Err() == nil {
				n := int(next.Add(1) - 1)
				if n >= len(places) {
					return nil
				}
				if err := j.hold(ctx, places[n]); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err = g.Wait()
	return int(done.Load()), err
}

// picked are the places of the sample, spread over all with the first and the last.
func picked(n, sample int) (out []int) {
	for i := range min(n, sample) {
		out = append(out, i*(n-1)/max(min(n, sample)-1, 1))
	}
	return slices.Compact(out)
}

// replay is upstream on the way through our decisions.
type replay struct {
	oracle    *oracle.Oracle
	pods      map[string]*v1.Pod
	decisions []decision
	placed    func(p *v1.Pod, node string) []oracle.Object // the kind's
	warm      int                                          // decisions of pods that are not of the kind
	next      int
}

func newReplay(ctx context.Context, w *Workload, decisions []decision, warm int) (*replay, error) {
	o, err := newOracle(ctx, w, 1)
	if err != nil {
		return nil, err
	}
	r := &replay{oracle: o, pods: map[string]*v1.Pod{}, decisions: decisions, placed: w.Kind.placed, warm: warm}
	for _, p := range append([]*v1.Pod{first()}, w.Pods...) {
		r.pods[string(p.UID)] = p
	}
	return r, nil
}

// hold places the pods before a decision and judges it.
func (r *replay) hold(ctx context.Context, i int) error {
	for ; r.next < i; r.next++ {
		d := r.decisions[r.next]
		if d.Node == "" {
			continue
		}
		p := r.pods[d.UID].DeepCopy()
		p.Spec.NodeName = d.Node
		if err := r.oracle.Set(p); err != nil {
			return err
		}
		if r.placed == nil || r.next < r.warm {
			continue
		}
		for _, obj := range r.placed(p, d.Node) {
			if err := r.oracle.Set(obj); err != nil {
				return err
			}
		}
	}
	d := r.decisions[i]
	pod := r.pods[d.UID]
	if pod == nil {
		return fmt.Errorf("decision %d: there is no pod %s", i, d.UID)
	}
	v, err := r.oracle.Judge(ctx, pod)
	if err != nil {
		return err
	}
	if d.Node == "" {
		if len(v.Feasible) > 0 || v.Err == nil {
			return fmt.Errorf("decision %d: upstream finds %d nodes, we none: %s", i, len(v.Feasible), d.Message)
		}
		return nil
	}
	if v.Err != nil {
		return fmt.Errorf("decision %d: upstream finds no node: %w", i, v.Err)
	}
	node, best := v.Feasible[d.Node], int64(0)
	for _, s := range v.Feasible {
		best = max(best, s.Total)
	}
	switch {
	case node == nil:
		return fmt.Errorf("decision %d: %s is not feasible: %+v", i, d.Node, v.Refused[d.Node])
	case d.Feasible != len(v.Feasible):
		return fmt.Errorf("decision %d: %d nodes are feasible for us, %d for upstream", i, d.Feasible, len(v.Feasible))
	case d.Score != node.Total || node.Total != best:
		return fmt.Errorf("decision %d: %s has %d for us, %d for upstream, whose best has %d", i, d.Node, d.Score, node.Total, best)
	}
	return nil
}
