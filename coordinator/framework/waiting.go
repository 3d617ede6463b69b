package framework

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	fwk "k8s.io/kube-scheduler/framework"
)

// maxPermit is the longest that a Permit plugin can have a pod wait.
const maxPermit = 15 * time.Minute

// WaitingPods are the pods that wait on Permit, of all profiles. Any goroutine may use it.
type WaitingPods struct {
	clock clock.WithDelayedExecution
	mu    sync.RWMutex
	pods  map[types.UID]*waitingPod
	added uint64
}

// NewWaitingPods holds no pod yet.
func NewWaitingPods(c clock.WithDelayedExecution) *WaitingPods {
	return &WaitingPods{clock: c, pods: map[types.UID]*waitingPod{}}
}

// add has a pod wait for each of the plugins, as long as given. It takes the place of an earlier
// one of its uid.
func (w *WaitingPods) add(p *v1.Pod, waits map[string]time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.added++
	w.pods[p.UID] = newWaitingPod(w.clock, w.added, p, waits)
}

func (w *WaitingPods) remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
}

// get is the pod of a uid; nil: it does not wait.
func (w *WaitingPods) get(uid types.UID) *waitingPod {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.pods[uid]
}

// Get is the pod of a uid; nil: it does not wait.
func (w *WaitingPods) Get(uid types.UID) fwk.WaitingPod {
	if p := w.get(uid); p != nil {
		return p
	}
	return nil
}

// Each calls f for each pod in the order in which they came. f may use the WaitingPods.
func (w *WaitingPods) Each(f func(fwk.WaitingPod)) {
	w.mu.RLock()
	list := make([]*waitingPod, 0, len(w.pods))
	for _, p := range w.pods {
		list = append(list, p)
	}
	w.mu.RUnlock()
	slices.SortFunc(list, func(a, b *waitingPod) int { return cmp.Compare(a.number, b.number) })
	for _, p := range list {
		f(p)
	}
}

// Reject rejects the pod of a uid, and tells whether it was waiting.
func (w *WaitingPods) Reject(uid types.UID) bool {
	p := w.get(uid)
	return p != nil && p.Reject("", "removed")
}

// waitingPod is a pod that waits.
//
//	waiting ── the last plugin allows ──> allowed
//	   ├────── Reject, or a timeout ────> rejected (Unschedulable)
//	   └────── Preempt ─────────────────> preempted (Error)
type waitingPod struct {
	number uint64
	pod    *v1.Pod
	// ended gets the verdict; there is room for it.
	ended chan *fwk.Status

	mu      sync.Mutex
	pending map[string]clock.Timer
	done    bool
}

var _ fwk.WaitingPod = (*waitingPod)(nil)

func newWaitingPod(c clock.WithDelayedExecution, number uint64, p *v1.Pod, waits map[string]time.Duration) *waitingPod {
	w := &waitingPod{number: number, pod: p, ended: make(chan *fwk.Status, 1), pending: make(map[string]clock.Timer, len(waits))}
	for plugin, wait := range waits {
		w.pending[plugin] = c.AfterFunc(wait, func() {
			w.end(rejected(plugin, fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", wait, plugin)))
		})
	}
	return w
}

func rejected(plugin, msg string) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, msg).WithPlugin(plugin)
}

// GetPod is part of fwk.WaitingPod.
func (w *waitingPod) GetPod() *v1.Pod { return w.pod }

// GetPendingPlugins is part of fwk.WaitingPod: by name.
func (w *waitingPod) GetPendingPlugins() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]string, 0, len(w.pending))
	for name := range w.pending {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Allow is part of fwk.WaitingPod.
func (w *waitingPod) Allow(plugin string) {
	w.mu.Lock()
	t := w.pending[plugin]
	delete(w.pending, plugin)
	last := len(w.pending) == 0
	w.mu.Unlock()
	if t != nil {
		t.Stop()
	}
	if last {
		w.end(fwk.NewStatus(fwk.Success, ""))
	}
}

// Reject is part of fwk.WaitingPod. It is false for a pod whose verdict is out.
func (w *waitingPod) Reject(plugin, msg string) bool { return w.stop(rejected(plugin, msg)) }

// Preempt is part of fwk.WaitingPod. It is false for a pod whose verdict is out.
func (w *waitingPod) Preempt(plugin, msg string) bool {
	return w.stop(fwk.NewStatus(fwk.Error, msg).WithPlugin(plugin))
}

// stop gives a verdict and stops what is left of the timers.
func (w *waitingPod) stop(verdict *fwk.Status) bool {
	first := w.end(verdict)
	w.mu.Lock()
	timers := slices.Collect(maps.Values(w.pending))
	w.mu.Unlock()
	for _, t := range timers { // not under the lock: a clock may hold its own as it calls end
		t.Stop()
	}
	return first
}

// end gives the verdict, if there is none yet.
func (w *waitingPod) end(verdict *fwk.Status) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return false
	}
	w.done = true
	w.ended <- verdict
	return true
}
