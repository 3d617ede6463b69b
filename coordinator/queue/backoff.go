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

// tickEvery is how often unschedulable pods are looked through, from the queue's beginning on;
// more often where they are to wait for less.
const tickEvery = 30 * time.Second

// timeout is when an unschedulable pod is tried again without an event: at the first tick at
// which it has waited for longer than maxUnschedulable.
func (q *Queue) timeout(p *Pod) time.Time {
	tick := min(tickEvery, q.maxUnschedulable)
	waited := p.Timestamp.Sub(q.born) + q.maxUnschedulable
	return q.born.Add((waited/tick + 1) * tick)
}

// flushSlice bounds what one Flush does, so that pods which come together hold up the others
// for a few milliseconds at the most. The rest follows with the next call.
const flushSlice = 1000

// Flush moves pods whose backoff is over to Active, and tries those again that have been
// unschedulable for too long.
func (q *Queue) Flush() {
	now := q.now()
	left := flushSlice
	for _, h := range [...]*heap{&q.backoff, &q.errors} {
		for p := h.head(); p != nil && left > 0 && !isBackingOff(p, now); p = h.head() {
			q.move(p, Active, eventBackoffOver)
			left--
		}
	}
	for p := q.waiting.head(); p != nil && left > 0 && !now.Before(q.timeout(p)); p = q.waiting.head() {
		p.Flushed = true
		q.requeue(p, eventTimeout)
		left--
	}
	for ; len(q.deadlines) > 0 && left > 0 && !now.Before(q.deadlines[0].at); left-- {
		q.expire(q.deadlines[0].group)
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
	if len(q.deadlines) > 0 {
		earlier(q.deadlines[0].at)
	}
	return wake
}
