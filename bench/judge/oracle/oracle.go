package oracle

import (
	"context"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Oracle is a cluster, and upstream's plugins to judge pods with.
type Oracle struct {
	*Cluster
	profiles map[string]*profile
	first    *profile // whose queue sort plugin counts
	api      recorder
	// open makes the profiles anew.
	open func() error
	// sampling says that Decide does not look at all nodes; start is where it goes on.
	sampling bool
	start    int
}

// profile is upstream's framework for one profile.
type profile struct {
	framework.Framework
	// plugins are those of the framework, which itself gives no access to them.
	plugins map[string]fwk.Plugin
	weights map[string]int64
}

// New makes an oracle with an empty cluster. It works until ctx ends.
func New(ctx context.Context, c *Config) (*Oracle, error) { return NewParallel(ctx, c, 1) }

// NewParallel is New with as many goroutines for Filter and Score as a kube-scheduler of that
// parallelism has.
func NewParallel(ctx context.Context, c *Config, parallelism int) (*Oracle, error) {
	metrics.Register()
	ctx = klog.NewContext(ctx, quiet())
	cluster, err := newCluster(ctx)
	if err != nil {
		return nil, err
	}
	o := &Oracle{Cluster: cluster, profiles: map[string]*profile{}}
	o.responsible, o.api.objects = o.Responsible, o.objects
	o.open = func() error { return o.profile(ctx, c, parallelism) }
	if err := o.open(); err != nil {
		return nil, err
	}
	o.nominated.open(o)
	return o, nil
}

// profile makes a framework for each profile.
func (o *Oracle) profile(ctx context.Context, c *Config, parallelism int) error {
	for i := range c.internal.Profiles {
		p := &profile{plugins: map[string]fwk.Plugin{}, weights: map[string]int64{}}
		var err error
		p.Framework, err = frameworkruntime.NewFramework(ctx, p.registry(), &c.internal.Profiles[i],
			frameworkruntime.WithSnapshotSharedLister(o.Cluster),
			frameworkruntime.WithInformerFactory(o.objects.informers),
			frameworkruntime.WithClientSet(&o.api),
			frameworkruntime.WithEventRecorder(&events.FakeRecorder{}), // says nothing
			frameworkruntime.WithPodNominator(&o.nominated),
			frameworkruntime.WithPodActivator(nobody{}),
			frameworkruntime.WithPodGroupManager(o.cache),
			frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
			frameworkruntime.WithSharedDRAManager(o.objects.devices),
			frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(o.objects.informers.Storage().V1().CSINodes().Lister())),
			frameworkruntime.WithParallelism(parallelism))
		if err != nil {
			return fmt.Errorf("make framework: %w", err)
		}
		for _, e := range p.ListPlugins().Score.Enabled {
			p.weights[e.Name] = int64(e.Weight)
		}
		o.profiles[p.ProfileName()] = p
		if i == 0 {
			o.first = p
		}
	}
	return nil
}

// refresh brings the snapshot up to date, and makes the profiles anew where upstream's NodeResourcesFit
// remembers of a device or a node what is no longer so: which devices a class has, and which nodes
// reach them, it finds out once.
func (o *Oracle) refresh() error {
	if o.objects.devices.stale {
		o.objects.devices.stale = false
		if err := o.open(); err != nil {
			return err
		}
	}
	return o.Cluster.refresh()
}

// registry is upstream's, with each plugin that it makes noted down.
func (p *profile) registry() frameworkruntime.Registry {
	r := plugins.NewInTreeRegistry()
	noted := maps.Clone(r)
	for name, factory := range r {
		noted[name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			made, err := factory(ctx, args, h)
			p.plugins[name] = made
			return made, err
		}
	}
	return noted
}

// profileOf is the profile that a pod asks for; nil: there is none.
func (o *Oracle) profileOf(pod *v1.Pod) *profile { return o.profiles[pod.Spec.SchedulerName] }

// Responsible tells whether a pod asks for one of the profiles.
func (o *Oracle) Responsible(pod *v1.Pod) bool { return o.profileOf(pod) != nil }

// Gated is why a pod may not enter the queue yet; empty: it may.
func (o *Oracle) Gated(ctx context.Context, pod *v1.Pod) string {
	for _, p := range o.profileOf(pod).PreEnqueuePlugins() {
		if status := p.PreEnqueue(ctx, pod); !status.IsSuccess() {
			return status.Message()
		}
	}
	return ""
}

// Before tells whether a pod that came to the queue at one time is to be decided before
// another that came at another.
func (o *Oracle) Before(a *v1.Pod, at time.Time, b *v1.Pod, bt time.Time) bool {
	return o.first.QueueSortFunc()(queued(a, at), queued(b, bt))
}

func queued(pod *v1.Pod, at time.Time) *framework.QueuedPodInfo {
	return &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: pod}, Timestamp: at}
}

// quiet is a logger for what upstream says meanwhile: it drops all.
func quiet() klog.Logger { return klog.Logger{} }
