package main

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// judge replays our decisions beside upstream and holds a sample of them against it: as
// many nodes are feasible, ours has the highest total, and the total is the one that we have
// told, and its claims get the same devices; where we have found none, neither does upstream. Several oracles
// share the sample. Those of warm came before, of pods that are no part of the workload.
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
	kind      *Kind
	warm      int // decisions of pods that are not of the kind
	next      int
	there     []*v1.Pod // placed pods of the kind that have not left
}

func newReplay(ctx context.Context, w *Workload, decisions []decision, warm int) (*replay, error) {
	o, err := newOracle(ctx, w, 1)
	if err != nil {
		return nil, err
	}
	r := &replay{oracle: o, pods: map[string]*v1.Pod{}, decisions: decisions, kind: &w.Kind, warm: warm}
	for _, p := range append([]*v1.Pod{first()}, w.Pods...) {
		r.pods[string(p.UID)] = p
	}
	return r, nil
}

// hold places the pods before a decision, but for those that have left by then, and judges it.
func (r *replay) hold(ctx context.Context, i int) error {
	left := 0 // the first of them that has not
	if r.kind.leave > 0 {
		left = i - (i-r.warm)%r.kind.leave
	}
	if r.next < left {
		for _, p := range r.there {
			if err := leave(r.oracle, p); err != nil {
				return err
			}
		}
		r.there = nil
	}
	for ; r.next < i; r.next++ {
		if r.next >= r.warm && r.next < left {
			continue
		}
		if err := r.place(&r.decisions[r.next]); err != nil {
			return err
		}
	}
	d := r.decisions[i]
	pod := r.pods[d.UID]
	if pod == nil {
		return fmt.Errorf("decision %d: there is no pod %s", i, d.UID)
	}
	var within *oracle.Placement
	if key := r.kind.domain; key != "" && d.Node != "" {
		within = r.oracle.Domain(key, r.oracle.Node(d.Node).Labels[key])
	}
	v, err := r.oracle.JudgeWithin(ctx, pod, within)
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
	return r.holdDevices(ctx, v, i)
}

// holdDevices compares the devices that the pod has got with upstream's.
func (r *replay) holdDevices(ctx context.Context, v *oracle.Verdict, i int) error {
	ours, err := r.decisions[i].claims()
	if err != nil {
		return fmt.Errorf("decision %d: %w", i, err)
	}
	claims, err := r.oracle.Allocations(ctx, v, r.decisions[i].Node)
	if err != nil {
		return fmt.Errorf("decision %d: %w", i, err)
	}
	if theirs := devicesOf(claims); !reflect.DeepEqual(ours, theirs) {
		return fmt.Errorf("decision %d: the pod has got %v, from upstream %v", i, ours, theirs)
	}
	return nil
}

// place does what a decision says.
func (r *replay) place(d *decision) error {
	if d.Node == "" {
		return nil
	}
	p := r.pods[d.UID].DeepCopy()
	p.Spec.NodeName = d.Node
	if err := r.oracle.Set(p); err != nil || r.next < r.warm {
		return err
	}
	r.there = append(r.there, p)
	if r.kind.placed == nil {
		return nil
	}
	objects, err := r.kind.placed(p, d)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := r.oracle.Set(obj); err != nil {
			return err
		}
	}
	return nil
}

// leave has a pod leave with its claims.
func leave(o *oracle.Oracle, p *v1.Pod) error {
	if err := o.Remove(p); err != nil {
		return err
	}
	for _, c := range claimsOf(p) {
		if err := o.Remove(c); err != nil {
			return err
		}
	}
	return nil
}
