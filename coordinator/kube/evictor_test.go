package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

var _ coordinator.Evictor = (*kube.Evictor)(nil)

// evicting is an evictor under test, with the reporter that writes its events.
type evicting struct {
	*reporting
	*kube.Evictor
	fence error // guarded by mu
	mu    sync.Mutex
}

func newEvicting(t *testing.T, respond func(seen) reply) *evicting {
	x := &evicting{}
	x.reporting = newReporting(t, respond)
	clients := x.api.clients(func(c *kube.ClientConfig) {
		c.Fence = func() error {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.fence
		}
	})
	x.Evictor = kube.NewEvictor(kube.EvictorConfig{Clients: clients, Reporter: x.Reporter, Pod: x.cache.get, Clock: instant{x.clock}})
	return x
}

// instant is a clock whose waits are over at once.
type instant struct{ *clocktesting.FakeClock }

func (c instant) After(time.Duration) <-chan time.Time {
	over := make(chan time.Time, 1)
	over <- c.Now()
	return over
}

// depose closes the fence.
func (x *evicting) depose() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fence = fmt.Errorf("%w: a test", lease.ErrDeposed)
}

// preempt evicts and returns the outcome.
func (x *evicting) preempt(ctx context.Context, e objects.Eviction) error {
	outcome := make(chan error, 1)
	x.Evict(ctx, e, func(err error) { outcome <- err })
	return <-outcome
}

// writes are the requests but those about events, one a line.
func (x *evicting) writes() []string {
	var out []string
	for _, s := range x.api.all() {
		if !strings.Contains(s.path, "/events") {
			out = append(out, s.method+" "+strings.TrimPrefix(s.path, "/api/v1/namespaces/default/pods/"))
		}
	}
	return out
}

// eviction is one for the pod p of profile default-scheduler.
func eviction(victims ...*v1.Pod) objects.Eviction {
	return objects.Eviction{Preemptor: pod("p"), Node: "n1", Victims: victims}
}

func disrupted(message string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler, Message: message,
		}}
	}
}

const toldWhy = "default-scheduler: preempting to accommodate a higher priority pod"

func TestAVictimIsToldWhyDeletedAndTold(t *testing.T) {
	x := newEvicting(t, script(reply{code: 200}))
	x.start()
	x.cache.set(pod("a", on("n1")))
	if err := x.preempt(t.Context(), eviction(pod("a", on("n1")))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the event", func() bool { return len(x.written("/events")) == 1 })
	all := x.api.all()
	if got, want := x.writes(), []string{"PATCH a/status", "DELETE a"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	const patch = `{"metadata":{"uid":"uid-a"},"status":{"conditions":[{"type":"DisruptionTarget","observedGeneration":3,"status":"True",` +
		`"lastProbeTime":null,"lastTransitionTime":"2026-01-02T12:00:00Z","reason":"PreemptionByScheduler","message":"` + toldWhy + `"}]}}`
	if got := string(all[0].body); got != patch {
		t.Errorf("condition:\n got %s\nwant %s", got, patch)
	}
	if got, want := string(all[1].body), `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"uid-a"}}`; got != want {
		t.Errorf("delete: got %s, want %s", got, want)
	}
	e := decode[eventsv1.Event](t, x.written("/events")[0].body)
	if e.Type != "Normal" || e.Reason != "Preempted" || e.Action != "Preempting" || e.Note != "Preempted by pod uid-p on node n1" ||
		e.Regarding.Name != "a" || e.Related == nil || e.Related.Name != "p" || e.ReportingController != "default-scheduler" {
		t.Errorf("event: got %+v, want upstream's", e)
	}
}

// The last victim is begun when all others are through; nominations are cleared before any.
func TestTheOrderOfAPreemption(t *testing.T) {
	x := newEvicting(t, func(s seen) reply {
		if s.method == http.MethodGet {
			return found(pod("low", nominated("n1")))
		}
		return reply{code: 200}
	})
	var victims []*v1.Pod
	for _, name := range []string{"a", "b", "c", "d"} {
		victims = append(victims, pod(name, on("n1")))
	}
	x.cache.set(victims...)
	e := eviction(victims...)
	e.Lower = []*v1.Pod{pod("low", nominated("n1"))}
	if err := x.preempt(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	got := x.writes()
	if want := []string{"GET low", "PATCH low/status"}; len(got) != 10 || !slices.Equal(got[:2], want) {
		t.Fatalf("got %q, want ten that begin with %q", got, want)
	}
	if want := []string{"PATCH d/status", "DELETE d"}; !slices.Equal(got[8:], want) {
		t.Errorf("at last: got %q, want %q", got[8:], want)
	}
	for _, name := range []string{"a", "b", "c"} {
		if p, d := slices.Index(got, "PATCH "+name+"/status"), slices.Index(got, "DELETE "+name); p < 2 || d < p || d > 7 {
			t.Errorf("victim %s: got its condition at %d and its end at %d, want both between 2 and 7: %q", name, p, d, got)
		}
	}
	const cleared = `{"metadata":{"uid":"uid-low","resourceVersion":"7"},"status":{"nominatedNodeName":null}}`
	if got := string(x.api.all()[1].body); got != cleared {
		t.Errorf("nomination: got %s, want %s", got, cleared)
	}
}

func TestVictimsThatAreGoneAreNoError(t *testing.T) {
	for name, c := range map[string]struct {
		known   *v1.Pod // nil: the informer knows that it is gone
		replies []reply
		want    string
		event   bool
	}{
		"the informer knows":                 {nil, nil, "", false},
		"it terminates already":              {pod("a", deleted), nil, "", false},
		"gone before its condition":          {pod("a"), []reply{gone("pods")}, "PATCH a/status", false},
		"gone before it is deleted":          {pod("a"), []reply{{code: 200}, gone("pods")}, "PATCH a/status, DELETE a", false},
		"another has its name":               {pod("a"), []reply{{code: 200}, conflict("uid"), found(pod("a", withUID("other")))}, "PATCH a/status, DELETE a, GET a", false},
		"another has its name at once":       {pod("a"), []reply{{code: 422}, found(pod("a", withUID("other")))}, "PATCH a/status, GET a", false},
		"it has its condition":               {pod("a", disrupted(toldWhy)), []reply{{code: 200}}, "DELETE a", true},
		"it has another preemptor's":         {pod("a", disrupted("other: preempting")), []reply{{code: 200}}, "PATCH a/status, DELETE a", true},
		"an answer is lost, and it is gone":  {pod("a"), []reply{{code: 200}, lost(), gone("pods")}, "PATCH a/status, DELETE a, DELETE a", true},
		"the API server starts, and is busy": {pod("a"), []reply{unavailable(), tooMany("1"), {code: 200}, unavailable(), {code: 200}}, "PATCH a/status, PATCH a/status, PATCH a/status, DELETE a, DELETE a", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			x := newEvicting(t, func(s seen) reply {
				if strings.Contains(s.path, "/events") {
					return reply{code: 201}
				}
				n++
				if len(c.replies) == 0 {
					return reply{code: http.StatusTeapot}
				}
				return c.replies[min(n, len(c.replies))-1]
			})
			x.start()
			if c.known != nil {
				x.cache.set(c.known)
			}
			if err := x.preempt(t.Context(), eviction(pod("a"))); err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if got := strings.Join(x.writes(), ", "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if c.event {
				eventually(t, "the event", func() bool { return len(x.written("/events")) == 1 })
			} else if x.settled(t); len(x.written("/events")) > 0 {
				t.Error("got an event, want none")
			}
		})
	}
}

func TestAVictimThatCanNotBeDeletedKeepsTheLastOne(t *testing.T) {
	x := newEvicting(t, func(s seen) reply {
		switch {
		case s.method == http.MethodGet:
			return found(pod("a"))
		case strings.HasSuffix(s.path, "/pods/a"):
			return forbidden()
		}
		return reply{code: 200}
	})
	x.cache.set(pod("a"), pod("b"))
	err := x.preempt(t.Context(), eviction(pod("a"), pod("b")))
	if err == nil || !strings.Contains(err.Error(), "preempt on n1 for pod default/p: victim default/a: the API server answered 403") {
		t.Errorf("got %v, want that a could not be deleted", err)
	}
	if got := strings.Join(x.writes(), ", "); got != "PATCH a/status, DELETE a, GET a" {
		t.Errorf("got %q, want nothing about b", got)
	}
}

func TestNominationsThatYield(t *testing.T) {
	for name, c := range map[string]struct {
		now  []reply
		want string
		err  string
	}{
		"it is there":             {[]reply{found(pod("low", nominated("n1"))), {code: 200}}, "GET low, PATCH low/status", ""},
		"it is another":           {[]reply{found(pod("low", nominated("n2")))}, "GET low", ""},
		"it is bound":             {[]reply{found(pod("low", nominated("n1"), on("n1")))}, "GET low", ""},
		"the pod is gone":         {[]reply{gone("pods")}, "GET low", ""},
		"another has its name":    {[]reply{found(pod("low", nominated("n1"), withUID("other")))}, "GET low", ""},
		"it changes meanwhile":    {[]reply{found(pod("low", nominated("n1"))), conflict("changed"), found(pod("low", nominated("n2")))}, "GET low, PATCH low/status, GET low", ""},
		"it goes meanwhile":       {[]reply{found(pod("low", nominated("n1"))), gone("pods")}, "GET low, PATCH low/status", ""},
		"it may not be cleared":   {[]reply{found(pod("low", nominated("n1"))), forbidden()}, "GET low, PATCH low/status", "clear the nominated node of default/low: the API server answered 403"},
		"it can't be read at all": {[]reply{forbidden()}, "GET low", "clear the nominated node of default/low: the API server answered 403"},
	} {
		t.Run(name, func(t *testing.T) {
			lower := script(c.now...)
			x := newEvicting(t, func(s seen) reply {
				if strings.Contains(s.path, "/low") {
					return lower(s)
				}
				return reply{code: 200}
			})
			x.cache.set(pod("a"))
			e := eviction(pod("a"))
			e.Lower = []*v1.Pod{pod("low", nominated("n1"))}
			err := x.preempt(t.Context(), e)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got error %v, want %q", err, c.err)
			}
			// The victim leaves all the same.
			if got, want := strings.Join(x.writes(), ", "), c.want+", PATCH a/status, DELETE a"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestADeposedLeaderEvictsNobody(t *testing.T) {
	x := newEvicting(t, never)
	x.cache.set(pod("a"))
	x.depose()
	if err := x.preempt(t.Context(), eviction(pod("a"))); !errors.Is(err, lease.ErrDeposed) {
		t.Errorf("got %v, want that it is deposed", err)
	}
}

func TestAnEvictionEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := newEvicting(t, func(seen) reply {
		cancel()
		return unavailable()
	})
	x.cache.set(pod("a"), pod("b"))
	if err := x.preempt(ctx, eviction(pod("a"), pod("b"))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	if err := x.Evictor.Run(ctx); err != nil {
		t.Errorf("run: got %v, want that it ends without an error", err)
	}
}

// A nomination that is not written yet yields too, also where its write is on the way.
func TestANominationOnItsWayYields(t *testing.T) {
	low := pod("low")
	var x *evicting
	var last string
	x = newEvicting(t, func(s seen) reply {
		switch {
		case s.method == http.MethodGet:
			return found(pod("low"))
		case s.method == http.MethodPatch && strings.Contains(string(s.body), "n1"):
			last = "n1"
			// While it is on its way, the node is taken away; the informer lags behind.
			return reply{code: 200, before: func() {
				e := objects.Eviction{Preemptor: pod("p"), Node: "n1", Lower: []*v1.Pod{low}}
				if err := x.preempt(context.Background(), e); err != nil {
					t.Error(err)
				}
				x.cache.set(pod("low", nominated("n1"), at("8")))
			}}
		case s.method == http.MethodPatch:
			last = ""
		}
		return reply{code: 200}
	})
	x.cache.set(low)
	x.start()
	x.Unscheduled(low, "Unschedulable", "x", &objects.Nominating{Node: "n1"})
	x.settled(t)
	x.api.mu.Lock()
	defer x.api.mu.Unlock()
	if last != "" {
		t.Errorf("got nominated node %q at last, want none:\n%v", last, x.api.requests)
	}
}

// While the informer does not know yet what was written, nothing is compared with it.
func TestAStaleNominationIsNotTakenForTheNewest(t *testing.T) {
	x := newReporting(t, script(reply{code: 200}))
	p := pod("a")
	x.cache.set(p)
	x.start()
	x.Unscheduled(p, "Unschedulable", "x", &objects.Nominating{Node: "n1"})
	x.settled(t)
	x.Unscheduled(p, "Unschedulable", "x", &objects.Nominating{})
	eventually(t, "the second report to wait for the informer", func() bool { return x.clock.Waiters() == waitersAtRest+1 })
	x.cache.set(pod("a", nominated("n1"), at("8"), refusedBefore("Unschedulable", "x", noon)))
	eventually(t, "the nomination to be cleared", func() bool {
		x.clock.Step(1e9)
		return len(x.written("/status")) == 2
	})
	const cleared = `{"metadata":{"uid":"uid-a","resourceVersion":"8"},"status":{"nominatedNodeName":null}}`
	if got := string(x.written("/status")[1].body); got != cleared {
		t.Errorf("got %s, want %s", got, cleared)
	}
}

func TestDeletionsLeaveTheGracePeriodToThePod(t *testing.T) {
	var body metav1.DeleteOptions
	x := newEvicting(t, func(s seen) reply {
		if s.method == http.MethodDelete {
			body = decode[metav1.DeleteOptions](t, s.body)
		}
		return reply{code: 200}
	})
	x.cache.set(pod("a"))
	if err := x.preempt(t.Context(), eviction(pod("a"))); err != nil {
		t.Fatal(err)
	}
	if body.GracePeriodSeconds != nil || body.PropagationPolicy != nil {
		t.Errorf("got %+v, want the pod's own grace period", body)
	}
}
