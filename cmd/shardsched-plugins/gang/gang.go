package gang

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/cmd/shardsched-plugins/internal/args"
)

const (
	// Name is the plugin's in a profile.
	Name = "Gang"
	// NameLabel and SizeLabel are a pod's gang and how many pods make it complete.
	NameLabel = "gang.shardsched.io/name"
	SizeLabel = "gang.shardsched.io/size"
)

// Args are the plugin's arguments.
type Args struct {
	// PermitTimeout is how long a pod waits for the rest of its gang; default 60 s.
	PermitTimeout metav1.Duration `json:"permitTimeout,omitempty"`
}

// Plugin is the gang plugin of one profile.
type Plugin struct {
	handle  fwk.Handle
	timeout time.Duration

	mu    sync.Mutex
	gangs map[key]*gang // guarded by mu
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PermitPlugin      = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

type key struct{ namespace, name string }

// gang is what is known of one.
type gang struct {
	created map[types.UID]*v1.Pod  // pods that exist
	placed  map[types.UID]struct{} // pods that have a node, or are assumed on one
}

// New makes the plugin. It follows pods with the handle's informers.
func New(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	a := Args{PermitTimeout: metav1.Duration{Duration: time.Minute}}
	if err := args.Decode(Name, obj, &a); err != nil {
		return nil, err
	}
	if a.PermitTimeout.Duration <= 0 {
		return nil, fmt.Errorf("args of %s: permitTimeout is %v, expected more than 0", Name, a.PermitTimeout.Duration)
	}
	p := &Plugin{handle: h, timeout: a.PermitTimeout.Duration, gangs: map[key]*gang{}}
	informers := h.SharedInformerFactory()
	if informers == nil {
		return nil, fmt.Errorf("plugin %s needs an API server", Name)
	}
	_, err := informers.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.seen(obj) },
		UpdateFunc: func(_, obj any) { p.seen(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			p.deleted(obj)
		},
	})
	return p, err
}

// Name is the plugin's name.
func (p *Plugin) Name() string { return Name }

// of is a pod's gang and its size; false where it has none.
func of(pod *v1.Pod) (k key, size int, member bool, err error) {
	name, ok := pod.Labels[NameLabel]
	if !ok || name == "" {
		return key{}, 0, false, nil
	}
	size, err = strconv.Atoi(pod.Labels[SizeLabel])
	if err != nil || size < 1 {
		return key{}, 0, true, fmt.Errorf("label %s is %q, expected a number of 1 or more", SizeLabel, pod.Labels[SizeLabel])
	}
	return key{pod.Namespace, name}, size, true, nil
}

// get is a gang, made where there is none. p.mu is held.
func (p *Plugin) get(k key) *gang {
	g := p.gangs[k]
	if g == nil {
		g = &gang{created: map[types.UID]*v1.Pod{}, placed: map[types.UID]struct{}{}}
		p.gangs[k] = g
	}
	return g
}

// seen takes a pod in. Where its gang is all there then, those that were refused for that are tried.
func (p *Plugin) seen(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	k, size, member, err := of(pod)
	if !member || err != nil {
		return
	}
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		p.deleted(pod)
		return
	}
	p.mu.Lock()
	g := p.get(k)
	_, known := g.created[pod.UID]
	g.created[pod.UID] = pod
	if pod.Spec.NodeName != "" {
		g.placed[pod.UID] = struct{}{}
	}
	complete := !known && len(g.created) >= size
	p.mu.Unlock()
	if complete {
		_, others := p.standing(k)
		p.handle.Activate(klog.Background(), others)
	}
}

func (p *Plugin) deleted(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	k, _, member, err := of(pod)
	if !member || err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose(k, pod.UID, true)
}

// lose takes a pod's place from its gang, and the pod itself where it is gone. It returns how many
// have a place. p.mu is held.
func (p *Plugin) lose(k key, uid types.UID, gone bool) (placed int) {
	g := p.gangs[k]
	if g == nil {
		return 0
	}
	delete(g.placed, uid)
	if gone {
		delete(g.created, uid)
	}
	if len(g.created) == 0 && len(g.placed) == 0 {
		delete(p.gangs, k)
	}
	return len(g.placed)
}

// PreFilter refuses a pod as long as its gang can not be complete.
func (p *Plugin) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	k, size, member, err := of(pod)
	switch {
	case err != nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	case !member:
		return nil, fwk.NewStatus(fwk.Skip)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	if g := p.gangs[k]; g != nil {
		n = len(g.created)
	}
	if n < size {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("gang %q has %d of %d pods", k.name, n, size))
	}
	return nil, nil
}

// PreFilterExtensions are none: other pods on a node change nothing.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Reserve counts a pod that has got a node.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if k, _, member, err := of(pod); member && err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.get(k).placed[pod.UID] = struct{}{}
	}
	return nil
}

// Unreserve forgets a pod that has lost its node, and has those that wait for it give theirs
// back: the gang is not complete any more.
func (p *Plugin) Unreserve(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	k, size, member, err := of(pod)
	if !member || err != nil {
		return
	}
	p.mu.Lock()
	complete := p.lose(k, pod.UID, false) >= size
	p.mu.Unlock()
	if complete {
		return
	}
	p.waiting(k, func(w fwk.WaitingPod) {
		klog.FromContext(ctx).V(3).Info("Gang is not complete any more", "gang", k.name, "pod", klog.KObj(w.GetPod()))
		w.Reject(Name, fmt.Sprintf("gang %q lost pod %s", k.name, pod.Name))
	})
}

// Permit has a pod wait until its gang is complete, and lets the others go where this completes it.
// Those without a node are tried at once: a gang whose pods came back one by one would never meet.
func (p *Plugin) Permit(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	k, size, member, err := of(pod)
	switch {
	case err != nil:
		return fwk.AsStatus(err), 0
	case !member:
		return nil, 0
	}
	n, others := p.standing(k)
	if n < size {
		p.handle.Activate(klog.FromContext(ctx), others)
		return fwk.NewStatus(fwk.Wait, fmt.Sprintf("gang %q has %d of %d pods", k.name, n, size)), p.timeout
	}
	p.waiting(k, func(w fwk.WaitingPod) { w.Allow(Name) })
	return nil, 0
}

// standing is how many pods of a gang have a place, and those that have none, by namespace and name.
func (p *Plugin) standing(k key) (placed int, others map[string]*v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.get(k)
	others = map[string]*v1.Pod{}
	for uid, pod := range g.created {
		if _, has := g.placed[uid]; !has {
			others[klog.KObj(pod).String()] = pod
		}
	}
	return len(g.placed), others
}

// waiting yields the pods of a gang that wait on Permit.
func (p *Plugin) waiting(k key, yield func(fwk.WaitingPod)) {
	p.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if other, _, member, err := of(w.GetPod()); member && err == nil && other == k {
			yield(w)
		}
	})
}

// EventsToRegister says that a pod that was refused is worth another try when another of its gang
// is bound, or any pod leaves. That another has been created is no event for the queue: see seen.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Delete},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, _, now any) (fwk.QueueingHint, error) {
			other, ok := now.(*v1.Pod)
			if !ok {
				return fwk.Queue, nil // a pod that leaves makes room for a gang that has waited in vain
			}
			a, _, _, _ := of(pod)
			if b, _, member, _ := of(other); member && a == b {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		},
	}}, nil
}
