package coordinator

import (
	"context"

	"github.com/shardsched/shardsched/coordinator/queue"
)

// Extenders are asked about members outside the loop. The whole pod group is parked meanwhile, and its members are asked about together,
// each as if it were alone: extenders are told nothing of mates. Once they have answered for all, the pod group is tried.
//
//	tryGang ── one has to be asked about ──> askExtenders ──> parkGang ── an answer, or a turn to ask ──> resumed ─┐
//	   ^                                          ^                                                              │
//	   └──────────── all are answered ────────────┴──────────────────────────────────────────────────────────────┘

// askExtenders has extenders asked about the members that they have not been asked about. It tells whether an answer is still to come.
func (o *gangOutcome) askExtenders(ctx context.Context) (waits bool) {
	s := o.s
	for i := range o.members {
		m := &o.members[i]
		switch {
		case m.Extenders == nil || m.Extenders.Answered():
			continue
		case s.parking.parked[m.Pod] != nil: // the answer is on its way
			m.parked = true
		case !o.ready(m):
			return true
		default:
			if !o.ask(ctx, i) {
				return true
			}
		}
		waits = waits || m.parked
	}
	return waits
}

// ask asks about one member. It is false where the try is over.
func (o *gangOutcome) ask(ctx context.Context, i int) bool {
	m := &o.members[i]
	if m.Plugins = o.s.outOfTree.Review(m.Pod, m.Class); m.Plugins != nil {
		defer m.Plugins.End()
	}
	if _, err := o.choose(ctx, i, unasked); err != nil {
		o.fails(m, err)
		return false
	}
	m.end, m.top = nil, nil
	return true
}

// parks tells whether a member has to be parked.
func (o *gangOutcome) parks() bool {
	for i := range o.members {
		if o.members[i].parked {
			return true
		}
	}
	return false
}

// parkGang takes a pod group out of its batch, until Resume of one of its members.
func (s *Scheduler) parkGang(o *gangOutcome) {
	s.commit()
	list := make([]*attempt, len(o.members))
	for i := range o.members {
		m := &o.members[i]
		kept := *m.attempt
		kept.Plugins = nil
		if list[i] = &kept; m.parked {
			if s.parking.parked == nil {
				s.parking.parked = map[*queue.Pod]*attempt{}
			}
			s.parking.parked[m.Pod] = &kept
		}
	}
	if s.parking.gangs == nil {
		s.parking.gangs = map[*queue.Group][]*attempt{}
	}
	s.parking.gangs[list[0].Pod.Group] = list
}

// resume has a parked attempt decided anew, and all of its pod group with it.
func (p *parking) resume(pod *queue.Pod) {
	a := p.parked[pod]
	if a == nil {
		return
	}
	delete(p.parked, pod)
	switch gang := p.gangs[pod.Group]; {
	case pod.Group == nil:
		p.resumed = append(p.resumed, a)
	case gang != nil: // else it is resumed already
		delete(p.gangs, pod.Group)
		p.resumed = append(p.resumed, gang...)
	}
}

// unpark forgets what members of a pod group wait for: its attempt is over.
func (p *parking) unpark(attempts []attempt) {
	for i := range attempts {
		delete(p.parked, attempts[i].Pod)
	}
	delete(p.gangs, attempts[0].Pod.Group)
}
