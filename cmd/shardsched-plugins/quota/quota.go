package quota

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/cmd/shardsched-plugins/internal/args"
)

// Name is the plugin's in a profile.
const Name = "NamespaceQuota"

// Args are the plugin's arguments.
type Args struct {
	// Quotas bound namespaces, each named once.
	Quotas []Quota `json:"quotas"`
}

// Quota is how much the pods of a namespace may request together.
type Quota struct {
	Namespace string          `json:"namespace"`
	Max       v1.ResourceList `json:"max"`
}

// Plugin is the quota plugin of one profile.
type Plugin struct {
	max    map[string]v1.ResourceList
	lister corelisters.PodLister

	mu   sync.Mutex
	used map[string]v1.ResourceList // by namespace; guarded by mu
	pods map[types.UID]share        // guarded by mu
}

// share is what one pod takes.
type share struct {
	namespace string
	requests  v1.ResourceList
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// New makes the plugin. It follows pods with the handle's informers.
func New(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	var a Args
	if err := args.Decode(Name, obj, &a); err != nil {
		return nil, err
	}
	p := &Plugin{max: map[string]v1.ResourceList{}, used: map[string]v1.ResourceList{}, pods: map[types.UID]share{}}
	for i, q := range a.Quotas {
		switch _, twice := p.max[q.Namespace]; {
		case q.Namespace == "":
			return nil, fmt.Errorf("args of %s: quotas[%d].namespace is empty", Name, i)
		case twice:
			return nil, fmt.Errorf("args of %s: quotas[%d].namespace: %q is named twice", Name, i, q.Namespace)
		}
		p.max[q.Namespace] = q.Max
	}
	informers := h.SharedInformerFactory()
	if informers == nil {
		return nil, fmt.Errorf("plugin %s needs an API server", Name)
	}
	pods := informers.Core().V1().Pods()
	p.lister = pods.Lister()
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.seen(obj) },
		UpdateFunc: func(_, obj any) { p.seen(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				p.give(pod.UID)
			}
		},
	})
	return p, err
}

// Name is the plugin's name.
func (p *Plugin) Name() string { return Name }

func (p *Plugin) seen(obj any) {
	pod, ok := obj.(*v1.Pod)
	switch {
	case !ok || pod.Spec.NodeName == "":
	case ended(pod):
		p.give(pod.UID)
	default:
		p.take(pod)
	}
}

func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// take counts a pod, once.
func (p *Plugin) take(pod *v1.Pod) {
	if p.max[pod.Namespace] == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.pods[pod.UID]; known {
		return
	}
	s := share{pod.Namespace, requests(pod)}
	p.pods[pod.UID] = s
	p.add(s, 1)
}

// give takes a pod out of the count, where it is in it.
func (p *Plugin) give(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, known := p.pods[uid]; known {
		delete(p.pods, uid)
		p.add(s, -1)
	}
}

// add adds a share to its namespace's sum, or takes it. p.mu is held.
func (p *Plugin) add(s share, sign int) {
	used := p.used[s.namespace]
	if used == nil {
		used = v1.ResourceList{}
		p.used[s.namespace] = used
	}
	for name, q := range s.requests {
		sum := used[name]
		if sign > 0 {
			sum.Add(q)
		} else {
			sum.Sub(q)
		}
		used[name] = sum
	}
}

func requests(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// PreFilter refuses a pod that would take its namespace beyond its quota.
func (p *Plugin) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	limits := p.max[pod.Namespace]
	if limits == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, q := range requests(pod) {
		limit, bounded := limits[name]
		if !bounded {
			continue
		}
		sum := used(p.used[pod.Namespace], name)
		sum.Add(q)
		if sum.Cmp(limit) > 0 {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
				fmt.Sprintf("namespace %q would use %s of %s %s", pod.Namespace, sum.String(), limit.String(), name))
		}
	}
	return nil, nil
}

func used(list v1.ResourceList, name v1.ResourceName) resource.Quantity {
	q := list[name]
	return q.DeepCopy()
}

// PreFilterExtensions are none: other pods on a node change nothing.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Reserve takes a pod's share.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	p.take(pod)
	return nil
}

// Unreserve gives it back.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.give(pod.UID)
}

// EventsToRegister says that a pod that was refused is worth another try when another of its
// namespace goes.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, old, _ any) (fwk.QueueingHint, error) {
			gone, ok := old.(*v1.Pod)
			switch {
			case !ok:
				return fwk.Queue, nil
			case gone.Namespace != pod.Namespace:
				return fwk.QueueSkip, nil
			}
			// The queue may hear of it before this plugin's handler does, and there is no
			// second event. The informer's store knows by then.
			if now, err := p.lister.Pods(gone.Namespace).Get(gone.Name); err != nil || now.UID != gone.UID || ended(now) {
				p.give(gone.UID)
			}
			return fwk.Queue, nil
		},
	}}, nil
}
