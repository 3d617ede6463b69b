package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/objects"
	clocktesting "k8s.io/utils/clock/testing"
)

// informed is an informer's cache.
type informed struct {
	mu   sync.Mutex
	pods map[types.UID]*v1.Pod
}

func (c *informed) set(pods ...*v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods == nil {
		c.pods = map[types.UID]*v1.Pod{}
	}
	for _, p := range pods {
		c.pods[p.UID] = p
	}
}

func (c *informed) get(p *v1.Pod) *v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[p.UID]
}

// reporting is a reporter under test.
type reporting struct {
	*kube.Reporter
	api     *api
	cache   *informed
	clock   *clocktesting.FakeClock
	metrics *prometheus.Registry
	start   func()
}

// noon is when tests begin.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// newReporting makes one; it runs once start is called.
func newReporting(t *testing.T, respond func(seen) reply, change ...func(*kube.ReporterConfig)) *reporting {
	r := &reporting{api: newAPI(t, respond), cache: &informed{}, clock: clocktesting.NewFakeClock(noon), metrics: prometheus.NewRegistry()}
	cfg := kube.ReporterConfig{
		Clients: r.api.clients(func(c *kube.ClientConfig) { c.Registerer = r.metrics }),
		Pod:     r.cache.get, Hostname: "host", Clock: r.clock, StatusWorkers: 2, EventWorkers: 2,
	}
	for _, f := range change {
		f(&cfg)
	}
	r.Reporter = kube.NewReporter(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	r.start = func() { wg.Go(func() { _ = r.Run(ctx) }) }
	t.Cleanup(func() { cancel(); wg.Wait() })
	return r
}

// written are the requests about pods' status, or those about events.
func (r *reporting) written(part string) []seen {
	var out []seen
	for _, s := range r.api.all() {
		if strings.Contains(s.path, part) {
			out = append(out, s)
		}
	}
	return out
}

func (r *reporting) value(t *testing.T, name string) float64 {
	t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetGauge().GetValue() + f.Metric[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func (r *reporting) settled(t *testing.T) {
	t.Helper()
	eventually(t, "nothing to be pending", func() bool {
		return r.value(t, "shardsched_status_pending") == 0 && r.value(t, "shardsched_events_pending") == 0
	})
}

func refusedBefore(reason, message string, at time.Time) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(at),
		})
	}
}

func nominated(node string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Status.NominatedNodeName = node }
}

func TestStatusPatches(t *testing.T) {
	condition := func(reason, message, transition string) string {
		return fmt.Sprintf(`"conditions":[{"type":"PodScheduled","observedGeneration":3,"status":"False","lastProbeTime":null,"lastTransitionTime":%q,"reason":%q,"message":%q}]`, transition, reason, message)
	}
	before := noon.Add(-time.Hour)
	fails := func(reason, message string) func(*reporting, *v1.Pod) {
		return func(r *reporting, p *v1.Pod) { r.Unscheduled(p, reason, message, nil) }
	}
	for name, c := range map[string]struct {
		newest *v1.Pod
		do     func(*reporting, *v1.Pod)
		want   string // the patch's status; empty: nothing is sent
	}{
		"the first refusal":             {pod("a"), fails("Unschedulable", "0/1 nodes"), "{" + condition("Unschedulable", "0/1 nodes", "2026-01-02T12:00:00Z") + "}"},
		"the same again":                {pod("a", refusedBefore("Unschedulable", "0/1 nodes", before)), fails("Unschedulable", "0/1 nodes"), ""},
		"another message":               {pod("a", refusedBefore("Unschedulable", "0/2 nodes", before)), fails("Unschedulable", "0/1 nodes"), "{" + condition("Unschedulable", "0/1 nodes", "2026-01-02T11:00:00Z") + "}"},
		"another reason":                {pod("a", refusedBefore("SchedulerError", "x", before)), fails("Unschedulable", "x"), "{" + condition("Unschedulable", "x", "2026-01-02T11:00:00Z") + "}"},
		"an error":                      {pod("a"), fails("SchedulerError", "oops"), "{" + condition("SchedulerError", "oops", "2026-01-02T12:00:00Z") + "}"},
		"a % and a quote":               {pod("a"), fails("Unschedulable", `100% "x"`), "{" + condition("Unschedulable", `100% "x"`, "2026-01-02T12:00:00Z") + "}"},
		"a nomination stays":            {pod("a", nominated("n1"), refusedBefore("Unschedulable", "x", before)), fails("Unschedulable", "x"), ""},
		"an error clears it":            {pod("a", nominated("n1"), refusedBefore("SchedulerError", "x", before)), fails("SchedulerError", "x"), `{"nominatedNodeName":null}`},
		"a node is expected":            {pod("a"), func(r *reporting, p *v1.Pod) { r.Expected(p, "n1") }, `{"nominatedNodeName":"n1"}`},
		"that node is known":            {pod("a", nominated("n1")), func(r *reporting, p *v1.Pod) { r.Expected(p, "n1") }, ""},
		"another node is known":         {pod("a", nominated("n2")), func(r *reporting, p *v1.Pod) { r.Expected(p, "n1") }, `{"nominatedNodeName":"n1"}`},
		"what was expected fails":       {pod("a", nominated("n1")), func(r *reporting, p *v1.Pod) { r.Expected(p, "n1"); r.Unscheduled(p, "Unschedulable", "x", nil) }, "{" + condition("Unschedulable", "x", "2026-01-02T12:00:00Z") + `,"nominatedNodeName":null}`},
		"it fails, then is expected":    {pod("a"), func(r *reporting, p *v1.Pod) { r.Unscheduled(p, "Unschedulable", "x", nil); r.Expected(p, "n1") }, "{" + condition("Unschedulable", "x", "2026-01-02T12:00:00Z") + `,"nominatedNodeName":"n1"}`},
		"its room is not held any more": {pod("a", nominated("n1"), refusedBefore("Unschedulable", "x", before)), func(r *reporting, p *v1.Pod) { r.Unnominated(p) }, `{"nominatedNodeName":null}`},
		"it fails, then its room is not held any more": {pod("a"), func(r *reporting, p *v1.Pod) {
			r.Unscheduled(p, "Unschedulable", "x", &objects.Nominating{Node: "n1"})
			r.Unnominated(p)
		}, "{" + condition("Unschedulable", "x", "2026-01-02T12:00:00Z") + "}"},
		"it fails and is bound":    {pod("a"), func(r *reporting, p *v1.Pod) { r.Unscheduled(p, "Unschedulable", "x", nil); r.Scheduled(p, "n1") }, ""},
		"it is expected and bound": {pod("a"), func(r *reporting, p *v1.Pod) { r.Expected(p, "n1"); r.Scheduled(p, "n1") }, ""},
		"another bound it":         {pod("a", on("n9")), fails("SchedulerError", "already bound"), ""},
		"it is gone":               {pod("other"), fails("Unschedulable", "x"), ""},
		"two refusals, the last one wins": {pod("a"), func(r *reporting, p *v1.Pod) {
			r.Unscheduled(p, "Unschedulable", "x", nil)
			r.Unscheduled(p, "Unschedulable", "y", nil)
		}, "{" + condition("Unschedulable", "y", "2026-01-02T12:00:00Z") + "}"},
		"an error clears it, also where a refusal comes before that is written": {pod("a", nominated("n1")), func(r *reporting, p *v1.Pod) {
			r.Unscheduled(p, "SchedulerError", "oops", nil)
			r.Unscheduled(p, "Unschedulable", "x", nil)
		}, "{" + condition("Unschedulable", "x", "2026-01-02T12:00:00Z") + `,"nominatedNodeName":null}`},
		"it is being deleted":        {pod("a"), func(r *reporting, p *v1.Pod) { r.Skipped(p) }, ""},
		"it was waiting and is gone": {pod("a"), func(r *reporting, p *v1.Pod) { r.Abandoned(p, "x") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReporting(t, script(reply{code: 200}))
			c.newest.ResourceVersion = "8"
			r.cache.set(c.newest)
			c.do(r, pod("a"))
			r.start()
			r.settled(t)
			var got []string
			for _, s := range r.written("/pods/") {
				if s.String() != "PATCH /api/v1/namespaces/default/pods/a/status" || s.header.Get("Content-Type") != "application/strategic-merge-patch+json" {
					t.Errorf("request: got %s of %s", s, s.header.Get("Content-Type"))
				}
				got = append(got, canonical(t, s.body))
			}
			var want []string
			if c.want != "" {
				want = []string{canonical(t, []byte(`{"metadata":{"uid":"uid-a","resourceVersion":"8"},"status":`+c.want+`}`))}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("patches:\n got %s\nwant %s", got, want)
			}
		})
	}
}

func TestAPatchOfAnOldVersionIsMadeAnew(t *testing.T) {
	for name, c := range map[string]struct {
		newest  *v1.Pod
		patches int
	}{
		"the pod was changed":                    {pod("a", at("9")), 2},
		"the pod was bound by another scheduler": {pod("a", at("9"), on("n9")), 1},
		"the pod has the condition already":      {pod("a", at("9"), refusedBefore("Unschedulable", "x", noon)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			var r *reporting
			r = newReporting(t, func(s seen) reply {
				if strings.Contains(s.path, "/pods/") && strings.Contains(string(s.body), `"resourceVersion":"7"`) { // its event says so, too
					r.cache.set(c.newest)
					return conflict("modified")
				}
				return reply{code: 200}
			})
			r.cache.set(pod("a"))
			r.Unscheduled(pod("a"), "Unschedulable", "x", nil)
			r.start()
			eventually(t, "the conflict", func() bool { return len(r.written("/pods/")) > 0 })
			eventually(t, "the end", func() bool {
				r.clock.Step(time.Second)
				return r.value(t, "shardsched_status_pending") == 0
			})
			if got := len(r.written("/pods/")); got != c.patches {
				t.Errorf("patches: got %d, want %d", got, c.patches)
			}
		})
	}
}

func TestWhichStatusPatchesAreTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		first   reply
		patches int
	}{
		"503": {unavailable(), 2}, "500": {internal("etcdserver: leader changed"), 2}, "429": {tooMany("3"), 2}, "no answer": {lost(), 2},
		"403": {forbidden(), 2}, "404": {gone("pods"), 1}, "422": {reply{code: 422, reason: metav1.StatusReasonInvalid, message: "no"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			status := script(c.first, reply{code: 200})
			r := newReporting(t, func(s seen) reply {
				if s.method == http.MethodPatch {
					return status(s)
				}
				return created()
			})
			r.cache.set(pod("a"))
			r.Unscheduled(pod("a"), "Unschedulable", "x", nil)
			r.start()
			eventually(t, "the end", func() bool {
				r.clock.Step(5 * time.Second)
				return r.value(t, "shardsched_status_pending") == 0
			})
			if got := len(r.written("/pods/")); got != c.patches {
				t.Errorf("patches: got %d, want %d", got, c.patches)
			}
		})
	}
}

func TestAStatusPatchThatIsForbiddenForGoodIsGivenUp(t *testing.T) {
	r := newReporting(t, func(seen) reply { return forbidden() })
	r.cache.set(pod("a"))
	r.Unscheduled(pod("a"), "Unschedulable", "x", nil)
	r.start()
	eventually(t, "the end", func() bool {
		r.clock.Step(5 * time.Second)
		return r.value(t, "shardsched_status_pending") == 0
	})
	if got, want := len(r.written("/pods/")), 11; got != want {
		t.Errorf("patches: got %d, want %d", got, want)
	}
}

func TestManyPendingPodsAreOneReportEach(t *testing.T) {
	r := newReporting(t, never)
	const pods = 20_000
	for round := range 3 {
		for i := range pods {
			p := pod(fmt.Sprint("p", i))
			r.cache.set(p)
			r.Unscheduled(p, "Unschedulable", fmt.Sprint("round ", round), nil)
		}
	}
	if got := r.value(t, "shardsched_status_pending"); got != pods {
		t.Errorf("pending reports: got %v, want %d", got, pods)
	}
	if got := r.value(t, "shardsched_events_pending"); got != pods {
		t.Errorf("pending events: got %v, want %d", got, pods)
	}
}

// TestLargePodsLeaveTheAPIServerTime has an API server that takes 100 ms for each large pod's patch: the next one is sent 700 ms
// later, and those of small pods at once.
func TestLargePodsLeaveTheAPIServerTime(t *testing.T) {
	var r *reporting
	r = newReporting(t, func(s seen) reply {
		if strings.Contains(s.path, "/large-") && strings.Contains(s.path, "/status") {
			r.clock.Step(100 * time.Millisecond)
		}
		return found(pod("any"))
	}, func(c *kube.ReporterConfig) {
		c.IsLarge = func(p *v1.Pod) bool { return strings.HasPrefix(p.Name, "large-") }
	})
	large := func(name string) *v1.Pod { return pod(name, withUID(types.UID(name))) }
	pods := []*v1.Pod{large("large-1"), large("large-2"), large("large-3")}
	r.cache.set(pods...)
	sent := func(part string) int { return len(r.written(part)) }
	r.start()
	for _, p := range pods {
		r.Unscheduled(p, v1.PodReasonUnschedulable, "no", nil)
	}
	eventually(t, "a large pod to be patched", func() bool { return sent("/status") == 1 })
	small := pod("small", withUID("small"))
	r.cache.set(append(pods, small)...)
	r.Unscheduled(small, v1.PodReasonUnschedulable, "no", nil)
	eventually(t, "a small pod to be patched", func() bool { return sent("/small/status") == 1 })
	for patched := 1; patched < len(pods); patched++ {
		begun := r.clock.Now()
		eventually(t, "the next large pod to be patched", func() bool {
			if sent("/large-") > patched {
				return true
			}
			r.clock.Step(10 * time.Millisecond)
			return false
		})
		if waited := r.clock.Since(begun) - 100*time.Millisecond; waited < 500*time.Millisecond {
			t.Errorf("large pod %d was patched %s after the one before, expected some 700 ms", patched+1, waited)
		}
	}
	if got := sent("/large-"); got != len(pods) {
		t.Errorf("%d patches of large pods, expected %d", got, len(pods))
	}
}
