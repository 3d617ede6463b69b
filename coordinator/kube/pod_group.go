package kube

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
)

const groupTemplate = "/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/podgroups/{name}/status"

// groupWorkers is how many conditions of PodGroups are written at once. maxSaid bounds those that are remembered; with more, all are
// forgotten, and equal ones may be written again.
const (
	groupWorkers = 4
	maxSaid      = 1 << 14
)

// groupPatch is a strategic merge patch of podgroups/status: conditions are merged by type.
type groupPatch struct {
	Metadata preconditions   `json:"metadata"`
	Status   groupConditions `json:"status"`
}

type groupConditions struct {
	Conditions []metav1.Condition `json:"conditions"`
}

// groupReport is what is to be written of a PodGroup. The last one wins.
type groupReport struct {
	objects.PodGroupCondition
	tries int // that came to nothing
}

// saidCondition is what was written last, of one PodGroup.
type saidCondition struct {
	uid       types.UID
	condition metav1.Condition
}

// groupWriter writes the condition PodGroupScheduled of PodGroups.
type groupWriter struct {
	sender *sender
	now    func() time.Time
	queue  workqueue.TypedDelayingInterface[types.NamespacedName]

	mu      sync.Mutex
	pending map[types.NamespacedName]*groupReport
	said    map[types.NamespacedName]saidCondition
}

func newGroupWriter(cfg *ReporterConfig) *groupWriter {
	return &groupWriter{
		sender: cfg.Clients.status, now: cfg.Clock.Now,
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{Clock: cfg.Clock}),

		pending: map[types.NamespacedName]*groupReport{}, said: map[types.NamespacedName]saidCondition{},
	}
}

// put notes what is to be written of a PodGroup.
func (w *groupWriter) put(group *v1alpha2.PodGroup, status metav1.ConditionStatus, reason, message string) {
	key := types.NamespacedName{Namespace: group.Namespace, Name: group.Name}
	w.mu.Lock()
	w.pending[key] = &groupReport{PodGroupCondition: objects.PodGroupCondition{
		PodGroup: group, Status: status, Reason: reason, Message: message,
	}}
	w.mu.Unlock()
	w.queue.Add(key)
}

func (w *groupWriter) run(ctx context.Context) {
	var wg sync.WaitGroup
	for range groupWorkers {
		wg.Go(func() {
			for w.step(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	wg.Wait()
}

// step writes one PodGroup's condition. It is false when the queue has ended.
func (w *groupWriter) step(ctx context.Context) bool {
	key, ended := w.queue.Get()
	if ended {
		return false
	}
	defer w.queue.Done(key)
	w.mu.Lock()
	r := w.pending[key]
	w.mu.Unlock()
	if r == nil || ctx.Err() != nil {
		return ctx.Err() == nil
	}
	if wait, again := w.write(ctx, key, r); again {
		w.queue.AddAfter(key, wait)
		return true
	}
	w.mu.Lock()
	if w.pending[key] == r {
		delete(w.pending, key)
	}
	w.mu.Unlock()
	return true
}

// next completes the condition; false: there is nothing new to write.
func (w *groupWriter) next(key types.NamespacedName, r *groupReport) (c metav1.Condition, changed bool) {
	w.mu.Lock()
	said, known := w.said[key]
	w.mu.Unlock()
	old := r.Of(r.PodGroup)
	if known && said.uid == r.PodGroup.UID {
		old = &said.condition
	}
	return r.After(old, metav1.NewTime(w.now()))
}

// write sends a condition, if it is new. It reports whether and when it is to be tried again.
func (w *groupWriter) write(ctx context.Context, key types.NamespacedName, r *groupReport) (wait time.Duration, again bool) {
	c, changed := w.next(key, r)
	if !changed {
		return 0, false
	}
	a, err := w.sender.send(ctx, request{
		method: http.MethodPatch, template: groupTemplate, kind: kindStatus,
		path: "/apis/scheduling.k8s.io/v1alpha2/namespaces/" + url.PathEscape(key.Namespace) +
			"/podgroups/" + url.PathEscape(key.Name) + "/status",
		contentType: strategicPatchType, accept: w.sender.partial(),
		body: mustJSON(groupPatch{Metadata: preconditions{UID: r.PodGroup.UID}, Status: groupConditions{[]metav1.Condition{c}}}),
	})
	switch v := w.sender.judge(a, err); {
	case v == ok:
		w.mu.Lock()
		if len(w.said) >= maxSaid {
			clear(w.said)
		}
		w.said[key] = saidCondition{r.PodGroup.UID, c}
		w.mu.Unlock()
		return 0, false
	case v == deposed:
		return 0, false
	case v == refused && (!a.mayStart() || r.tries >= statusTries):
		if !a.missing() {
			klog.FromContext(ctx).Error(a, "The condition of a PodGroup is not updated", "podGroup", key)
		}
		return 0, false
	}
	r.tries++
	return waitBefore(r.tries, a), true
}
