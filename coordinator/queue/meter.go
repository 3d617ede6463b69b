package queue

import "time"

// Meter is told what the queue does, for metrics.
type Meter interface {
	// Incoming is told of each pod that comes into a place, with upstream's name of the reason
	// (queue_incoming_pods_total).
	Incoming(place Place, event string)
	// Rejected is told by how many the pods of a profile change that a plugin has rejected,
	// or holds back, and that have not been tried again since (unschedulable_pods).
	Rejected(plugin, profile string, by int)
	// Hinted is told that a plugin's hint was asked n times whether an event of a kind helps,
	// with the same answer, and how long each took (queueing_hint_execution_duration_seconds).
	Hinted(plugin string, event Kind, helps bool, n int, each time.Duration)
}

// unmetered is the Meter where there is none.
type unmetered struct{}

func (unmetered) Incoming(Place, string)                        {}
func (unmetered) Rejected(string, string, int)                  {}
func (unmetered) Hinted(string, Kind, bool, int, time.Duration) {}

// Kind is what an event is about and what happened, as a small number.
type Kind uint16

// Kinds is how many kinds of events there are.
const Kinds = int(resources) * actions

// Kinds of events that no plugin waits for.
const (
	PendingPodAdded   = Kind(PendingPod)*Kind(actions) + 0
	PendingPodDeleted = Kind(PendingPod)*Kind(actions) + 1
	PendingPodUpdated = Kind(PendingPod)*Kind(actions) + Kind(actions) - 1
)

// Kind is the event's.
func (e *Event) Kind() Kind { return Kind(e.resource)*Kind(actions) + Kind(e.action.index()) }

// String is upstream's label of events of the kind.
func (k Kind) String() string {
	e := Event{resource: Resource(k / Kind(actions)), action: 1 << (k % Kind(actions))}
	return e.String()
}

// blame notes which plugins keep a pod from a node, until it is tried again.
func (q *Queue) blame(p *Pod, plugins []string) {
	q.absolve(p)
	p.blamed = plugins
	for _, name := range plugins {
		q.meter.Rejected(name, p.Obj.Spec.SchedulerName, +1)
	}
}

func (q *Queue) absolve(p *Pod) {
	for _, name := range p.blamed {
		q.meter.Rejected(name, p.Obj.Spec.SchedulerName, -1)
	}
	p.blamed = nil
}

// asked counts the hints that were asked, by their plugins and answers.
type asked struct {
	plugins set
	n       [64][2]int
}

func (a *asked) note(plugin set, helps bool) {
	a.plugins |= plugin
	answer := 0
	if helps {
		answer = 1
	}
	a.n[plugin.index()][answer]++
}

// hinted tells of the hints that were asked for an event, which took so long together.
func (q *Queue) hinted(e *Event, took time.Duration) {
	a := &q.rules.asked
	all := 0
	for s := a.plugins; s != 0; s &= s - 1 {
		all += a.n[s.index()][0] + a.n[s.index()][1]
	}
	for s := a.plugins; s != 0; s &= s - 1 {
		i := s.index()
		for answer, n := range a.n[i] {
			if n > 0 {
				q.meter.Hinted(q.rules.plugins[i].Name, e.Kind(), answer == 1, n, took/time.Duration(all))
			}
		}
	}
	q.forgetAsked()
}

func (q *Queue) forgetAsked() {
	a := &q.rules.asked
	for s := a.plugins; s != 0; s &= s - 1 {
		a.n[s.index()] = [2]int{}
	}
	a.plugins = 0
}

// Tracked calls f for each kind of event that is kept for pods in flight, with their number.
func (q *Queue) Tracked(f func(k Kind, n int)) {
	for k, n := range q.flights.kinds {
		if n > 0 {
			f(Kind(k), n)
		}
	}
}
