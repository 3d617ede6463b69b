package outoftree

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Where there is no API server, plugins have a client that says so, and informers of what the loop
// itself knows:
//
//	Load, Deliver ──> feed ──list, watch──> informers ──> plugins' handlers
//
// They run where a profile has out-of-tree plugins.

// ErrNoServer is what the client of plugins says where there is no API server.
var ErrNoServer = errors.New("there is no API server: shardsched runs without Kubernetes")

// refusing is a transport that sends nothing.
type refusing struct{}

// RoundTrip is part of http.RoundTripper.
func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, ErrNoServer)
}

// newLocal gives what plugins have without an API server.
func newLocal() (kubernetes.Interface, *localInformers, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://none.invalid", Transport: refusing{}, QPS: -1})
	if err != nil {
		return nil, nil, fmt.Errorf("client for plugins: %w", err)
	}
	l := &localInformers{SharedInformerFactory: informers.NewSharedInformerFactory(client, 0), feeds: map[string]*feed{}}
	for _, example := range []runtime.Object{
		&v1.Node{}, &v1.Pod{}, &v1.Namespace{}, &v1.Service{}, &v1.ReplicationController{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
		&v1.PersistentVolume{}, &v1.PersistentVolumeClaim{}, &storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{},
		&storagev1.CSIStorageCapacity{}, &storagev1.VolumeAttachment{}, &policyv1.PodDisruptionBudget{},
		&resourcev1.DeviceClass{}, &resourcev1.ResourceSlice{}, &resourcev1.ResourceClaim{}, &resourcev1.ResourceClaimTemplate{},
		&schedulingv1alpha2.PodGroup{}, &schedulingv1.PriorityClass{}, &v1.LimitRange{}, &nodev1.RuntimeClass{},
	} {
		f := newFeed()
		l.feeds[kindOf(example)] = f
		informer := l.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(&cache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch}, example, 0,
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		})
		l.synced = append(l.synced, informer.HasSyncedChecker())
	}
	return client, l, nil
}

// localInformers are informers that a scheduler feeds. Those of what it does not know find no API
// server.
type localInformers struct {
	informers.SharedInformerFactory
	feeds map[string]*feed // by kind
	// synced are the informers of feeds.
	synced []cache.DoneChecker
}

// kindOf is the kind of an object that the loop knows; empty: it does not.
func kindOf(obj any) string {
	switch obj.(type) {
	case *v1.Node:
		return string(objects.KindNode)
	case *v1.Pod:
		return string(objects.KindPod)
	case *v1.Namespace:
		return string(objects.KindNamespace)
	case *v1.Service:
		return string(objects.KindService)
	case *v1.ReplicationController:
		return string(objects.KindReplicationController)
	case *appsv1.ReplicaSet:
		return string(objects.KindReplicaSet)
	case *appsv1.StatefulSet:
		return string(objects.KindStatefulSet)
	case *v1.PersistentVolume:
		return string(objects.KindPersistentVolume)
	case *v1.PersistentVolumeClaim:
		return string(objects.KindPersistentVolumeClaim)
	case *storagev1.StorageClass:
		return string(objects.KindStorageClass)
	case *storagev1.CSINode:
		return string(objects.KindCSINode)
	case *storagev1.CSIDriver:
		return string(objects.KindCSIDriver)
	case *storagev1.CSIStorageCapacity:
		return string(objects.KindCSIStorageCapacity)
	case *storagev1.VolumeAttachment:
		return string(objects.KindVolumeAttachment)
	case *policyv1.PodDisruptionBudget:
		return string(objects.KindPodDisruptionBudget)
	case *resourcev1.DeviceClass:
		return string(objects.KindDeviceClass)
	case *resourcev1.ResourceSlice:
		return string(objects.KindResourceSlice)
	case *resourcev1.ResourceClaim:
		return string(objects.KindResourceClaim)
	case *resourcev1.ResourceClaimTemplate:
		return string(objects.KindResourceClaimTemplate)
	case *schedulingv1alpha2.PodGroup:
		return string(objects.KindPodGroup)
	case *schedulingv1.PriorityClass:
		return string(objects.KindPriorityClass)
	case *v1.LimitRange:
		return string(objects.KindLimitRange)
	case *nodev1.RuntimeClass:
		return string(objects.KindRuntimeClass)
	}
	return ""
}

// set tells of an object as it is now; gone: that it is not any more.
func (l *localInformers) set(obj any, gone bool) {
	o, ok := obj.(feedable)
	if l == nil || !ok {
		return
	}
	if f := l.feeds[kindOf(obj)]; f != nil {
		f.set(o, gone || isOver(obj))
	}
}

// isOver tells of a pod that has ended: informers of pods have none of those.
func isOver(obj any) bool {
	p, ok := obj.(*v1.Pod)
	return ok && objects.IsTerminal(p)
}

// load tells of all objects.
func (l *localInformers) load(all *objects.Snapshot) {
	for _, o := range all.Cluster {
		l.set(o, false)
	}
	for _, n := range all.Nodes {
		l.set(n, false)
	}
	for _, p := range all.Pods {
		l.set(p, false)
	}
}

// run runs the informers until ctx ends, and returns when they have what there is.
func (l *localInformers) run(ctx context.Context) {
	l.Start(ctx.Done())
	cache.WaitFor(ctx, "", l.synced...)
}

// feedable is an object that an informer can hold.
type feedable interface {
	runtime.Object
	metav1.Object
}

// feedKept is how many changes a feed keeps for those who have listed before.
const feedKept = 4096

// feed is the objects of one kind, as an API server has them.
type feed struct {
	mu      sync.Mutex
	objects map[string]runtime.Object // by namespace/name
	// version counts the changes, of which the newest are kept.
	version uint64
	changes []watch.Event
	// moved is closed, and made anew, with each change.
	moved chan struct{}
}

func newFeed() *feed { return &feed{objects: map[string]runtime.Object{}, moved: make(chan struct{})} }

func (f *feed) set(o feedable, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := o.GetNamespace() + "/" + o.GetName()
	_, there := f.objects[key]
	e := watch.Event{Type: watch.Modified, Object: o}
	switch {
	case gone && !there:
		return
	case gone:
		e.Type = watch.Deleted
		delete(f.objects, key)
	case !there:
		e.Type = watch.Added
		f.objects[key] = o
	default:
		f.objects[key] = o
	}
	f.version++
	if f.changes = append(f.changes, e); len(f.changes) > 2*feedKept {
		f.changes = append([]watch.Event{}, f.changes[len(f.changes)-feedKept:]...)
	}
	close(f.moved)
	f.moved = make(chan struct{})
}

func (f *feed) list(_ context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &v1.List{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(f.version, 10)}}
	for _, o := range f.objects {
		out.Items = append(out.Items, runtime.RawExtension{Object: o})
	}
	return out, nil
}

// after gives the changes after a version, and what tells of the next; false where they are not kept.
func (f *feed) after(version uint64) (list []watch.Event, next <-chan struct{}, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.version - version
	if n > uint64(len(f.changes)) {
		return nil, nil, false
	}
	return f.changes[uint64(len(f.changes))-n:], f.moved, true
}

func (f *feed) watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		return nil, apierrors.NewMethodNotSupported(v1.Resource("objects"), "watch-list") // it is to list first
	}
	version, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("resource version %q: %w", o.ResourceVersion, err)
	}
	if _, _, ok := f.after(version); !ok {
		return nil, apierrors.NewResourceExpired("too old")
	}
	w := &feedWatch{events: make(chan watch.Event), stop: make(chan struct{})}
	go w.run(f, version)
	return w, nil
}

// feedWatch is one watch.
type feedWatch struct {
	events chan watch.Event
	stop   chan struct{}
	once   sync.Once
}

// Stop is part of watch.Interface.
func (w *feedWatch) Stop() { w.once.Do(func() { close(w.stop) }) }

// ResultChan is part of watch.Interface.
func (w *feedWatch) ResultChan() <-chan watch.Event { return w.events }

// run sends changes until the watch is stopped, or has fallen too far behind.
func (w *feedWatch) run(f *feed, version uint64) {
	defer close(w.events)
	for {
		list, next, ok := f.after(version)
		if !ok {
			return
		}
		for _, e := range list {
			select {
			case w.events <- e:
				version++
			case <-w.stop:
				return
			}
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-next:
		case <-w.stop:
			return
		}
	}
}
