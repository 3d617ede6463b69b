package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/coordinator/objects"
)

const (
	// noteLimit is how many bytes of a note the API server takes.
	noteLimit = 1024
	// eventBacklog is how many events wait to be written at the most.
	eventBacklog = 100_000
	// eventTries is how often an event is tried, as client-go does it.
	eventTries = 12
	// patientBacklog and patientAge bound how long events let binds go first.
	patientBacklog = eventBacklog / 4
	patientAge     = 30 * time.Second
	yieldStep      = 10 * time.Millisecond

	eventsTemplate = "/apis/events.k8s.io/v1/namespaces/{namespace}/events"
	eventTemplate  = eventsTemplate + "/{name}"
)

// occasion is a reason for an event, with what is written of its pod.
type occasion struct {
	namespace, pod  string
	uid             types.UID
	resourceVersion string
	controller      string // the profile's name
	at              time.Time
	// node is where the pod is bound to; empty: it is not, and note says why. awaits: it is not bound there yet, for its devices
	// have to become ready.
	node   string
	awaits bool
	note   string
	// ofGroup says that it is about a PodGroup of that name, and what the event is; nil: it is about a pod.
	ofGroup *groupEvent
	// by is the pod that has preempted it; nil: none has.
	by *v1.ObjectReference
	// series counts the occasions like this one; nil: there will be no other.
	series *series
	tries  int
}

// groupEvent is the type and the reason of an event about a PodGroup.
type groupEvent struct{ kind, reason string }

// eventWriter writes events.k8s.io/v1 events as client-go's broadcaster does for
// kube-scheduler, with the same reasons, notes and series.
//
//	Scheduled         one a pod: written and forgotten
//	FailedScheduling  a series for each version of a pod: see series
//
// Binds go first: as long as some are under way and not too much is kept waiting, events
// are held back. Namespaces take turns; one whose event the API server refuses for now (429) has none until
// the API server may be asked again, so that it keeps no worker.
//
// Differs from upstream: notes are no format strings, so a % in them stays; they are cut
// between characters; events wait in a bounded queue, and those that find it full are
// dropped and counted. client-go's broadcaster has a goroutine for each event, without
// bound while the API server is slow, and remembers each for at least six minutes.
type eventWriter struct {
	sender   *sender
	clock    clock.WithTicker
	hostname string
	busy     func() bool
	metrics  *writeMetrics

	mu     sync.Mutex
	some   *sync.Cond
	queue  *turns[occasion]
	ended  bool
	series map[types.UID]*series

	workers sync.WaitGroup
}

func newEventWriter(cfg *ReporterConfig) *eventWriter {
	w := &eventWriter{
		sender: cfg.Clients.events, clock: cfg.Clock, hostname: cfg.Hostname, busy: cfg.Busy, metrics: cfg.Clients.metrics,
		queue:  newTurns(func(o occasion) string { return o.namespace }),
		series: map[types.UID]*series{},
	}
	w.some = sync.NewCond(&w.mu)
	return w
}

func occasionOf(pod *v1.Pod, at time.Time) occasion {
	return occasion{
		namespace: pod.Namespace, pod: pod.Name, uid: pod.UID, resourceVersion: pod.ResourceVersion,
		controller: pod.Spec.SchedulerName, at: at,
	}
}

func (w *eventWriter) scheduled(pod *v1.Pod, node string) {
	o := occasionOf(pod, w.clock.Now())
	o.node = node
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(o)
}

func (w *eventWriter) awaitsDevices(pod *v1.Pod, node string) {
	o := occasionOf(pod, w.clock.Now())
	o.node, o.awaits = node, true
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(o)
}

func (w *eventWriter) failed(pod *v1.Pod, message string) {
	o := occasionOf(pod, w.clock.Now())
	o.note = cut(message, noteLimit)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(o)
}

// preempted is about a victim, and related to the pod that it makes room for, whose profile
// says so.
//
// Differs from upstream: there the relation is lost in 1.36 (the recorder is given a wrapper that
// it can't refer to).
func (w *eventWriter) preempted(victim *v1.Pod, e *objects.Eviction, inMemory bool) {
	o := occasionOf(victim, w.clock.Now())
	o.controller, o.note = e.Preemptor.Spec.SchedulerName, cut(e.Note(inMemory), noteLimit)
	by := referenceTo(e.Preemptor)
	if g := e.PodGroup; g != nil {
		by = v1.ObjectReference{
			Kind: "PodGroup", APIVersion: v1alpha2.SchemeGroupVersion.String(), Namespace: g.Namespace, Name: g.Name, UID: g.UID,
			ResourceVersion: g.ResourceVersion,
		}
	}
	o.by = &by
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(o)
}

// ofPodGroup is about a PodGroup: where it stands, once for each change of that.
func (w *eventWriter) ofPodGroup(g *v1alpha2.PodGroup, scheduler, kind, reason, note string) {
	o := occasion{
		namespace: g.Namespace, pod: g.Name, uid: g.UID, resourceVersion: g.ResourceVersion, controller: scheduler, at: w.clock.Now(),
		note: cut(note, noteLimit), ofGroup: &groupEvent{kind, reason},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(o)
}

func referenceTo(pod *v1.Pod) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}

// put is called with the lock held. It reports whether there was room: a namespace may fill as much as is left free
// after it, so that there is always room for others.
func (w *eventWriter) put(o occasion) bool {
	if len(w.queue.waiting[o.namespace]) >= eventBacklog-w.queue.Len() {
		w.metrics.eventsDropped.Inc()
		return false
	}
	w.queue.Push(o)
	w.metrics.eventsPending.Set(float64(w.queue.Len()))
	w.some.Signal()
	return true
}

// cut shortens a text to so many bytes and says so.
func cut(text string, limit int) string {
	const more = " ..."
	if len(text) <= limit {
		return text
	}
	end := limit - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

func (w *eventWriter) run(ctx context.Context, workers int) {
	for range workers {
		w.workers.Go(func() {
			for w.step(ctx) {
			}
		})
	}
	w.workers.Go(func() {
		for pause(ctx, w.clock, sweepPeriod) {
			w.sweep()
		}
	})
	<-ctx.Done()
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.some.Broadcast()
	w.workers.Wait()
}

// step writes one event. It reports false when the writer has ended.
func (w *eventWriter) step(ctx context.Context) bool {
	o, live := w.take()
	if !live || !w.yield(ctx, o.at) {
		return false
	}
	req, err := w.request(&o)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Event can not be encoded", "pod", klog.KRef(o.namespace, o.pod))
		w.metrics.eventsDropped.Inc()
		return true
	}
	if again := w.write(ctx, &o, req); again > 0 {
		w.rest(ctx, o, again)
	} else if o.series != nil {
		w.written(o)
	}
	return ctx.Err() == nil
}

// rest puts an occasion back, and leaves its namespace without a turn for a while.
func (w *eventWriter) rest(ctx context.Context, o occasion, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	begins := w.queue.Rest(o)
	w.metrics.eventsPending.Set(float64(w.queue.Len()))
	if !begins {
		return
	}
	w.workers.Go(func() {
		pause(ctx, w.clock, d)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queue.Resume(o.namespace)
		w.some.Broadcast()
	})
}

func (w *eventWriter) take() (occasion, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue.order) == 0 && !w.ended {
		w.some.Wait()
	}
	if w.ended {
		return occasion{}, false
	}
	o := w.queue.Pop()
	w.metrics.eventsPending.Set(float64(w.queue.Len()))
	return o, true
}

// yield lets binds go first. It reports false when ctx ended.
func (w *eventWriter) yield(ctx context.Context, since time.Time) bool {
	for w.busy() && w.backlog() < patientBacklog && w.clock.Since(since) < patientAge {
		if !pause(ctx, w.clock, yieldStep) {
			return false
		}
	}
	return ctx.Err() == nil
}

func (w *eventWriter) backlog() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.Len()
}

// write writes an occasion's event or gives it up, or says when to try again.
func (w *eventWriter) write(ctx context.Context, o *occasion, req request) (again time.Duration) {
	again, err := w.sender.sendEvent(ctx, w.clock, req, &o.tries, func() (request, error) {
		return w.create(o) // the series goes on in a new event
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Event is not written", "pod", klog.KRef(o.namespace, o.pod))
		w.metrics.eventsDropped.Inc()
	}
	return again
}

// sendEvent sends a request about an event until it has an answer, or ctx or the leadership
// ends. Its outcome does not matter enough to look for it: an event that was written after all
// answers "already exists". Where the event that it changes has expired, create's request
// takes its place. It does not wait where the event is refused for now, which may be for its namespace's sake: it
// returns after which time to call again. The error says why the event is given up.
func (s *sender) sendEvent(ctx context.Context, c clock.Clock, req request, tries *int,
	create func() (request, error)) (again time.Duration, err error) {
	for {
		a, err := s.send(ctx, req)
		v := s.judge(a, err)
		*tries++
		switch {
		case v == ok || v == refused && a.code == http.StatusConflict:
			return 0, nil
		case v == refused && req.method == http.MethodPatch && a.missing():
			if again, err := create(); err == nil {
				req = again
				continue
			}
		}
		if s.ended(ctx) != nil {
			return 0, nil
		}
		if v == refused || v == deposed || *tries == eventTries {
			return 0, fmt.Errorf("after %d tries: %w", *tries, cause(a, err))
		}
		wait := waitBefore(*tries, a)
		if v == throttled {
			return wait, nil
		}
		if !pause(ctx, c, wait) {
			return 0, nil
		}
	}
}

// request is what an occasion asks for: a new event, or the count of one that is there.
func (w *eventWriter) request(o *occasion) (request, error) {
	if o.series != nil {
		if patch := w.patch(o.series); patch != nil {
			return request{
				method: http.MethodPatch, path: eventsPath(o.namespace) + "/" + url.PathEscape(o.series.name),
				template: eventTemplate, kind: kindEvent,
				contentType: strategicPatchType, accept: w.sender.partial(), body: patch,
			}, nil
		}
	}
	return w.create(o)
}

func eventsPath(namespace string) string {
	return "/apis/events.k8s.io/v1/namespaces/" + url.PathEscape(namespace) + "/events"
}

func (w *eventWriter) create(o *occasion) (request, error) {
	body, err := w.sender.encode(w.event(o), eventsv1.SchemeGroupVersion)
	if err != nil {
		return request{}, err
	}
	return request{
		method: http.MethodPost, path: eventsPath(o.namespace), template: eventsTemplate, kind: kindEvent,
		contentType: w.sender.contentType, accept: w.sender.partial(), body: body,
	}, nil
}

// event is an occasion as the API has it.
func (w *eventWriter) event(o *occasion) *eventsv1.Event {
	e := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: eventName(o.pod, o.at), Namespace: o.namespace},
		EventTime:           metav1.NewMicroTime(o.at),
		ReportingController: o.controller,
		ReportingInstance:   o.controller + "-" + w.hostname,
		Regarding: v1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: o.namespace, Name: o.pod, UID: o.uid, ResourceVersion: o.resourceVersion,
		},
	}
	if g := o.ofGroup; g != nil {
		e.Regarding.Kind, e.Regarding.APIVersion = "PodGroup", v1alpha2.SchemeGroupVersion.String()
		e.Type, e.Reason, e.Action, e.Note = g.kind, g.reason, "Scheduling", o.note
		return e
	}
	if o.awaits {
		e.Type, e.Reason, e.Action = v1.EventTypeNormal, "BindingConditionsPending", "Scheduling"
		e.Note = "waiting for binding conditions for device on node " + o.node
		return e
	}
	if o.node != "" {
		e.Type, e.Reason, e.Action = v1.EventTypeNormal, "Scheduled", "Binding"
		e.Note = fmt.Sprintf("Successfully assigned %s/%s to %s", o.namespace, o.pod, o.node)
		return e
	}
	if o.by != nil {
		e.Type, e.Reason, e.Action, e.Note, e.Related = v1.EventTypeNormal, "Preempted", "Preempting", o.note, o.by
		return e
	}
	e.Type, e.Reason, e.Action, e.Note = v1.EventTypeWarning, "FailedScheduling", "Scheduling", o.note
	if o.series != nil {
		w.describe(o.series, e)
	}
	return e
}

// eventName is unique as long as no pod has two events in a nanosecond.
func eventName(pod string, at time.Time) string {
	suffix := fmt.Sprintf(".%x", at.UnixNano())
	const longest = 253
	if len(pod)+len(suffix) > longest {
		pod = strings.TrimRight(pod[:longest-len(suffix)], ".-")
	}
	return pod + suffix
}
