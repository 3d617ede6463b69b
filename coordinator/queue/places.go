package queue

import "time"

// requeue puts a pod where it waits for its turn: Active, or Backoff as long as it is backing
// off.
// A member of a pod group that was unschedulable takes its mates along.
func (q *Queue) requeue(p *Pod, event string) {
	waited := p.place == Unschedulable
	q.requeueOne(p, event)
	if waited && p.Group != nil {
		q.wakeMates(p.Group, event)
	}
}

func (q *Queue) requeueOne(p *Pod, event string) { q.admit(p, q.retried(p), event) }

// retried is where a pod waits that is to be tried again.
func (q *Queue) retried(p *Pod) Place {
	switch {
	case !isBackingOff(p, q.now()):
		return Active
	case len(p.RejectedBy) == 0 || p.Group != nil && (!q.frozen || p.Group.failed):
		return ErrorBackoff
	}
	return Backoff
}

// admit moves a pod to a place where it waits for its turn, unless a plugin holds it
// back.
func (q *Queue) admit(p *Pod, to Place, event string) {
	plugin, message := q.rules.gate(p)
	if plugin == "" {
		if p.Gated != "" {
			p.Gated, p.Message = "", ""
		}
		q.move(p, to, event)
		if to == Active && (event == eventPodAdded || event == eventPodUpdated) {
			q.nominations.set(p, p.Nomination())
		}
		return
	}
	p.Message = message
	if p.place == Gated && p.Gated == plugin {
		return
	}
	waited := p.place == Unschedulable || p.place == Gated
	q.take(p)
	p.Gated, p.rejectors, p.ClassID = plugin, q.rules.names[plugin], 0
	q.hold(p, plugin == GangScheduling)
	q.put(p, Gated)
	q.blame(p, []string{plugin})
	if !waited {
		q.tell(Unschedulable, event) // upstream keeps both in one place
	}
	q.passOn(p)
	q.release(p.Group)
}

// move takes a pod from its place to another.
func (q *Queue) move(p *Pod, to Place, event string) {
	q.take(p)
	q.put(p, to)
	q.tell(to, event)
}

// put puts a pod that is nowhere into a place.
func (q *Queue) put(p *Pod, to Place) {
	switch to {
	case Active, Backoff, ErrorBackoff:
		if to == Active && p.FirstAttempt.IsZero() {
			p.FirstAttempt = q.now()
		}
		p.place = to
		q.lineOf(p).push(p)
	case Unschedulable:
		q.waiting.push(p)
		q.addToIndex(p)
	case Gated:
		q.addToIndex(p)
	case InFlight:
		q.flights.takeOff(p)
	}
	p.place = to
	q.counts[to]++
	p.Group.count(to, +1)
}

// addToIndex has a pod found by the events that may help it.
func (q *Queue) addToIndex(p *Pod) {
	like, told, class, matched := likeness{}, true, p.ClassID, p.Matched
	switch {
	case class == 0:
	case p.isLong():
		like = likenessOfLong
	default:
		like, told = q.rules.likeness(p.rejectors, p)
	}
	if !told {
		p.rejectors, class = p.rejectors|unknown, 0
	}
	if p.rejectors&q.rules.asksEach != 0 {
		class, like = 0, likeness{} // out-of-tree plugins may look at anything
	}
	if class == 0 {
		matched = ""
	}
	var longest time.Duration
	if class != 0 && q.tellByLongest {
		longest = p.Longest()
	}
	q.index.add(q.rules, p, bucketKey{p.rejectors, class, matched, like, p.mates(class), longest})
}

// take takes a pod out of its place; it is nowhere then.
func (q *Queue) take(p *Pod) {
	switch p.place {
	case Gone:
		return
	case Active, Backoff, ErrorBackoff:
		q.lineOf(p).remove(p)
	case Unschedulable:
		q.waiting.remove(p)
		q.index.remove(p)
	case Gated:
		q.hold(p, false)
		q.index.remove(p)
	case InFlight:
		q.flights.land(p)
	}
	q.counts[p.place]--
	p.Group.count(p.place, -1)
	p.place = Gone
}

func (q *Queue) tell(place Place, event string) { q.meter.Incoming(place, event) }
