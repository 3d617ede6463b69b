package framework

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
)

// handle is what the plugins of a profile have.
type handle struct {
	fwk.PodNominator
	fwk.PodActivator
	profile *Profile
}

var _ fwk.Handle = (*handle)(nil)

func newHandle(p *Profile) *handle { return &handle{p.env.Nominator, p.env.Activator, p} }

func (h *handle) runner() runner { return runner{h.profile, h.profile.env.BuiltIn(h.profile.name)} }

// RunPreScorePlugins is part of fwk.Handle.
func (h *handle) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	return h.profile.runPreScore(ctx, state, pod, nodes)
}

// RunScorePlugins is part of fwk.Handle.
func (h *handle) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	return h.runner().runScore(ctx, state, pod, nodes)
}

// RunFilterPlugins is part of fwk.Handle.
func (h *handle) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return h.runner().filter(ctx, state, pod, node)
}

// RunFilterPluginsWithNominatedPods is part of fwk.Handle.
func (h *handle) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return h.runner().filterNominated(ctx, state, pod, node)
}

// RunPreFilterExtensionAddPod is part of fwk.Handle.
func (h *handle) RunPreFilterExtensionAddPod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	return h.runner().move(ctx, state, pod, other, node, true)
}

// RunPreFilterExtensionRemovePod is part of fwk.Handle.
func (h *handle) RunPreFilterExtensionRemovePod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	return h.runner().move(ctx, state, pod, other, node, false)
}

// SnapshotSharedLister is part of fwk.Handle.
func (h *handle) SnapshotSharedLister() fwk.SharedLister { return h.profile.env.Snapshot }

// IterateOverWaitingPods is part of fwk.Handle.
func (h *handle) IterateOverWaitingPods(f func(fwk.WaitingPod)) { h.profile.env.Waiting.Each(f) }

// GetWaitingPod is part of fwk.Handle.
func (h *handle) GetWaitingPod(uid types.UID) fwk.WaitingPod { return h.profile.env.Waiting.Get(uid) }

// RejectWaitingPod is part of fwk.Handle.
func (h *handle) RejectWaitingPod(uid types.UID) bool { return h.profile.env.Waiting.Reject(uid) }

// AddPodInPreBind is part of fwk.Handle.
func (h *handle) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	h.profile.env.PreBinding.Add(uid, cancel)
}

// GetPodInPreBind is part of fwk.Handle.
func (h *handle) GetPodInPreBind(uid types.UID) fwk.PodInPreBind {
	return h.profile.env.PreBinding.Get(uid)
}

// RemovePodInPreBind is part of fwk.Handle.
func (h *handle) RemovePodInPreBind(uid types.UID) { h.profile.env.PreBinding.Remove(uid) }

// ClientSet is part of fwk.Handle; nil without an API server.
func (h *handle) ClientSet() clientset.Interface { return h.profile.env.ClientSet }

// KubeConfig is part of fwk.Handle; nil without an API server.
func (h *handle) KubeConfig() *restclient.Config { return h.profile.env.KubeConfig }

// EventRecorder is part of fwk.Handle.
func (h *handle) EventRecorder() events.EventRecorderLogger {
	return h.profile.env.Recorder(h.profile.name)
}

// SharedInformerFactory is part of fwk.Handle; nil without an API server.
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory {
	return h.profile.env.Informers
}

// SharedDRAManager is part of fwk.Handle: nil, dynamic resources are not evaluated.
func (h *handle) SharedDRAManager() fwk.SharedDRAManager { return nil }

// SharedCSIManager is part of fwk.Handle; nil without an API server.
func (h *handle) SharedCSIManager() fwk.CSIManager { return csiNodesOf(h.profile.env.Informers) }

// Extenders is part of fwk.Handle.
func (h *handle) Extenders() []fwk.Extender { return h.profile.env.Extenders }

// Parallelizer is part of fwk.Handle.
func (h *handle) Parallelizer() fwk.Parallelizer { return parallelizer(h.profile.env.Parallelism) }

// APIDispatcher is part of fwk.Handle: nil, SchedulerAsyncAPICalls is off.
func (h *handle) APIDispatcher() fwk.APIDispatcher { return nil }

// APICacher is part of fwk.Handle: nil, SchedulerAsyncAPICalls is off.
func (h *handle) APICacher() fwk.APICacher { return nil }

// ProfileName is part of fwk.Handle.
func (h *handle) ProfileName() string { return h.profile.name }

// PodGroupManager is part of fwk.Handle: there is no pod group, GenericWorkload is off.
func (h *handle) PodGroupManager() fwk.PodGroupManager { return noPodGroups{} }

// SignPod is part of fwk.Handle: no pod has a signature.
func (h *handle) SignPod(context.Context, *v1.Pod) fwk.PodSignature { return nil }
