package oracle

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// DefaultParallelism is that of a kube-scheduler whose configuration says nothing else.
const DefaultParallelism = 16

// Decision is a node that was chosen for a pod.
type Decision struct {
	Node string
	// Feasible is how many nodes there were to choose from, Total the node's score.
	Feasible int
	Total    int64
}

// Decide decides a pod as kube-scheduler does, every node looked at and no verdict kept: it
// brings the snapshot up to date, filters and scores, takes a node with the highest
// total, assumes the pod there and reserves its volumes. It is what upstream's plugins cost:
// unlike a kube-scheduler it keeps no diagnosis of nodes that do not fit, and tries no
// nominated node.
func (o *Oracle) Decide(ctx context.Context, pod *v1.Pod) (Decision, error) {
	ctx = klog.NewContext(ctx, quiet())
	d, err := o.decide(ctx, pod)
	if err != nil {
		return d, fmt.Errorf("decide pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return d, nil
}

func (o *Oracle) decide(ctx context.Context, pod *v1.Pod) (Decision, error) {
	p := o.profileOf(pod)
	if p == nil {
		return Decision{}, fmt.Errorf("there is no profile %q", pod.Spec.SchedulerName)
	}
	if err := o.refresh(); err != nil {
		return Decision{}, err
	}
	state := framework.NewCycleState()
	feasible, err := o.fitting(ctx, p, state, pod)
	if err != nil {
		return Decision{}, err
	}
	d, err := p.choose(ctx, state, pod, feasible)
	if err != nil {
		return Decision{}, err
	}
	placed := pod.DeepCopy()
	placed.Spec.NodeName = d.Node
	if err := o.cache.AssumePod(quiet(), placed); err != nil {
		return Decision{}, err
	}
	return d, p.RunReservePluginsReserve(ctx, state, placed, d.Node).AsError()
}

// fitting are the nodes that a pod fits on.
func (o *Oracle) fitting(ctx context.Context, p *profile, state fwk.CycleState, pod *v1.Pod) ([]fwk.NodeInfo, error) {
	nodes, err := o.List()
	if err != nil {
		return nil, err
	}
	narrowed, status, _ := p.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	if !narrowed.AllNodes() {
		nodes = o.only(narrowed)
	}
	feasible := make([]fwk.NodeInfo, len(nodes))
	var n atomic.Int32
	var failed atomic.Pointer[fwk.Status]
	p.Parallelizer().Until(ctx, len(nodes), func(i int) {
		switch status := p.RunFilterPluginsWithNominatedPods(ctx, state, pod, nodes[i]); {
		case status.IsSuccess():
			feasible[n.Add(1)-1] = nodes[i]
		case status.Code() == fwk.Error:
			failed.Store(status)
		}
	}, metrics.Filter)
	if failed.Load() != nil {
		return nil, failed.Load().AsError()
	}
	return feasible[:n.Load()], nil
}

// only are the nodes that PreFilter leaves.
func (o *Oracle) only(narrowed *fwk.PreFilterResult) (nodes []fwk.NodeInfo) {
	for name := range narrowed.NodeNames {
		if info, err := o.Get(name); err == nil {
			nodes = append(nodes, info)
		}
	}
	return nodes
}

// choose scores the nodes and takes the first of the best.
func (p *profile) choose(ctx context.Context, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo) (Decision, error) {
	if len(feasible) == 0 {
		return Decision{}, errors.New("it fits nowhere")
	}
	if len(feasible) == 1 {
		return Decision{Node: feasible[0].Node().Name, Feasible: 1}, nil
	}
	if status := p.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		return Decision{}, status.AsError()
	}
	scores, status := p.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return Decision{}, status.AsError()
	}
	best := &scores[0]
	for i := range scores {
		if scores[i].TotalScore > best.TotalScore {
			best = &scores[i]
		}
	}
	return Decision{Node: best.Name, Feasible: len(feasible), Total: best.TotalScore}, nil
}
