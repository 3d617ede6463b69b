package queue

import "slices"

// Unschedulable ends an attempt that plugins rejected. The pod waits for an event that
// may help it; one that came during the attempt counts. Without a plugin it is an error. After the members of a pod group
// GroupFailed is to follow.
func (q *Queue) Unschedulable(p *Pod, rejectedBy []string, message string) {
	if len(rejectedBy) == 0 {
		q.fail(p, message)
		return
	}
	if !q.failed(p, message) {
		return
	}
	q.nominations.set(p, p.Nomination())
	p.UnschedulableCount++
	p.ErrorCount = 0
	q.setRejectedBy(p, rejectedBy)
	p.BackoffUntil = q.backoffs.until(p, p.Timestamp)
	if q.speaksForItself(p) {
		q.passOn(p)
	}
	p.represents = nil
	if p.activated || q.flights.helped(p, q.rules) {
		q.requeue(p, eventAttemptFailed)
		return
	}
	q.move(p, Unschedulable, eventAttemptFailed)
}

func (q *Queue) setRejectedBy(p *Pod, plugins []string) {
	p.RejectedBy = slices.Clone(plugins)
	slices.Sort(p.RejectedBy)
	p.RejectedBy = slices.Compact(p.RejectedBy)
	p.rejectors = q.rules.set(p.RejectedBy)
	q.blame(p, p.RejectedBy)
}

// Error ends an attempt that failed for a reason other than the nodes. The pod is tried
// again after its backoff.
func (q *Queue) Error(p *Pod, err error) { q.fail(p, err.Error()) }

func (q *Queue) fail(p *Pod, message string) {
	if !q.failed(p, message) {
		return
	}
	q.Nominate(p, "")
	p.ErrorCount++
	p.RejectedBy, p.rejectors = nil, 0
	p.BackoffUntil = q.backoffs.until(p, p.Timestamp)
	q.requeue(p, eventAttemptFailed)
	q.passOn(p)
}

// failed is what both kinds of failure have in common; false where the pod does not come
// back.
func (q *Queue) failed(p *Pod, message string) bool {
	if p.place != InFlight {
		return false
	}
	if p.deleted {
		q.drop(p)
		return false
	}
	p.Timestamp, p.Message, p.Flushed = q.now(), message, false
	return true
}

// Retry takes a pod back that was Done, because what followed its decision failed. It is
// tried again after its backoff. Where a newer pod has its name, it is gone.
func (q *Queue) Retry(p *Pod, err error) {
	if p.place == Gone && !p.deleted && q.pods[p.Obj.UID] == nil && q.names[p.name()] == nil {
		q.enlist(p)
		q.put(p, InFlight)
	}
	q.Error(p, err)
}

// GiveBack takes a pod back as if it had not been popped.
func (q *Queue) GiveBack(p *Pod) {
	switch {
	case p.place != InFlight:
	case p.deleted:
		q.drop(p)
	default:
		// Upstream, who pops one at a time, has nothing to tell here.
		p.Attempts--
		q.blame(p, p.RejectedBy)
		to := p.from
		if p.activated && to == Unschedulable {
			to = Active
		}
		waits := to == Unschedulable
		if waits {
			to = q.waitsOn(p)
		}
		q.take(p)
		if q.put(p, to); waits && to != Unschedulable {
			q.wakeMates(p.Group, eventAttemptFailed)
		}
	}
}

// waitsOn is where a member goes back to that was waiting for an event when it was popped with a mate: one may have come meanwhile.
func (q *Queue) waitsOn(p *Pod) Place {
	q.flights.unturn(p)
	if p.Group.recalled = p.Group.recalled || q.flights.helped(p, q.rules); p.Group.recalled {
		return q.retried(p)
	}
	return Unschedulable
}
