package main

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	memory "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
	"k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
)

// Sizes as in kube-controller-manager, but for the periods: people and tests wait.
const (
	syncs        = 5
	claimSyncs   = 50
	resync       = time.Second
	garbageSyncs = 20
	garbageEvery = 10 * time.Second
	// A Job makes the first pod that failed again after so long, the next ones later and later; upstream after 10 s.
	jobBackoff = time.Second
)

func deployments(ctx context.Context, c cluster) (func(context.Context), error) {
	apps := c.objects.Apps().V1()
	d, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), c.objects.Core().V1().Pods(), c.client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { d.Run(ctx, syncs) }, nil
}

func replicaSets(ctx context.Context, c cluster) (func(context.Context), error) {
	r := replicaset.NewReplicaSetController(ctx, c.objects.Apps().V1().ReplicaSets(), c.objects.Core().V1().Pods(), c.client,
		replicaset.BurstReplicas)
	return func(ctx context.Context) { r.Run(ctx, syncs) }, nil
}

func statefulSets(ctx context.Context, c cluster) (func(context.Context), error) {
	core, apps := c.objects.Core().V1(), c.objects.Apps().V1()
	s := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(),
		apps.ControllerRevisions(), c.client)
	return func(ctx context.Context) { s.Run(ctx, syncs) }, nil
}

func daemonSets(ctx context.Context, c cluster) (func(context.Context), error) {
	core, apps := c.objects.Core().V1(), c.objects.Apps().V1()
	d, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), c.client,
		flowcontrol.NewBackOff(time.Second, 15*time.Minute))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { d.Run(ctx, syncs) }, nil
}

func jobs(ctx context.Context, c cluster) (func(context.Context), error) {
	job.DefaultJobPodFailureBackOff = jobBackoff
	j, err := job.NewController(ctx, c.client, c.objects.Core().V1().Pods(), c.objects.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { j.Run(ctx, syncs) }, nil
}

func cronJobs(ctx context.Context, c cluster) (func(context.Context), error) {
	batch := c.objects.Batch().V1()
	j, err := cronjob.NewControllerV2(ctx, batch.Jobs(), batch.CronJobs(), c.client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { j.Run(ctx, syncs) }, nil
}

// nodeLifecycles tells nodes whose kubelets are silent from others: it needs the controller heartbeat beside.
func nodeLifecycles(ctx context.Context, c cluster) (func(context.Context), error) {
	core := c.objects.Core().V1()
	n, err := nodelifecycle.NewNodeLifecycleController(ctx, c.objects.Coordination().V1().Leases(), core.Pods(), core.Nodes(),
		c.objects.Apps().V1().DaemonSets(), c.client, 5*time.Second, time.Minute, c.nodeGrace, 0.1, 0.01, 50, 0.55)
	if err != nil {
		return nil, err
	}
	return n.Run, nil
}

func taintEvictions(ctx context.Context, c cluster) (func(context.Context), error) {
	core := c.objects.Core().V1()
	t, err := tainteviction.New(ctx, c.client, core.Pods(), core.Nodes(), "taint-eviction-controller")
	if err != nil {
		return nil, err
	}
	return t.Run, nil
}

func disruptions(ctx context.Context, c cluster) (func(context.Context), error) {
	core, apps := c.objects.Core().V1(), c.objects.Apps().V1()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	scales, err := scale.NewForConfig(c.config, mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(c.client.Discovery()))
	if err != nil {
		return nil, err
	}
	d := disruption.NewDisruptionController(ctx, core.Pods(), c.objects.Policy().V1().PodDisruptionBudgets(), core.ReplicationControllers(),
		apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), c.client, mapper, scales, c.client.Discovery())
	return d.Run, nil
}

func namespaces(ctx context.Context, c cluster) (func(context.Context), error) {
	m, err := metadata.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	n := namespace.NewNamespaceController(ctx, c.client, m, c.client.Discovery().ServerPreferredNamespacedResources,
		c.objects.Core().V1().Namespaces(), resync, v1.FinalizerKubernetes)
	return func(ctx context.Context) { n.Run(ctx, syncs) }, nil
}

func volumes(ctx context.Context, c cluster) (func(context.Context), error) {
	core := c.objects.Core().V1()
	p, err := persistentvolume.NewController(ctx, persistentvolume.ControllerParameters{
		KubeClient: c.client, SyncPeriod: resync, EnableDynamicProvisioning: true,
		VolumeInformer: core.PersistentVolumes(), ClaimInformer: core.PersistentVolumeClaims(),
		ClassInformer: c.objects.Storage().V1().StorageClasses(), PodInformer: core.Pods(), NodeInformer: core.Nodes(),
	})
	if err != nil {
		return nil, err
	}
	return p.Run, nil
}

func resourceClaims(ctx context.Context, c cluster) (func(context.Context), error) {
	resources := c.objects.Resource().V1()
	r, err := resourceclaim.NewController(klog.FromContext(ctx), resourceclaim.Features{AdminAccess: true, PrioritizedList: true}, c.client,
		c.objects.Core().V1().Pods(), nil, resources.ResourceClaims(), resources.ResourceClaimTemplates())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { r.Run(ctx, claimSyncs) }, nil
}

func garbage(ctx context.Context, c cluster) (func(context.Context), error) {
	m, err := metadata.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	informers := informerfactory.NewInformerFactory(c.objects, metadatainformer.NewSharedInformerFactory(m, 0))
	g, err := garbagecollector.NewGarbageCollector(ctx, c.client, m, mapper, garbagecollector.DefaultIgnoredResources(), informers,
		c.started)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		var both sync.WaitGroup
		both.Go(func() { g.Sync(ctx, c.client.Discovery(), garbageEvery) })
		g.Run(ctx, garbageSyncs, garbageEvery)
		both.Wait()
	}, nil
}
