package kube

import (
	"time"
	"unique"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// seriesEnds is how long after its last occasion a series is over.
	seriesEnds = 6 * time.Minute
	// seriesRefresh is how often the count of a series is written while it goes on.
	seriesRefresh = 30 * time.Minute
	sweepPeriod   = time.Minute
)

// series is the failed attempts at one version of a pod, which share one event. The note is
// the first one's: another message makes another condition, which makes another version of
// the pod.
//
//	first attempt    the event is created
//	second           it becomes a series, of two
//	later ones       are counted; the count is written every half hour, and when no attempt
//	                 came for six minutes: then the series is over
//
// Guarded by the writer's lock.
type series struct {
	head occasion // without its note
	note unique.Handle[string]
	name string
	// count is how many attempts there were, and last when the last one was.
	count int32
	last  time.Time
	// written is the count that the API server has, 0: the event is not there. sent is the
	// count in the newest request, and at when that was made.
	written, sent int32
	at            time.Time
	queued        bool
	over          bool
}

// count adds an attempt to its series. Called with the lock held.
func (w *eventWriter) count(o occasion) {
	s := w.series[o.uid]
	if s != nil && s.head.resourceVersion != o.resourceVersion {
		w.finish(s)
		s = nil
	}
	if s == nil {
		s = &series{name: eventName(o.pod, o.at), note: unique.Make(o.note), head: o}
		s.head.note = ""
		w.series[o.uid] = s
	}
	s.count++
	s.last = o.at
	if s.written < 2 {
		w.enqueue(s)
	}
}

// enqueue has a series' state written. Called with the lock held.
func (w *eventWriter) enqueue(s *series) {
	if s.queued || s.count <= s.written {
		return
	}
	o := s.head
	o.note, o.series = s.note.Value(), s
	s.queued = w.put(o)
}

// finish writes the last count of a series. Called with the lock held.
func (w *eventWriter) finish(s *series) {
	s.over = true
	w.enqueue(s)
	if w.series[s.head.uid] == s {
		delete(w.series, s.head.uid)
	}
}

// sweep ends series and refreshes their counts. It gives the lock up now and then: the
// scheduling loop must not wait for it.
func (w *eventWriter) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	n := 0
	for _, s := range w.series {
		if n++; n%1024 == 0 {
			w.mu.Unlock()
			w.mu.Lock()
		}
		switch {
		case now.Sub(s.last) >= seriesEnds:
			w.finish(s)
		case s.written > 1 && now.Sub(s.at) >= seriesRefresh:
			w.enqueue(s)
		}
	}
}

// patch is the change of an event that is there; nil: it is not.
func (w *eventWriter) patch(s *series) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.sent, s.at = s.count, w.clock.Now()
	if s.written == 0 {
		return nil
	}
	return mustJSON(struct {
		Series *eventsv1.EventSeries `json:"series"`
	}{s.api()})
}

// api is the series as the API has it.
func (s *series) api() *eventsv1.EventSeries {
	return &eventsv1.EventSeries{Count: s.sent, LastObservedTime: metav1.NewMicroTime(s.last)}
}

// describe completes the event of a series.
func (w *eventWriter) describe(s *series, e *eventsv1.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Name = s.name
	if s.sent > 1 {
		e.Series = s.api()
	}
}

// written notes that a series' state is with the API server, as far as it will get there.
func (w *eventWriter) written(o occasion) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := o.series
	s.queued, s.written = false, s.sent
	if s.over || s.written < 2 {
		w.enqueue(s)
	}
}
