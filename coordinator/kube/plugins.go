package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Plugins is what compiled-in plugins have of the API server. What they write is sent by a leader
// only, as all else is; what they read is not limited.
type Plugins struct {
	// Config makes clients, behind the fence; Client is one.
	Config *rest.Config
	Client kubernetes.Interface
	// Informers are those of the Source where it has a kind, and others beside.
	Informers informers.SharedInformerFactory

	dynamic     dynamicinformer.DynamicSharedInformerFactory
	broadcaster events.EventBroadcaster
	started     sync.Once
	registered  []cache.ResourceEventHandlerRegistration
}

// NewPlugins makes it, before the Source runs. The Source has to keep whole what plugins may look at.
func NewPlugins(c *Clients, s *Source) (*Plugins, error) {
	cfg := c.cfg.rest("/plugins")
	cfg.RateLimiter = c.cfg.limiter()
	cfg.Wrap(c.cfg.fenced)
	g := &Plugins{Config: cfg}
	var err error
	if g.Client, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("client for plugins: %w", err)
	}
	plain := rest.CopyConfig(cfg)
	plain.ContentType, plain.AcceptContentTypes = "", "" // custom resources have no protobuf
	others, err := dynamic.NewForConfig(plain)
	if err != nil {
		return nil, fmt.Errorf("dynamic client for plugins: %w", err)
	}
	g.dynamic = dynamicinformer.NewDynamicSharedInformerFactory(others, 0)
	g.Informers = informers.NewSharedInformerFactory(c.Reads, 0)
	for _, one := range s.sources {
		if err := one.informer.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}); err != nil {
			return nil, fmt.Errorf("informer of %s: %w", one.kind.Plural(), err)
		}
		ours := func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return running{one.informer} }
		g.Informers.InformerFor(exampleOf(one.kind), ours)
	}
	g.broadcaster = events.NewBroadcaster(&events.EventSinkImpl{Interface: g.Client.EventsV1()})
	return g, nil
}

// exampleOf is an object of a kind.
func exampleOf(k objects.Kind) runtime.Object {
	switch k {
	case objects.KindNode:
		return &v1.Node{}
	case objects.KindPod:
		return &v1.Pod{}
	case objects.KindNamespace:
		return &v1.Namespace{}
	case objects.KindService:
		return &v1.Service{}
	case objects.KindReplicationController:
		return &v1.ReplicationController{}
	case objects.KindReplicaSet:
		return &appsv1.ReplicaSet{}
	case objects.KindStatefulSet:
		return &appsv1.StatefulSet{}
	case objects.KindPersistentVolume:
		return &v1.PersistentVolume{}
	case objects.KindPersistentVolumeClaim:
		return &v1.PersistentVolumeClaim{}
	case objects.KindStorageClass:
		return &storagev1.StorageClass{}
	case objects.KindCSINode:
		return &storagev1.CSINode{}
	case objects.KindCSIDriver:
		return &storagev1.CSIDriver{}
	case objects.KindCSIStorageCapacity:
		return &storagev1.CSIStorageCapacity{}
	case objects.KindVolumeAttachment:
		return &storagev1.VolumeAttachment{}
	case objects.KindPodDisruptionBudget:
		return &policyv1.PodDisruptionBudget{}
	case objects.KindPodGroup:
		return &schedulingv1alpha2.PodGroup{}
	case objects.KindDeviceClass:
		return &resourcev1.DeviceClass{}
	case objects.KindResourceSlice:
		return &resourcev1.ResourceSlice{}
	case objects.KindResourceClaim:
		return &resourcev1.ResourceClaim{}
	}
	panic("no example of " + string(k)) // a kind was added to objects.Kinds
}

// running is an informer that somebody else runs.
type running struct{ cache.SharedIndexInformer }

// Run is part of cache.SharedIndexInformer.
func (running) Run(stop <-chan struct{}) { <-stop }

// RunWithContext is part of cache.SharedIndexInformer.
func (running) RunWithContext(ctx context.Context) { <-ctx.Done() }

// Recorder is where the plugins of a profile send events.
func (g *Plugins) Recorder(profile string) events.EventRecorderLogger {
	return g.broadcaster.NewRecorder(scheme.Scheme, profile)
}

// Watch has changes of resources told that the Source does not have, by the names that plugins
// register: those of upstream, or plural.version.group. It comes before Start.
func (g *Plugins) Watch(resources []string, tell func(resource string, old, now any)) error {
	for _, r := range resources {
		informer := g.informerOf(r)
		if informer == nil {
			klog.Background().Error(nil, "Incorrect event registration", "gvk", r)
			continue
		}
		reg, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(now any) { tell(r, nil, now) },
			UpdateFunc: func(old, now any) { tell(r, old, now) },
			DeleteFunc: func(old any) {
				if gone, ok := old.(cache.DeletedFinalStateUnknown); ok {
					old = gone.Obj
				}
				tell(r, old, nil)
			},
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", r, err)
		}
		g.registered = append(g.registered, reg)
	}
	return nil
}

// informerOf is that of a resource; nil: it has no name that says where it is.
func (g *Plugins) informerOf(resource string) cache.SharedIndexInformer {
	switch resource {
	case "scheduling.k8s.io/PodGroup":
		return g.Informers.Scheduling().V1alpha2().PodGroups().Informer()
	case "resource.k8s.io/ResourceClaim":
		return g.Informers.Resource().V1().ResourceClaims().Informer()
	case "resource.k8s.io/ResourceSlice":
		return g.Informers.Resource().V1().ResourceSlices().Informer()
	case "resource.k8s.io/DeviceClass":
		return g.Informers.Resource().V1().DeviceClasses().Informer()
	}
	if strings.Count(resource, ".") < 2 {
		return nil
	}
	gvr, _ := schema.ParseResourceArg(resource)
	return g.dynamic.ForResource(*gvr).Informer()
}

// Start runs the informers that plugins have asked for until ctx ends, and returns when their objects
// were there once and handlers have seen them.
func (g *Plugins) Start(ctx context.Context) error {
	g.started.Do(func() {
		if err := g.broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Events of plugins are not recorded")
		}
	})
	g.Informers.Start(ctx.Done())
	g.dynamic.Start(ctx.Done())
	for kind, synced := range g.Informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("informer of %v: %w", kind, context.Cause(ctx))
		}
	}
	for gvr, synced := range g.dynamic.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("informer of %v: %w", gvr, context.Cause(ctx))
		}
	}
	for _, reg := range g.registered {
		if !cache.WaitFor(ctx, "", reg.HasSyncedChecker()) {
			return fmt.Errorf("handlers of plugins' informers: %w", context.Cause(ctx))
		}
	}
	return nil
}
