package hints

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// upstream is what upstream's plugins register for, and where their hints look things up.
type upstream struct {
	informers informers.SharedInformerFactory
	events    map[string][]fwk.ClusterEventWithHint
}

// newUpstream makes the plugins of a profile, with those of pod groups.
func newUpstream(t *testing.T, change func(*config.KubeSchedulerProfile)) *upstream {
	t.Helper()
	restore, err := oracle.PodGroups(oracle.Gates{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restore)
	metrics.Register()
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	cfg, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := &cfg.Profiles[0]
	change(profile)
	u := &upstream{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), events: map[string][]fwk.ClusterEventWithHint{}}
	registry := plugins.NewInTreeRegistry()
	for name, factory := range registry {
		registry[name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			p, err := factory(ctx, args, h)
			if e, ok := p.(fwk.EnqueueExtensions); ok && err == nil {
				u.events[name], err = e.EventsToRegister(ctx)
			}
			return p, err
		}
	}
	_, err = frameworkruntime.NewFramework(ctx, registry, profile,
		frameworkruntime.WithSnapshotSharedLister(noNodes{}),
		frameworkruntime.WithInformerFactory(u.informers),
		frameworkruntime.WithSharedDRAManager(noDevices{}),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(u.informers.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithParallelism(1))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// noNodes is a snapshot that no hint looks at.
type noNodes struct{ fwk.SharedLister }

func (noNodes) NodeInfos() fwk.NodeInfoLister       { return nil }
func (noNodes) StorageInfos() fwk.StorageInfoLister { return nil }

// noDevices is a cluster without device classes.
type noDevices struct{ fwk.SharedDRAManager }

func (noDevices) DeviceClassResolver() fwk.DeviceClassResolver { return noClasses{} }

type noClasses struct{}

func (noClasses) GetDeviceClass(v1.ResourceName) *resourcev1.DeviceClass { return nil }

// change is one event as upstream has it.
type change struct {
	event    fwk.ClusterEvent
	old, now any
}

// helps tells whether a change helps a pod that a plugin rejected.
func (u *upstream) helps(plugin string, pod *v1.Pod, c change) bool {
	added, taints := false, false
	for _, e := range u.events[plugin] {
		if e.Event.Resource == fwk.Node {
			added = added || e.Event.ActionType&fwk.Add != 0
			taints = taints || e.Event.ActionType&fwk.UpdateNodeTaint != 0
		}
		if !framework.MatchClusterEvents(e.Event, c.event) {
			continue
		}
		if e.QueueingHintFn == nil {
			return true
		}
		if hint, err := e.QueueingHintFn(klog.Logger{}, pod, c.old, c.now); err != nil || hint == fwk.Queue {
			return true
		}
	}
	implied := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}
	return added && !taints && framework.MatchClusterEvents(implied, c.event)
}
