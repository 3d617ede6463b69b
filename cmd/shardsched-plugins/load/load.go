package load

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/cmd/shardsched-plugins/internal/args"
)

const (
	// Name is the plugin's in a profile.
	Name = "LoadAware"
	// CPU says how much of a node's CPU is in use, in percent; At when that was measured, as
	// RFC 3339.
	CPU = "load.shardsched.io/cpu-percent"
	At  = "load.shardsched.io/measured-at"
)

// Args are the plugin's arguments.
type Args struct {
	// TargetPercent is the utilisation to bring nodes to, 1 to 99; default 40.
	TargetPercent int64 `json:"targetPercent,omitempty"`
}

// Plugin is the load plugin of one profile.
type Plugin struct{ target int64 }

var _ fwk.ScorePlugin = (*Plugin)(nil)

// New makes the plugin.
func New(_ context.Context, obj runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	a := Args{TargetPercent: 40}
	if err := args.Decode(Name, obj, &a); err != nil {
		return nil, err
	}
	if a.TargetPercent < 1 || a.TargetPercent > 99 {
		return nil, fmt.Errorf("args of %s: targetPercent is %d, expected 1 to 99", Name, a.TargetPercent)
	}
	return &Plugin{target: a.TargetPercent}, nil
}

// Name is the plugin's name.
func (p *Plugin) Name() string { return Name }

// Score is 100 where the node would come to the target, and 0 where nothing is known of it.
func (p *Plugin) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	measured, err := strconv.ParseInt(node.Node().Annotations[CPU], 10, 64)
	capacity := node.GetAllocatable().GetMilliCPU()
	if err != nil || measured < 0 || capacity <= 0 {
		return fwk.MinScore, nil
	}
	expected := milliCPU(pod)
	if at, err := time.Parse(time.RFC3339, node.Node().Annotations[At]); err == nil {
		for _, other := range node.GetPods() {
			if start := other.GetPod().Status.StartTime; start == nil || start.Time.After(at) {
				expected += milliCPU(other.GetPod())
			}
		}
	}
	percent := measured + expected*100/capacity
	switch {
	case percent <= p.target:
		return fwk.MaxScore * percent / p.target, nil
	case percent >= 100:
		return fwk.MinScore, nil
	}
	return fwk.MaxScore * (100 - percent) / (100 - p.target), nil
}

// ScoreExtensions are none: scores are whole already.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// milliCPU is what a pod asks for, in thousandths.
func milliCPU(pod *v1.Pod) int64 {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return requests.Cpu().MilliValue()
}
