package testbed

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// PodWatch follows all pods through one watch that survives the API server's deaths.
// Objects it hands out are shared: they are read only. Any goroutine may use it.
type PodWatch struct {
	mu      sync.Mutex
	pods    map[string]*v1.Pod // by namespace/name
	waiters map[*podWaiter]bool
}

// podWaiter waits until a condition holds for each pod of a set, each once.
type podWaiter struct {
	met  func(*v1.Pod) bool
	open map[string]bool
	got  map[string]*v1.Pod
	done chan struct{} // closed when none is open
}

func (b *Bed) watchPods(ctx context.Context) (*PodWatch, error) {
	w := &PodWatch{pods: map[string]*v1.Pod{}, waiters: map[*podWaiter]bool{}}
	factory := informers.NewSharedInformerFactory(b.Admin, 0)
	registration, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.set(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { w.set(o.(*v1.Pod)) },
		DeleteFunc: func(o any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
				w.change(key, nil)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	factory.StartWithContext(b.ctx)
	b.Go(func(ctx context.Context) { <-ctx.Done(); factory.Shutdown() })
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil, fmt.Errorf("list pods: %w", ctx.Err())
	}
	return w, nil
}

func (w *PodWatch) set(p *v1.Pod) { w.change(key(p), p) }

func key(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// change takes in what a pod is now; nil: it is gone.
func (w *PodWatch) change(key string, p *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p == nil {
		delete(w.pods, key)
	} else {
		w.pods[key] = p
	}
	for waiter := range w.waiters {
		waiter.see(key, p)
	}
}

func (p *podWaiter) see(key string, pod *v1.Pod) {
	if !p.open[key] || !p.met(pod) {
		return
	}
	delete(p.open, key)
	p.got[key] = pod
	if len(p.open) == 0 {
		close(p.done)
	}
}

// Get is the newest state of a pod, nil where there is none.
func (w *PodWatch) Get(key string) *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[key]
}

// All are all pods, in no order.
func (w *PodWatch) All() []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*v1.Pod, 0, len(w.pods))
	for _, p := range w.pods {
		all = append(all, p)
	}
	return all
}

// Until waits until a condition has held for each of the pods, once and not necessarily
// at the same time, and returns them as they were then. The condition is given nil for a
// pod that is not there, and must be quick.
func (w *PodWatch) Until(ctx context.Context, what string, met func(*v1.Pod) bool, keys ...string) ([]*v1.Pod, error) {
	waiter := &podWaiter{met: met, open: map[string]bool{}, got: map[string]*v1.Pod{}, done: make(chan struct{})}
	for _, k := range keys {
		waiter.open[k] = true
	}
	w.mu.Lock()
	w.waiters[waiter] = true
	if len(waiter.open) == 0 {
		close(waiter.done)
	}
	for k := range waiter.open {
		waiter.see(k, w.pods[k])
	}
	w.mu.Unlock()
	var err error
	select {
	case <-waiter.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiters, waiter)
	if len(waiter.open) > 0 {
		return nil, fmt.Errorf("waiting until pods %s: %w: %w", what, err, w.missing(waiter))
	}
	pods := make([]*v1.Pod, len(keys))
	for i, k := range keys {
		pods[i] = waiter.got[k]
	}
	return pods, nil
}

// missing describes some of the pods that are waited for.
func (w *PodWatch) missing(waiter *podWaiter) error {
	const shown = 5
	var s []string
	for k := range waiter.open {
		if len(s) == shown {
			break
		}
		s = append(s, k+" "+Describe(w.pods[k]))
	}
	return fmt.Errorf("%d are not: %s", len(waiter.open), strings.Join(s, "; "))
}

// Describe says in a line where a pod stands.
func Describe(p *v1.Pod) string {
	if p == nil {
		return "is not there"
	}
	s := fmt.Sprintf("on node %q, %s", p.Spec.NodeName, p.Status.Phase)
	if p.DeletionTimestamp != nil {
		s += ", terminating"
	}
	if c := ScheduledCondition(p); c != nil {
		s += fmt.Sprintf(", PodScheduled=%s %s %q", c.Status, c.Reason, c.Message)
	}
	return s
}

// ScheduledCondition is a pod's condition PodScheduled, nil where it has none.
func ScheduledCondition(p *v1.Pod) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodScheduled {
			return c
		}
	}
	return nil
}

// IsBound tells whether the pod has a node.
func IsBound(p *v1.Pod) bool { return p != nil && p.Spec.NodeName != "" }

// IsGone tells whether there is no such pod.
func IsGone(p *v1.Pod) bool { return p == nil }

// IsUnschedulable tells whether the pod has no node and the condition says that none fits.
func IsUnschedulable(p *v1.Pod) bool {
	if p == nil || IsBound(p) {
		return false
	}
	c := ScheduledCondition(p)
	return c != nil && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
}

// Never watches for a while that a condition holds for none of the pods.
func (w *PodWatch) Never(ctx context.Context, d time.Duration, what string, met func(*v1.Pod) bool, keys ...string) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var violation string // guarded by w.mu
	watched := map[string]bool{}
	for _, k := range keys {
		watched[k] = true
	}
	// The first pod for which it holds ends the wait.
	waiter := &podWaiter{open: watched, got: map[string]*v1.Pod{}, done: make(chan struct{})}
	waiter.met = func(p *v1.Pod) bool {
		if met(p) && violation == "" {
			violation = Describe(p)
			cancel()
		}
		return false
	}
	w.mu.Lock()
	w.waiters[waiter] = true
	for k := range watched {
		waiter.see(k, w.pods[k])
	}
	w.mu.Unlock()
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiters, waiter)
	if violation != "" {
		return fmt.Errorf("a pod %s: %s", what, violation)
	}
	return nil
}
