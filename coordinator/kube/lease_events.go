package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// leaseEventsBacklog is how many events of the election wait to be written: there are few.
const leaseEventsBacklog = 16

const coreEventsTemplate = "/api/v1/namespaces/{namespace}/events"

// LeaseEvents writes the events that tell who leads. They are v1 events, as upstream's are, and
// written by a leader only, as all that is written.
type LeaseEvents struct {
	sender    *sender
	component string
	clock     clock.WithTicker
	waiting   chan *v1.Event
}

// NewLeaseEvents makes the recorder of a LeaseConfig. The component is the first profile's
// scheduler name; nil is the real clock.
func NewLeaseEvents(c *Clients, component string, clk clock.WithTicker) *LeaseEvents {
	if clk == nil {
		clk = clock.RealClock{}
	}
	return &LeaseEvents{sender: c.events, component: component, clock: clk, waiting: make(chan *v1.Event, leaseEventsBacklog)}
}

// Eventf is part of resourcelock.EventRecorder. It does not wait for the write.
func (w *LeaseEvents) Eventf(about runtime.Object, kind, reason, format string, args ...any) {
	ref, err := reference.GetReference(scheme.Scheme, about)
	if err != nil {
		return // never of a Lease
	}
	now := w.clock.Now()
	e := &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: eventName(ref.Name, now), Namespace: ref.Namespace},
		InvolvedObject: *ref,
		Reason:         reason, Message: fmt.Sprintf(format, args...), Type: kind,
		Source:         v1.EventSource{Component: w.component},
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now), Count: 1,
		ReportingController: w.component,
	}
	select {
	case w.waiting <- e:
	default: // nobody reads them any more
	}
}

// Run writes until ctx ends.
func (w *LeaseEvents) Run(ctx context.Context) error {
	for {
		select {
		case e := <-w.waiting:
			w.write(ctx, e)
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *LeaseEvents) write(ctx context.Context, e *v1.Event) {
	logger := klog.FromContext(ctx)
	body, err := w.sender.encode(e, v1.SchemeGroupVersion)
	if err != nil {
		logger.Error(err, "Event can not be encoded", "lease", klog.KRef(e.Namespace, e.InvolvedObject.Name))
		return
	}
	req := request{
		method: http.MethodPost, path: "/api/v1/namespaces/" + url.PathEscape(e.Namespace) + "/events",
		template: coreEventsTemplate, kind: kindEvent,
		contentType: w.sender.contentType, accept: w.sender.partial(), body: body,
	}
	for tries := 0; ; {
		again, err := w.sender.sendEvent(ctx, w.clock, req, &tries, nil)
		if err != nil {
			logger.Error(err, "Event is not written", "lease", klog.KRef(e.Namespace, e.InvolvedObject.Name))
		}
		if again == 0 || !pause(ctx, w.clock, again) {
			return
		}
	}
}
