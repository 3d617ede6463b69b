package kube

import (
	"context"
	"net/http"
	"sync"
	"time"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/coordinator/objects"
)

const statusTemplate = podTemplate + "/status"

// statusTries is how often a report is tried again that is forbidden: for half a minute. Nothing else would tell of the pod
// until its next attempt, minutes later.
//
// Differs from upstream: it gives the report up at once.
const statusTries = 10

// An API server takes long to patch a large pod, and others' binds wait for it meanwhile. One such patch is under way at once, and
// then none for largeRest times as long as it took, longestRestLarge at the most.
const (
	largePod         = 64 << 10 // bytes, as stored
	largeRest        = 7        // an eighth of the time is theirs
	longestRestLarge = 5 * time.Second
)

// report is what is to be written about a pod's status. The last one of a pod wins.
type report struct {
	pod *v1.Pod
	// reason is empty where the condition is not to be touched.
	reason  string
	message unique.Handle[string]
	// nominated is the node to be written where nominate is set, "" to clear it.
	nominate  bool
	nominated string
	// tries counts those that came to nothing.
	tries int
}

// statusWriter writes pods' conditions and nominated nodes.
//
//	unscheduled, expected, unnominated --> pending, one report a pod --> queue of pods --> workers
//	                                          ^                             ^                | PATCH
//	                                          |                             +---- later <----+ 409, 429, 5xx; 401 and 403 for a while
//	                                     scheduled: dropped                                  v 200, 404: dropped
//
// A report is compared with the newest version of its pod right before it is written, and
// the patch carries that version: a pod that changed meanwhile is looked at anew, and one
// that has a node by then is left alone. Namespaces take turns.
type statusWriter struct {
	sender  *sender
	newest  func(*v1.Pod) *v1.Pod
	now     func() time.Time
	metrics *writeMetrics
	clock   clock.Clock
	isLarge func(*v1.Pod) bool
	// queue has the pods with a report, and large those of them that a worker of their own patches.
	queue, large workqueue.TypedDelayingInterface[waitingPod]

	mu      sync.Mutex
	pending map[types.UID]*report
	// nominations are the nodes that Expected named, of pods that are not bound yet.
	nominations map[types.UID]nomination
	swept       int // size of nominations after the last sweep
	// wrote are the pods whose nominated node was written last for the version that is kept
	// here: as long as it is the newest known, that node is not.
	wrote      map[types.UID]*v1.Pod
	wroteSwept int // size of wrote after the last sweep
	// largeTook is how long the last report of a large pod took; it belongs to their worker.
	largeTook time.Duration
}

// waitingPod is a pod in the queue.
type waitingPod struct {
	uid       types.UID
	namespace string
}

func waitingOf(pod *v1.Pod) waitingPod { return waitingPod{pod.UID, pod.Namespace} }

// nomination is a node that a pod is expected on.
type nomination struct {
	pod  *v1.Pod
	node string
}

func newStatusWriter(cfg *ReporterConfig) *statusWriter {
	queue := func() workqueue.TypedDelayingInterface[waitingPod] {
		turns := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[waitingPod]{
			Clock: cfg.Clock, Queue: newTurns(func(k waitingPod) string { return k.namespace }),
		})
		return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[waitingPod]{Clock: cfg.Clock, Queue: turns})
	}
	return &statusWriter{
		sender: cfg.Clients.status, newest: cfg.Pod, now: cfg.Clock.Now, metrics: cfg.Clients.metrics,
		clock: cfg.Clock, isLarge: cfg.IsLarge, queue: queue(), large: queue(),
		pending:     map[types.UID]*report{},
		nominations: map[types.UID]nomination{},
		wrote:       map[types.UID]*v1.Pod{},
	}
}

func (w *statusWriter) unscheduled(pod *v1.Pod, reason, message string, nominating *objects.Nominating) {
	w.mu.Lock()
	_, expected := w.nominations[pod.UID]
	delete(w.nominations, pod.UID)
	// Each path that ends in an error clears the nomination; without a node for the pod it
	// is the preemption's to say, unless it was the binding that failed, of which the API
	// server may not have heard yet.
	before := w.pending[pod.UID]
	clearing := expected || reason == v1.PodReasonSchedulerError || before != nil && before.nominate && before.nominated == ""
	next := &report{pod: pod, reason: reason, message: unique.Make(message), nominate: clearing}
	if nominating != nil {
		next.nominate, next.nominated = true, nominating.Node
	} else if before != nil && before.nominate && !clearing && !expected {
		// What an attempt before said of it is not written yet, and holds.
		next.nominate, next.nominated = true, before.nominated
	}
	w.put(pod.UID, next)
	w.mu.Unlock()
	w.queue.Add(waitingOf(pod))
}

func (w *statusWriter) expected(pod *v1.Pod, node string) {
	w.mu.Lock()
	w.sweep()
	w.nominations[pod.UID] = nomination{pod, node}
	w.nominate(pod, node)
	w.mu.Unlock()
	w.queue.Add(waitingOf(pod))
}

func (w *statusWriter) unnominated(pod *v1.Pod) {
	w.mu.Lock()
	w.nominate(pod, "")
	w.mu.Unlock()
	w.queue.Add(waitingOf(pod))
}

// nominate puts a nomination beside what is still to be written of a pod.
func (w *statusWriter) nominate(pod *v1.Pod, node string) {
	next := &report{pod: pod, nominate: true, nominated: node}
	if r := w.pending[pod.UID]; r != nil {
		next.reason, next.message = r.reason, r.message
	}
	w.put(pod.UID, next)
}

// forget drops what is noted about a pod.
func (w *statusWriter) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.nominations, uid)
	delete(w.wrote, uid)
	w.drop(uid, w.pending[uid])
}

// withdraw takes a node out of what is still to be written of a pod.
func (w *statusWriter) withdraw(pod *v1.Pod, node string) {
	w.mu.Lock()
	r := w.pending[pod.UID]
	waits := r != nil && r.nominate && r.nominated == node
	if waits {
		next := *r
		next.nominated, next.tries = "", 0
		w.put(pod.UID, &next)
	}
	w.mu.Unlock()
	if waits {
		w.queue.Add(waitingOf(pod))
	}
}

// written notes that a pod's nominated node was written for this version of it.
func (w *statusWriter) written(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrote[pod.UID] = pod
	if len(w.wrote) < 2*w.wroteSwept+1000 {
		return
	}
	for uid, p := range w.wrote {
		if now := w.newest(p); now == nil || now.ResourceVersion != p.ResourceVersion {
			delete(w.wrote, uid)
		}
	}
	w.wroteSwept = len(w.wrote)
}

// outdated tells whether a version of a pod is older than what was written of it.
func (w *statusWriter) outdated(pod *v1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.wrote[pod.UID]
	if p != nil && p.ResourceVersion == pod.ResourceVersion {
		return true
	}
	delete(w.wrote, pod.UID)
	return false
}

// put and drop are called with the lock held.
func (w *statusWriter) put(uid types.UID, r *report) {
	w.pending[uid] = r
	w.metrics.statusPending.Set(float64(len(w.pending)))
}

// drop gives a report up unless a later one took its place.
func (w *statusWriter) drop(uid types.UID, r *report) {
	if w.pending[uid] == r {
		delete(w.pending, uid)
		w.metrics.statusPending.Set(float64(len(w.pending)))
	}
}

// sweep forgets nominations of pods that were deleted before they were bound.
func (w *statusWriter) sweep() {
	if len(w.nominations) < 2*w.swept+1000 {
		return
	}
	for uid, n := range w.nominations {
		if w.newest(n.pod) == nil {
			delete(w.nominations, uid)
		}
	}
	w.swept = len(w.nominations)
}

func (w *statusWriter) run(ctx context.Context, workers int) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for w.step(ctx, w.queue) {
			}
		})
	}
	wg.Go(func() {
		for w.step(ctx, w.large) {
			pause(ctx, w.clock, min(largeRest*w.largeTook, longestRestLarge))
		}
	})
	<-ctx.Done()
	w.queue.ShutDown()
	w.large.ShutDown()
	wg.Wait()
}

// step writes one pod's report, or leaves it to the large pods' worker. It reports false when the queue has ended.
func (w *statusWriter) step(ctx context.Context, queue workqueue.TypedDelayingInterface[waitingPod]) bool {
	key, ended := queue.Get()
	if ended {
		return false
	}
	defer queue.Done(key)
	w.mu.Lock()
	r := w.pending[key.uid]
	w.mu.Unlock()
	if r == nil || ctx.Err() != nil {
		return ctx.Err() == nil
	}
	if pod := w.newest(r.pod); queue == w.queue && pod != nil && (w.isLarge(pod) || pod.Size() > largePod) {
		w.large.Add(key)
		return true
	}
	begun := w.now()
	wait, again := w.write(ctx, r)
	if queue == w.large {
		w.largeTook = w.now().Sub(begun)
	}
	if !again {
		w.mu.Lock()
		w.drop(key.uid, r)
		w.mu.Unlock()
		return true
	}
	queue.AddAfter(key, wait)
	return true
}

// write sends a report's patch, if there is anything to change. It reports whether and when
// the report is to be tried again.
func (w *statusWriter) write(ctx context.Context, r *report) (wait time.Duration, again bool) {
	pod := w.newest(r.pod)
	if pod == nil || pod.Spec.NodeName != "" {
		return 0, false
	}
	if r.nominate && w.outdated(pod) {
		return firstWait, true
	}
	patch := statusPatch(pod, r, w.now())
	if patch == nil {
		return 0, false
	}
	logger := klog.FromContext(ctx)
	logger.V(3).Info("Updating pod condition and nominated node name",
		"pod", klog.KObj(pod), "conditionReason", r.reason, "nominatedNodeName", r.nominated)
	a, err := w.sender.send(ctx, request{
		method: http.MethodPatch, path: podPath(pod, "/status"), template: statusTemplate, kind: kindStatus,
		contentType: strategicPatchType, accept: w.sender.partial(), body: patch,
	})
	v := w.sender.judge(a, err)
	if v == ok && r.nominate {
		w.written(pod)
	}
	if v == ok || v == deposed {
		return 0, false
	}
	if v == refused && a.code != http.StatusConflict && (!a.mayStart() || r.tries >= statusTries) {
		if !a.missing() {
			logger.Error(a, "Pod status is not updated", "pod", klog.KObj(pod), "conditionReason", r.reason, "nominatedNodeName",
				r.nominated)
		}
		return 0, false
	}
	r.tries++ // this worker's alone: a queued uid is handed to one at a time
	logger.V(3).Info("Pod status is not updated yet, trying again", "pod", klog.KObj(pod), "try", r.tries, "err", cause(a, err))
	return waitBefore(r.tries, a), true
}
