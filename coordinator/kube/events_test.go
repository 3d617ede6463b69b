package kube_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/shardsched/shardsched/coordinator/kube"
)

// upstreamEvents are what client-go's broadcaster sends for two refusals of one pod and a bind
// of another, waiting for each.
func upstreamEvents(t *testing.T, note string) []seen {
	a := newAPI(t, func(s seen) reply { return reply{code: 201, object: &eventsv1.Event{}} })
	cfg := a.config()
	cfg.ContentType = "application/json"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := b.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer b.Shutdown()
	recorder := b.NewRecorder(scheme.Scheme, "default-scheduler")
	for n := range 3 {
		switch n {
		case 0, 1:
			recorder.Eventf(pod("a"), nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", note)
		case 2:
			recorder.Eventf(pod("b"), nil, v1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %v/%v to %v", "default", "b", "n1")
		}
		eventually(t, "client-go's event", func() bool { return len(a.all()) == n+1 })
	}
	return a.all()
}

func TestEventsAreUpstreams(t *testing.T) {
	const note = "0/1 nodes are available: 1 Insufficient cpu."
	want := upstreamEvents(t, note)
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	r := newReporting(t, script(created()), func(c *kube.ReporterConfig) { c.Hostname = hostname })
	r.start()
	for n := range 3 {
		switch n {
		case 0, 1:
			r.Unscheduled(pod("a"), "Unschedulable", note, nil)
		case 2:
			r.Scheduled(pod("b"), "n1")
		}
		eventually(t, "our event", func() bool { return len(r.api.all()) == n+1 })
		r.settled(t)
	}
	got := r.api.all()
	for i := range want {
		if g, w := masked(t, got[i]), masked(t, want[i]); g != w {
			t.Errorf("event %d:\n got %s\nwant %s", i+1, g, w)
		}
	}
}

// masked is a request without what differs from run to run.
func masked(t *testing.T, s seen) string {
	body := decode[map[string]any](t, s.body)
	if meta, ok := body["metadata"].(map[string]any); ok {
		meta["name"] = "NAME"
		delete(meta, "creationTimestamp")
	}
	if series, ok := body["series"].(map[string]any); ok {
		series["lastObservedTime"] = "THEN"
	}
	if _, ok := body["eventTime"].(string); ok {
		body["eventTime"] = "THEN"
	}
	for _, empty := range []string{"deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"} {
		delete(body, empty)
	}
	path, _, named := strings.Cut(s.String(), "/events/a.")
	return fmt.Sprint(path, " ", named, " ", s.header.Get("Content-Type"), " ", string(canonicalOf(body)))
}

func canonicalOf(v any) string { return fmt.Sprint(v) }

// step lets time pass, and what there is to be done then be done.
func (r *reporting) step(t *testing.T, d time.Duration) {
	t.Helper()
	// The queue's heartbeat and the sweep wait for the clock, and nothing else does.
	waiting := func() bool { return r.clock.Waiters() == waitersAtRest }
	eventually(t, "the clock to be waited for", waiting)
	r.clock.Step(d)
	eventually(t, "the clock to be waited for again", waiting)
	r.settled(t)
}

func TestASeriesFromItsFirstToItsLastAttempt(t *testing.T) {
	r := newReporting(t, script(reply{code: 200}))
	r.start()
	attempt := func(version string) {
		r.Unscheduled(pod("a", at(version)), "Unschedulable", "100% full", nil)
		r.settled(t)
	}
	var log []string
	note := func() string {
		all := r.written("/events")
		out := []string{}
		for _, s := range all[len(log):] {
			e := decode[eventsv1.Event](t, s.body)
			line := fmt.Sprintf("%s %s", s.method, e.Note)
			if e.Series != nil {
				line += fmt.Sprintf(" x%d until %s", e.Series.Count, e.Series.LastObservedTime.Sub(noon))
			}
			out = append(out, line)
		}
		log = append(log, out...)
		return strings.Join(out, "; ")
	}
	want := func(when, what string) {
		t.Helper()
		eventually(t, when+": "+what, func() bool { return len(r.written("/events")) > len(log) || what == "" })
		if got := note(); got != what {
			t.Errorf("%s: got %q, want %q", when, got, what)
		}
	}
	attempt("7")
	want("first attempt", "POST 100% full")
	r.step(t, time.Minute)
	attempt("7")
	want("second attempt", "PATCH  x2 until 1m0s")
	for range 9 {
		r.step(t, 3*time.Minute)
		attempt("7")
	}
	r.step(t, 3*time.Minute)
	want("half an hour of attempts", "PATCH  x11 until 28m0s")
	r.step(t, time.Minute)
	attempt("8")
	want("the pod has another version", "POST 100% full")
	r.step(t, time.Minute)
	attempt("8")
	want("second attempt at that", "PATCH  x2 until 33m0s")
	r.step(t, time.Minute)
	attempt("8")
	r.step(t, 7*time.Minute)
	want("nothing for seven minutes", "PATCH  x3 until 34m0s")
	attempt("8")
	want("an attempt after that", "POST 100% full")
}

func TestAttemptsBeforeTheEventIsWrittenAreCountedInIt(t *testing.T) {
	r := newReporting(t, script(reply{code: 200}))
	for range 5 {
		r.Unscheduled(pod("a"), "Unschedulable", "x", nil)
	}
	r.start()
	r.settled(t)
	eventually(t, "the event", func() bool { return len(r.written("/events")) == 1 })
	e := decode[eventsv1.Event](t, r.written("/events")[0].body)
	if e.Series == nil || e.Series.Count != 5 || e.Note != "x" {
		t.Errorf("event: got note %q, series %v, want x five times", e.Note, e.Series)
	}
}

func TestNotesFitTheAPI(t *testing.T) {
	for name, c := range map[string]struct{ message, want string }{
		"short":             {"x", "x"},
		"just short enough": {strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		"too long":          {strings.Repeat("x", 1025), strings.Repeat("x", 1020) + " ..."},
		"a character cut":   {"y" + strings.Repeat("ä", 600), "y" + strings.Repeat("ä", 509) + " ..."},
		"a format":          {"50% of %d", "50% of %d"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReporting(t, script(reply{code: 200}))
			r.Unscheduled(pod(strings.Repeat("p", 253)), "Unschedulable", c.message, nil)
			r.start()
			eventually(t, "the event", func() bool { return len(r.written("/events")) == 1 })
			e := decode[eventsv1.Event](t, r.written("/events")[0].body)
			if e.Note != c.want {
				t.Errorf("note: got %q, want %q", e.Note, c.want)
			}
			if len(e.Name) > 253 || !strings.HasPrefix(e.Name, "ppp") {
				t.Errorf("name: got %d bytes, %q, want at most 253 and the pod's in front", len(e.Name), e.Name)
			}
		})
	}
}

func TestWhatBecomesOfAnEvent(t *testing.T) {
	exists := reply{code: 409, reason: "AlreadyExists", message: "exists"}
	for name, c := range map[string]struct {
		respond func(seen) reply
		want    string
		dropped float64
	}{
		"written":                   {script(created()), "POST", 0},
		"the answer was lost":       {script(lost(), exists), "POST POST", 0},
		"the API server was busy":   {script(tooMany("2"), created()), "POST POST", 0},
		"the namespace terminates":  {script(forbidden()), "POST", 1},
		"the API server stays away": {script(unavailable()), strings.TrimSpace(strings.Repeat("POST ", 12)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReporting(t, c.respond)
			r.Scheduled(pod("a"), "n1")
			r.start()
			want := len(strings.Fields(c.want))
			eventually(t, "the requests", func() bool {
				r.clock.Step(5 * time.Second)
				return len(r.written("/events")) >= want && r.value(t, "shardsched_events_dropped_total") == c.dropped
			})
			var got []string
			for _, s := range r.written("/events") {
				got = append(got, s.method)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("requests: got %v, want %s", got, c.want)
			}
		})
	}
}

func TestASeriesWhoseEventExpiredGoesOnInANewOne(t *testing.T) {
	r := newReporting(t, func(s seen) reply {
		if s.method == "PATCH" {
			return gone("events")
		}
		return created()
	})
	r.start()
	for n := range 2 {
		r.Unscheduled(pod("a"), "Unschedulable", "x", nil)
		eventually(t, "the event", func() bool { return len(r.written("/events")) == 1+2*n })
		r.settled(t)
	}
	last := decode[eventsv1.Event](t, r.written("/events")[2].body)
	if last.Series == nil || last.Series.Count != 2 || last.Note != "x" {
		t.Errorf("new event: got note %q and series %v, want x twice", last.Note, last.Series)
	}
}

func TestTooManyEventsOfANamespaceAreDroppedAndCounted(t *testing.T) {
	r := newReporting(t, never)
	other := pod("b")
	other.Namespace = "other"
	for _, step := range []struct {
		pod            *v1.Pod
		times, dropped int
	}{
		{pod("a"), 50_007, 7}, {other, 25_000, 7}, {other, 3, 10}, {pod("a"), 2, 12}, {pod("c", func(p *v1.Pod) { p.Namespace = "third" }), 1000, 12},
	} {
		for range step.times {
			r.Scheduled(step.pod, "n1")
		}
		if got := r.value(t, "shardsched_events_dropped_total"); got != float64(step.dropped) {
			t.Errorf("dropped after %d events in %s: got %v, want %d", step.times, step.pod.Namespace, got, step.dropped)
		}
	}
}

// A namespace with one pod that fails does not wait for another with thousands.
func TestNamespacesTakeTurnsAtConditionsAndEvents(t *testing.T) {
	// One request of each is under way at once: they come in the order in which they begin.
	r := newReporting(t, script(reply{code: 200}), func(c *kube.ReporterConfig) { c.StatusWorkers, c.EventWorkers = 1, 1 })
	const many = 200
	for i := range many {
		p := pod(fmt.Sprint("a", i))
		r.cache.set(p)
		r.Unscheduled(p, "Unschedulable", "x", nil)
	}
	for _, namespace := range []string{"b", "c"} {
		p := pod(namespace)
		p.Namespace = namespace
		r.cache.set(p)
		r.Unscheduled(p, "Unschedulable", "x", nil)
	}
	r.start()
	for _, part := range []string{"/pods/", "/events"} {
		eventually(t, fmt.Sprintf("%s: %d requests", part, many+2), func() bool { return len(r.written(part)) == many+2 })
		all := r.written(part)
		for _, namespace := range []string{"/b/", "/c/"} {
			if at := slices.IndexFunc(all, func(s seen) bool { return strings.Contains(s.path, "/namespaces"+namespace) }); at < 0 || at > 2 {
				t.Errorf("%s: the request of namespace %s is number %d, want one of the first three", part, namespace, at)
			}
		}
	}
}

// A namespace whose events are refused for now keeps no worker from another's, and is asked again later.
func TestANamespaceWhoseEventsAreRefusedForNowKeepsNoWriter(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	full.Store(true)
	r := newReporting(t, func(s seen) reply {
		if full.Load() && strings.Contains(s.path, "/default/") {
			refused.Add(1)
			return tooMany("7")
		}
		return created()
	})
	const many = 20
	for i := range many {
		r.Scheduled(pod(fmt.Sprint("a", i)), "n1")
	}
	r.start()
	of := func(namespace string) int {
		return len(slices.DeleteFunc(r.written("/events"), func(s seen) bool { return !strings.Contains(s.path, "/"+namespace+"/") }))
	}
	// Both workers have put back what was refused: an answer that came after the rest would begin another one.
	eventually(t, "the namespace to rest", func() bool {
		return r.clock.Waiters() == waitersAtRest+1 && r.value(t, "shardsched_events_pending") == many
	})
	for i := range many {
		p := pod(fmt.Sprint("b", i))
		p.Namespace = "other"
		r.Scheduled(p, "n1")
	}
	eventually(t, "the other namespace's events", func() bool { return of("other") == many })
	if got := refused.Load(); got > 2 {
		t.Errorf("requests in the namespace that is full: got %d, want one of each worker at the most", got)
	}
	full.Store(false)
	r.clock.Step(7 * time.Second)
	r.settled(t)
	eventually(t, "the first namespace's events", func() bool { return of("default") == int(refused.Load())+many })
	if got := r.value(t, "shardsched_events_dropped_total"); got != 0 {
		t.Errorf("dropped: got %v, want none", got)
	}
}

// waitersAtRest is how many wait for the clock of a reporter that has nothing to do.
const waitersAtRest = 4

func TestEventsLetBindsGoFirst(t *testing.T) {
	var busy atomic.Bool
	busy.Store(true)
	var asked atomic.Int64
	r := newReporting(t, script(created()), func(c *kube.ReporterConfig) {
		c.EventWorkers = 1
		c.Busy = func() bool { asked.Add(1); return busy.Load() }
	})
	r.Scheduled(pod("a"), "n1")
	r.Scheduled(pod("b"), "n1")
	r.start()
	eventually(t, "the writer to see that binds are under way", func() bool { return asked.Load() > 0 && r.clock.Waiters() == waitersAtRest+1 })
	if got := r.api.log(); got != "" {
		t.Errorf("requests while binds are under way: got %s, want none", got)
	}
	eventually(t, "patience to end", func() bool {
		r.clock.Step(31 * time.Second)
		return len(r.api.all()) == 2
	})
	busy.Store(false)
	r.Scheduled(pod("c"), "n1")
	eventually(t, "the third event", func() bool { return len(r.api.all()) == 3 })
	if got := r.api.all(); !slices.ContainsFunc(got, func(s seen) bool { return strings.Contains(string(s.body), "default/c to n1") }) {
		t.Errorf("requests: got %s, want the event of c", r.api.log())
	}
}
