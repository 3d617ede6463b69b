package conformance

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/oracle"
	"github.com/shardsched/shardsched/coordinator/compile"
)

// Difference is a place where we and upstream disagree.
type Difference struct {
	Round    int
	Decision Decision
	// Node is empty where it is not one node's.
	Node string
	// What differs, such as "score" or "NodeResourcesFit raw".
	What      string
	Got, Want string
}

func (d *Difference) String() string {
	at := ""
	if d.Node != "" {
		at = " on " + d.Node
	}
	return fmt.Sprintf("round %d, decision %d, pod %s%s: %s\n got %s\nwant %s", d.Round, d.Decision.Seq, d.Decision.Pod, at, d.What, d.Got, d.Want)
}

// Result is what a scenario came to.
type Result struct {
	Decisions, Refusals, Errors int
	// NodeVerdicts is how many verdicts on a node were compared.
	NodeVerdicts int
	Differences  []*Difference
}

// Run decides a scenario and holds every decision against upstream. It stops at the first
// decision that differs: what follows rests on it.
func Run(ctx context.Context, s *Scenario, split Split) (*Result, error) {
	rounds, err := Ours(ctx, s, split)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	upstream, err := oracle.New(ctx, s.Settings.upstream())
	if err != nil {
		return nil, err
	}
	own, err := newMirror(&s.Settings)
	if err != nil {
		return nil, err
	}
	r := &replay{
		upstream: upstream, own: own,
		nodes: map[string]*v1.Node{}, pending: map[types.UID]*v1.Pod{}, placed: map[types.UID]*v1.Pod{},
	}
	for i, round := range s.Rounds {
		for _, e := range round {
			if err := r.apply(e); err != nil {
				return nil, fmt.Errorf("round %d: %w", i, err)
			}
		}
		for _, d := range rounds[i] {
			if err := r.hold(ctx, i, d); err != nil {
				return nil, fmt.Errorf("round %d, decision %d: %w", i, d.Seq, err)
			}
			if len(r.result.Differences) > 0 {
				return &r.result, nil
			}
		}
	}
	return &r.result, nil
}

// replay is the cluster as upstream and our own scorer have it.
type replay struct {
	upstream *oracle.Oracle
	own      *mirror
	nodes    map[string]*v1.Node
	pending  map[types.UID]*v1.Pod
	placed   map[types.UID]*v1.Pod
	result   Result
}

// apply lets an event happen.
func (r *replay) apply(e Event) error {
	switch {
	case e.Node != nil && e.Type == Removed:
		return r.removeNode(e.Node.Name)
	case e.Node != nil:
		r.upstream.SetNode(r.nodes[e.Node.Name], e.Node)
		r.nodes[e.Node.Name] = e.Node
		return r.own.setNode(e.Node)
	case e.Type == Removed || compile.IsTerminal(e.Pod):
		return r.removePod(e.Pod.UID)
	case e.Pod.Spec.NodeName == "":
		r.pending[e.Pod.UID] = e.Pod
		return nil
	default:
		return r.setPod(e.Pod)
	}
}

func (r *replay) removeNode(name string) error {
	n := r.nodes[name]
	if n == nil {
		return nil
	}
	delete(r.nodes, name)
	return errors.Join(r.upstream.RemoveNode(n), r.own.removeNode(name))
}

func (r *replay) removePod(uid types.UID) error {
	delete(r.pending, uid)
	p := r.placed[uid]
	if p == nil {
		return nil
	}
	delete(r.placed, uid)
	return errors.Join(r.upstream.RemovePod(p), r.own.removePod(uid))
}

// setPod takes in a pod that is on its node.
func (r *replay) setPod(p *v1.Pod) error {
	if err := r.removePod(p.UID); err != nil {
		return err
	}
	r.placed[p.UID] = p
	return errors.Join(r.upstream.AddPod(p), r.own.setPod(p))
}

// hold holds a decision against upstream, and then follows it.
func (r *replay) hold(ctx context.Context, round int, d Decision) error {
	pod := r.pending[types.UID(d.UID)]
	if pod == nil {
		return fmt.Errorf("pod %s is not pending", d.Pod)
	}
	v, err := r.upstream.Judge(ctx, pod)
	if err != nil {
		return err
	}
	r.result.Decisions++
	c := comparison{round: round, decision: d, verdict: v}
	c.decided()
	n, err := r.own.compare(pod, &c)
	if err != nil {
		return err
	}
	r.result.NodeVerdicts += n
	r.result.Differences = append(r.result.Differences, c.found...)
	if d.Node == "" {
		r.result.Refusals++
		if len(v.Feasible) > 0 {
			r.result.Errors++
		}
		return nil
	}
	if len(c.found) > 0 {
		return nil
	}
	placed, err := r.upstream.Place(pod, d.Node)
	if err != nil {
		return err
	}
	delete(r.pending, pod.UID)
	r.placed[pod.UID] = placed
	return r.own.setPod(placed)
}
