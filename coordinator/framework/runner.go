package framework

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// runner runs the plugins that look at a node: out-of-tree plugins, after the built-in ones where it has them.
type runner struct {
	*Profile
	builtIn BuiltInRunner // nil: out-of-tree plugins only
}

// filter asks each plugin whether a pod fits a node as its view is; the first that says no decides.
func (r runner) filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if r.builtIn != nil {
		if s := r.builtIn.Filter(ctx, state, pod, node); !s.IsSuccess() {
			return s
		}
	}
	skip := state.GetSkipFilterPlugins()
	for _, pl := range r.Profile.filter {
		if skip.Has(pl.Name()) {
			continue
		}
		s := r.call(pl, Filter.String(), func() *fwk.Status { return pl.Filter(r.named(ctx, Filter, pl), state, pod, node) })
		r.env.Meter.Evaluated(r.name, pl.Name(), Filter.String())
		if s.IsSuccess() {
			continue
		}
		if !s.IsRejected() {
			return fwk.AsStatus(fmt.Errorf("running %q filter plugin: %w", pl.Name(), s.AsError())).WithPlugin(pl.Name())
		}
		return by(pl, s)
	}
	return nil
}

// filterNominated asks whether a pod fits a node, with the pods that are nominated to it and of no
// lower priority, and without them.
func (r runner) filterNominated(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	with, added, failed := r.addNominated(ctx, state, pod, node)
	if failed != nil {
		return failed
	}
	if added == nil {
		return r.filter(ctx, state, pod, node)
	}
	if s := r.filter(ctx, with, pod, added); !s.IsSuccess() {
		return s
	}
	return r.filter(ctx, state, pod, node)
}

// addNominated gives copies of a state and a view with the pods in them that are nominated to the
// node and of no lower priority; nil: there are none.
func (r runner) addNominated(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo) (fwk.CycleState, fwk.NodeInfo, *fwk.Status) {
	var with fwk.CycleState
	var added fwk.NodeInfo
	for _, other := range r.env.Nominator.NominatedPodsForNode(node.Node().Name) {
		if corev1.PodPriority(other.GetPod()) < corev1.PodPriority(pod) || other.GetPod().UID == pod.UID {
			continue
		}
		if added == nil {
			with, added = state.Clone(), node.Snapshot()
		}
		added.AddPodInfo(other)
		if s := r.move(ctx, with, pod, other, added, true); !s.IsSuccess() {
			return nil, nil, fwk.AsStatus(s.AsError())
		}
	}
	return with, added, nil
}

// move tells the PreFilter plugins that another pod has come to a view, or left it.
func (r runner) move(ctx context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo, added bool) *fwk.Status {
	if r.builtIn != nil {
		if s := r.builtIn.Move(ctx, state, pod, other, node, added); !s.IsSuccess() {
			return s
		}
	}
	skip := state.GetSkipFilterPlugins()
	point, verb := addPod, "AddPod"
	if !added {
		point, verb = removePod, "RemovePod"
	}
	for _, pl := range r.preFilter {
		extensions := pl.PreFilterExtensions()
		if extensions == nil || skip.Has(pl.Name()) {
			continue
		}
		f := extensions.AddPod
		if !added {
			f = extensions.RemovePod
		}
		s := r.call(pl, point, func() *fwk.Status { return f(r.named(ctx, PreFilter, pl), state, pod, other, node) })
		if !s.IsSuccess() {
			return fwk.AsStatus(fmt.Errorf("running %s on PreFilter plugin %q: %w", verb, pl.Name(), s.AsError()))
		}
	}
	return nil
}

// filterNodes is filterNominated for many nodes, so many of them at once. An error ends it.
func (r runner) filterNodes(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) ([]*fwk.Status, *fwk.Status) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := make([]*fwk.Status, len(nodes))
	var failed failure[*fwk.Status]
	parallelizer(r.env.Parallelism).Until(ctx, len(nodes), func(i int) {
		s := r.filterNominated(ctx, state, pod, nodes[i])
		if s.IsError() {
			failed.note(i, s)
			cancel()
			return
		}
		out[i] = s
	}, Filter.String())
	if s, ok := failed.get(); ok {
		return nil, s
	}
	if ctx.Err() != nil {
		return nil, ended(ctx, Filter)
	}
	return out, nil
}

// ended is the status of a point whose context has ended before its work did.
func ended(ctx context.Context, at Point) *fwk.Status {
	return fwk.AsStatus(fmt.Errorf("running %s plugins: %w", at, context.Cause(ctx)))
}

// by is a status with the plugin that it is from. Plugins may return one and the same again and
// again: it is left as it is.
func by(pl fwk.Plugin, s *fwk.Status) *fwk.Status { return s.Clone().WithPlugin(pl.Name()) }

// failedBy is the error of a plugin, which has to be one.
func failedBy(plugin string, at Point, s *fwk.Status) error {
	if err := s.AsError(); err != nil {
		return err
	}
	return errors.New(at.String() + " plugin " + plugin + " returned " + s.Code().String())
}

// named is a context whose logger names the plugin, where anyone reads it.
func (p *Profile) named(ctx context.Context, at Point, pl fwk.Plugin) context.Context {
	logger := klog.FromContext(ctx)
	if !logger.V(4).Enabled() {
		return ctx
	}
	return klog.NewContext(ctx, klog.LoggerWithName(klog.LoggerWithName(logger, at.String()), pl.Name()))
}
