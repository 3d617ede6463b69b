package framework

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/scorer/scan"
)

// Environment is what the profiles of a scheduler have in common, most of which plugins get by
// their Handle. NewProfile fills in what is nil, as far as said.
type Environment struct {
	// ClientSet, KubeConfig and Informers are the API server's; nil: there is none.
	ClientSet  clientset.Interface
	KubeConfig *restclient.Config
	Informers  informers.SharedInformerFactory
	// Recorder is where the plugins of a profile send events; nil: they are dropped.
	Recorder func(profile string) events.EventRecorderLogger
	// Snapshot shows nodes and their pods; nil: there are none.
	Snapshot fwk.SharedLister
	// Nominator keeps nominations; nil: it keeps none.
	Nominator fwk.PodNominator
	// Activator puts pods into the active queue; nil: it does nothing.
	Activator fwk.PodActivator
	// Extenders are those of the configuration.
	Extenders []fwk.Extender
	// BuiltIn runs the built-in plugins of a profile for out-of-tree plugins that ask through their Handle;
	// nil, or giving nil: out-of-tree plugins are asked alone.
	BuiltIn func(profile string) BuiltInRunner
	// Waiting and PreBinding are filled in.
	Waiting    *WaitingPods
	PreBinding *PodsInPreBind
	// Parallelism is how many nodes are looked at at once; 0: DefaultParallelism.
	Parallelism int
	// Clock measures, and times out what waits; nil: the real one.
	Clock clock.WithDelayedExecution
	// Meter takes what is measured; nil: nobody does.
	Meter Meter
	// Met is told where a plugin has panicked, on any goroutine; nil: nobody is.
	Met func(plugin, point string, why *scan.Panic)
}

// BuiltInRunner runs the built-in plugins of one profile on views. Any goroutine may call it.
type BuiltInRunner interface {
	// Filter judges a node as its view is.
	Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status
	// Move tells that another pod has been added to the view, or taken out.
	Move(ctx context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo, added bool) *fwk.Status
	// Score gives, for each node, the plugins' scores times their weights.
	Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) ([][]fwk.PluginScore, *fwk.Status)
}

// complete fills in what is nil.
func (e *Environment) complete() {
	if e.Clock == nil {
		e.Clock = clock.RealClock{}
	}
	if e.Waiting == nil {
		e.Waiting = NewWaitingPods(e.Clock)
	}
	if e.PreBinding == nil {
		e.PreBinding = NewPodsInPreBind()
	}
	if e.Parallelism <= 0 {
		e.Parallelism = DefaultParallelism
	}
	if e.Meter == nil {
		e.Meter = noMeter{}
	}
	if e.Met == nil {
		e.Met = func(string, string, *scan.Panic) {}
	}
	if e.Snapshot == nil {
		e.Snapshot = noNodes{}
	}
	if e.Nominator == nil {
		e.Nominator = noNominator{}
	}
	if e.Activator == nil {
		e.Activator = noActivator{}
	}
	if e.Recorder == nil {
		e.Recorder = func(string) events.EventRecorderLogger { return noEvents{} }
	}
	if e.BuiltIn == nil {
		e.BuiltIn = func(string) BuiltInRunner { return nil }
	}
}

// noNominator keeps no nomination.
type noNominator struct{}

func (noNominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (noNominator) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (noNominator) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (noNominator) NominatedPodsForNode(string) []fwk.PodInfo                     { return nil }

// noActivator has no queue.
type noActivator struct{}

func (noActivator) Activate(klog.Logger, map[string]*v1.Pod) {}
