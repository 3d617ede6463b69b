package queue

import "time"

// Upstream's defaults.
const (
	DefaultInitialBackoff   = time.Second
	DefaultMaxBackoff       = 10 * time.Second
	DefaultMaxUnschedulable = 5 * time.Minute
)

// backoffWindow aligns backoffs, so that pods which failed within one second become ready
// together and in the queue's order.
const backoffWindow = time.Second

// backoffs is the arithmetic of backoff.
type backoffs struct {
	initial, max time.Duration
}

// duration is how long a pod waits after its nth failure: initial, doubled each time, up to
// max. max 0: it does not wait.
func (b backoffs) duration(n int) time.Duration {
	if n <= 0 || b.max <= 0 {
		return 0
	}
	if shift := n - 1; shift < 63 && b.initial <= b.max>>shift {
		return b.initial << shift
	}
	return b.max
}

// until is the window in which a backoff ends that begins now; zero where the pod has none.
// Errors and rejections are counted apart.
func (b backoffs) until(p *Pod, now time.Time) time.Time {
	n := p.UnschedulableCount
	if p.ErrorCount > 0 {
		n = p.ErrorCount
	}
	d := b.duration(n)
	if d == 0 {
		return time.Time{}
	}
	return now.Add(d).Truncate(backoffWindow)
}

// isBackingOff tells whether a pod's backoff is not over: it lasts to the end of its
// window.
func isBackingOff(p *Pod, now time.Time) bool {
	return !p.BackoffUntil.IsZero() && !p.BackoffUntil.Before(now.Truncate(backoffWindow))
}

// backoffOver is the first instant at which a pod does not back off any more.
func backoffOver(p *Pod) time.Time { return p.BackoffUntil.Add(backoffWindow) }

// timeout is when an unschedulable pod is tried again without an event, in whole seconds so
// that pods come together.
func (q *Queue) timeout(p *Pod) time.Time {
	return p.Timestamp.Add(q.maxUnschedulable + backoffWindow - 1).Truncate(backoffWindow)
}

// Flush moves the pods whose backoff is over to Active, and tries those again that have been
// unschedulable for too long.
//
// Differs from upstream: a pod is flushed when its time has come, not at the next multiple
// of 30 seconds.
func (q *Queue) Flush() {
	now := q.now()
	for _, h := range [...]*heap{&q.backoff, &q.errors} {
		for p := h.head(); p != nil && !isBackingOff(p, now); p = h.head() {
			q.move(p, Active, eventBackoffOver)
		}
	}
	for p := q.waiting.head(); p != nil && !now.Before(q.timeout(p)); p = q.waiting.head() {
		q.requeue(p, eventTimeout)
	}
}

// NextWake is when Flush will have something to do next; zero: never, unless an event
// comes.
func (q *Queue) NextWake() time.Time {
	var wake time.Time
	earlier := func(t time.Time) {
		if wake.IsZero() || t.Before(wake) {
			wake = t
		}
	}
	if p := q.backoff.head(); p != nil {
		earlier(backoffOver(p))
	}
	if p := q.errors.head(); p != nil {
		earlier(backoffOver(p))
	}
	if p := q.waiting.head(); p != nil {
		earlier(q.timeout(p))
	}
	return wake
}
