package queue

import "errors"

// Before tells whether the queue gives one pod before another.
func (q *Queue) Before(a, b *Pod) bool { return q.active.before(a, b) }

// Rejoin has a pod in flight, whose attempt waited for somebody, know all events so far: it
// is decided on what is now.
func (q *Queue) Rejoin(p *Pod) {
	if p.place == InFlight {
		q.flights.turn(p)
	}
}

// Reserved says that a node is reserved for a pod in flight, which may still lose it for a reason that events can
// change: it stays in flight until Done, or its failure, and is not nominated any more.
func (q *Queue) Reserved(p *Pod) { q.nominations.drop(p) }

// Unreserved takes Reserved back.
func (q *Queue) Unreserved(p *Pod) {
	if p.place == InFlight && !p.deleted {
		q.nominations.set(p, p.Nomination())
	}
}

// Refused ends the attempt of a pod in flight that has lost its node again, as Unschedulable does;
// one that is Done by now is tried again after its backoff.
func (q *Queue) Refused(p *Pod, rejectedBy []string, message string) {
	if p.place == InFlight {
		q.Unschedulable(p, rejectedBy, message)
		return
	}
	q.Retry(p, errors.New(message))
}

// End drops a pod that is still in flight; others are left alone.
func (q *Queue) End(p *Pod) {
	if p.place == InFlight {
		p.represents = nil
		q.drop(p)
	}
}
