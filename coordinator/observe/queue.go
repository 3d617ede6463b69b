package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardsched/shardsched/coordinator/metrics"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// podPopped is upstream's label of a pod in flight among the events that are tracked.
const podPopped = "PodPopped"

// queueMeter is the queue's Meter.
type queueMeter struct {
	set      *metrics.Set
	incoming map[incomingKey]prometheus.Counter
	rejected map[pluginProfile]prometheus.Gauge
	hints    map[hintKey]*metrics.Histogram
	tracked  [queue.Kinds]prometheus.Gauge // nil: never
	busy     []queue.Kind                  // those that were tracked when sizes was called last
	popped   prometheus.Gauge
	pending  [4]prometheus.Gauge
}

type incomingKey struct {
	place queue.Place
	event string
}

type pluginProfile struct{ plugin, profile string }

type hintKey struct {
	plugin string
	event  queue.Kind
	helps  bool
}

func newQueueMeter(set *metrics.Set) *queueMeter {
	m := &queueMeter{
		set:      set,
		incoming: map[incomingKey]prometheus.Counter{},
		rejected: map[pluginProfile]prometheus.Gauge{},
		hints:    map[hintKey]*metrics.Histogram{},
		popped:   set.Gauge("scheduler_inflight_events", podPopped),
	}
	for i, place := range pendingPlaces() {
		m.pending[i] = set.Gauge("scheduler_pending_pods", place.String())
	}
	return m
}

// pendingPlaces are the queues by upstream's names.
func pendingPlaces() [4]queue.Place {
	return [4]queue.Place{queue.Active, queue.Backoff, queue.Unschedulable, queue.Gated}
}

// Incoming is part of queue.Meter.
func (m *queueMeter) Incoming(place queue.Place, event string) {
	key := incomingKey{place, event}
	c := m.incoming[key]
	if c == nil {
		c = m.set.Counter("scheduler_queue_incoming_pods_total", place.String(), event)
		m.incoming[key] = c
	}
	c.Inc()
}

// Rejected is part of queue.Meter.
func (m *queueMeter) Rejected(plugin, profile string, by int) {
	key := pluginProfile{plugin, profile}
	g := m.rejected[key]
	if g == nil {
		g = m.set.Gauge("scheduler_unschedulable_pods", plugin, profile)
		m.rejected[key] = g
	}
	g.Add(float64(by))
}

// Hinted is part of queue.Meter.
func (m *queueMeter) Hinted(plugin string, event queue.Kind, helps bool, n int, each time.Duration) {
	key := hintKey{plugin, event, helps}
	h := m.hints[key]
	if h == nil {
		hint := "QueueSkip"
		if helps {
			hint = "Queue"
		}
		h = m.set.Histogram("scheduler_queueing_hint_execution_duration_seconds", plugin, event.String(), hint)
		m.hints[key] = h
	}
	h.ObserveN(each.Seconds(), n)
}

// sizes reads the queue.
func (m *queueMeter) sizes(q *queue.Queue) {
	for i, place := range pendingPlaces() {
		n := q.Len(place)
		if place == queue.Backoff {
			n += q.Len(queue.ErrorBackoff)
		}
		m.pending[i].Set(float64(n))
	}
	for _, k := range m.busy {
		m.tracked[k].Set(0)
	}
	m.busy = m.busy[:0]
	q.Tracked(func(k queue.Kind, n int) {
		if m.tracked[k] == nil {
			m.tracked[k] = m.set.Gauge("scheduler_inflight_events", k.String())
		}
		m.tracked[k].Set(float64(n))
		m.busy = append(m.busy, k)
	})
	m.popped.Set(float64(q.Len(queue.InFlight)))
}
