package oracle

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Ask has f ask upstream's plugins about a pod as a plugin of its profile would, once PreFilter
// has run: asked with the state that it has left, and the views of all nodes. It is false where a
// PreFilter plugin has rejected the pod, or failed; f is not called then.
func (o *Oracle) Ask(ctx context.Context, pod *v1.Pod,
	f func(asked fwk.PluginsRunner, state fwk.CycleState, nodes []fwk.NodeInfo),
) (bool, error) {
	ctx = klog.NewContext(ctx, quiet())
	if err := o.refresh(); err != nil {
		return false, fmt.Errorf("snapshot: %w", err)
	}
	nodes, err := o.List()
	if err != nil {
		return false, err
	}
	p := o.profileOf(pod)
	if p == nil {
		return false, fmt.Errorf("pod %s/%s: there is no profile %q", pod.Namespace, pod.Name, pod.Spec.SchedulerName)
	}
	state := framework.NewCycleState()
	if _, status, _ := p.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return false, nil
	}
	f(p, state, nodes)
	return true, nil
}

// Plugin is upstream's plugin of a name in the profile that a pod asks for; nil: the profile has none.
func (o *Oracle) Plugin(pod *v1.Pod, name string) fwk.Plugin { return o.profileOf(pod).plugins[name] }
