package oracle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// GroupPreemption is what upstream's workload-aware preemption makes of a pod group that does not fit.
type GroupPreemption struct {
	// Refused is why the pod group gets no room; empty: it gets some.
	Refused string
	// Victims are the pods that have to leave and do not yet, namespace/name, sorted.
	Victims []string
}

// PreemptGroup runs workload-aware preemption for members that have no node, in their order. Nobody is evicted.
func (o *Oracle) PreemptGroup(ctx context.Context, members []*v1.Pod) (*GroupPreemption, error) {
	ctx = klog.NewContext(ctx, quiet())
	p, g := o.profileOf(members[0]), o.PodGroup(members[0])
	switch {
	case g == nil:
		return nil, fmt.Errorf("pod %s/%s: its pod group is not there", members[0].Namespace, members[0].Name)
	case len(p.PodGroupPostFilterPlugins()) == 0:
		return &GroupPreemption{Refused: "default preemption plugin is not registered, workload aware preemption is disabled"}, nil
	case g.Spec.SchedulingConstraints != nil && len(g.Spec.SchedulingConstraints.Topology) > 0:
		return &GroupPreemption{Refused: "workload aware preemption is not supported for pod groups with scheduling constraints"}, nil
	}
	if err := o.refresh(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	defer func() { o.stale = true }() // victims have left the snapshot
	out := &GroupPreemption{}
	executor := preemption.NewExecutor(p, feature.Features{}) // without SchedulerAsyncPreemption: all are told before it returns
	executor.PreemptPod = func(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *v1.Pod, _ string) error {
		out.Victims = append(out.Victims, victim.Namespace+"/"+victim.Name)
		return nil
	}
	status := preemption.NewPodGroupEvaluator(p, executor).Preempt(ctx, g, members, func(ctx context.Context) *fwk.Status {
		return o.placeGroup(ctx, members)
	})
	slices.Sort(out.Victims)
	if status.IsError() {
		return nil, status.AsError()
	}
	out.Refused = status.Message()
	return out, nil
}

// placeGroup places members in the snapshot as it is, as upstream's cycle of a pod group does without PostFilter plugins, and takes them
// from it. Success: a quorum fits.
func (o *Oracle) placeGroup(ctx context.Context, members []*v1.Pod) (status *fwk.Status) {
	status = fwk.NewStatus(fwk.Unschedulable, "pod group is unschedulable")
	for _, pod := range members {
		v, err := o.judgeNow(ctx, pod, nil)
		switch {
		case err != nil:
			return fwk.AsStatus(err)
		case v.Rejected():
			continue
		case v.Err != nil:
			return fwk.AsStatus(v.Err)
		}
		placed, p, state := pod.DeepCopy(), v.cycle.profile, v.cycle.state
		placed.Spec.NodeName = v.first()
		info, _ := framework.NewPodInfo(placed) // terms that can't be read count as none
		if err := o.AssumePod(info); err != nil {
			return fwk.AsStatus(err)
		}
		defer func() {
			p.RunReservePluginsUnreserve(ctx, state, placed, placed.Spec.NodeName)
			if err := o.ForgetPod(quiet(), placed); err != nil {
				status = fwk.AsStatus(errors.Join(err, status.AsError()))
			}
		}()
		if s := p.RunReservePluginsReserve(ctx, state, placed, placed.Spec.NodeName); !s.IsSuccess() {
			return s
		}
		if _, s := p.RunPermitPlugins(ctx, state, placed, placed.Spec.NodeName); s.IsSuccess() {
			status = nil
		}
	}
	return status
}

// first is the node that is first by name of those with the highest total.
func (v *Verdict) first() string {
	best, scored := v.Best()
	for _, node := range slices.Sorted(maps.Keys(v.Feasible)) {
		if !scored || v.Feasible[node].Total == best {
			return node
		}
	}
	return ""
}
