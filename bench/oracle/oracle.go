package oracle

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Oracle is a cluster, and upstream's plugins to judge pods with.
type Oracle struct {
	*Cluster
	framework framework.Framework
	// plugins are those of the framework, which itself gives no access to them.
	plugins map[string]fwk.Plugin
}

// New makes an oracle with an empty cluster. It works until ctx ends.
func New(ctx context.Context, p Profile) (*Oracle, error) {
	metrics.Register()
	prof, err := p.internal()
	if err != nil {
		return nil, err
	}
	ctx = klog.NewContext(ctx, quiet())
	o := &Oracle{Cluster: newCluster(ctx), plugins: map[string]fwk.Plugin{}}
	o.framework, err = frameworkruntime.NewFramework(ctx, o.registry(), prof,
		frameworkruntime.WithSnapshotSharedLister(o.Cluster),
		frameworkruntime.WithPodNominator(nobody{}),
		frameworkruntime.WithSharedDRAManager(noDevices{}),
		frameworkruntime.WithParallelism(1))
	if err != nil {
		return nil, fmt.Errorf("make framework: %w", err)
	}
	return o, nil
}

// registry is upstream's, with each plugin that it makes noted down.
func (o *Oracle) registry() frameworkruntime.Registry {
	r := plugins.NewInTreeRegistry()
	noted := maps.Clone(r)
	for name, factory := range r {
		noted[name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			p, err := factory(ctx, args, h)
			o.plugins[name] = p
			return p, err
		}
	}
	return noted
}

// nobody is a nominator without nominated pods. What it is not asked for, it does not
// have.
type nobody struct{ fwk.PodNominator }

func (nobody) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

// noDevices is a cluster in which no device class stands for an extended resource. What
// it is not asked for, it does not have.
type noDevices struct{ fwk.SharedDRAManager }

func (noDevices) DeviceClassResolver() fwk.DeviceClassResolver { return noClasses{} }

type noClasses struct{}

func (noClasses) GetDeviceClass(v1.ResourceName) *resourcev1.DeviceClass { return nil }

// quiet is a logger for what upstream says meanwhile: it drops all.
func quiet() klog.Logger { return klog.Logger{} }
