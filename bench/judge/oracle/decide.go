package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// DefaultParallelism is that of a kube-scheduler whose configuration says nothing else.
const DefaultParallelism = 16

// ErrNoFit is what Decide ends with where no node that it has looked at is feasible.
var ErrNoFit = errors.New("it fits nowhere")

// Upstream's constants for how many nodes are looked at where the configuration does not say.
const (
	leastSampled        = 100 // nodes
	leastSampledPercent = 5
	mostSampledPercent  = 50
	nodesPerPercent     = 125
)

// Sample has Decide look for no more feasible nodes than a kube-scheduler does whose
// configuration says nothing of percentageOfNodesToScore, each pod from where the last one has
// left off. Without it, all nodes are looked at.
func (o *Oracle) Sample() { o.sampling = true }

// sampled is how many feasible nodes are enough.
func (o *Oracle) sampled(nodes int) int {
	if !o.sampling || nodes < leastSampled {
		return nodes
	}
	percent := max(mostSampledPercent-nodes/nodesPerPercent, leastSampledPercent)
	return max(nodes*percent/100, leastSampled)
}

// Decision is a node that was chosen for a pod.
type Decision struct {
	Node string
	// Feasible is how many nodes there were to choose from, Total the node's score.
	Feasible int
	Total    int64
}

// Decide decides a pod as kube-scheduler does, every node looked at unless Sample was called, and no verdict kept: it
// brings the snapshot up to date, filters and scores, takes a node with the highest
// total, assumes the pod there, reserves its volumes, and writes the devices of its claims. It is what upstream's plugins cost:
// unlike a kube-scheduler it keeps no diagnosis of nodes that do not fit, and tries no
// nominated node. Where the pod fits nowhere, that is ErrNoFit.
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
	placed, err := o.assume(pod, d.Node)
	if err != nil {
		return Decision{}, err
	}
	o.objects.devices.allocated = nil
	if status := p.RunReservePluginsReserve(ctx, state, placed, d.Node); !status.IsSuccess() || len(o.objects.devices.allocated) == 0 {
		return d, status.AsError()
	}
	return d, o.writes(ctx, p.plugins[names.DynamicResources].(fwk.PreBindPlugin), state, placed)
}

// fitting are the nodes that a pod fits on.
func (o *Oracle) fitting(ctx context.Context, p *profile, state fwk.CycleState, pod *v1.Pod) ([]fwk.NodeInfo, error) {
	nodes, err := o.List()
	if err != nil {
		return nil, err
	}
	all := len(nodes)
	narrowed, status, _ := p.RunPreFilterPlugins(ctx, state, pod)
	switch {
	case status.IsRejected():
		return nil, fmt.Errorf("%w: %s", ErrNoFit, status.Message())
	case !status.IsSuccess():
		return nil, status.AsError()
	}
	if !narrowed.AllNodes() {
		nodes = o.only(narrowed)
	}
	wanted := int32(o.sampled(len(nodes)))
	feasible := make([]fwk.NodeInfo, wanted)
	var n, refused atomic.Int32
	var failed atomic.Pointer[fwk.Status]
	enough, stop := context.WithCancel(ctx)
	defer stop()
	p.Parallelizer().Until(enough, len(nodes), func(i int) {
		node := nodes[(o.start+i)%len(nodes)]
		switch status := p.RunFilterPluginsWithNominatedPods(enough, state, pod, node); {
		case status.IsSuccess():
			at := n.Add(1)
			if at > wanted {
				n.Add(-1)
				stop()
				return
			}
			feasible[at-1] = node
		case status.Code() == fwk.Error:
			failed.Store(status)
			stop()
		default:
			refused.Add(1)
		}
	}, metrics.Filter)
	if failed.Load() != nil {
		return nil, failed.Load().AsError()
	}
	if all > 0 {
		o.start = (o.start + int(n.Load()+refused.Load())) % all
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

// choose scores the nodes and takes one of the best at random.
func (p *profile) choose(ctx context.Context, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo) (Decision, error) {
	if len(feasible) == 0 {
		return Decision{}, ErrNoFit
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
	best, equal := &scores[0], 0
	for i := range scores {
		switch s := &scores[i]; {
		case s.TotalScore > best.TotalScore:
			best, equal = s, 1
		case s.TotalScore == best.TotalScore:
			// Each of so many that are equal is as likely to be the one.
			if equal++; rand.IntN(equal) == 0 {
				best = s
			}
		}
	}
	return Decision{Node: best.Name, Feasible: len(feasible), Total: best.TotalScore}, nil
}
