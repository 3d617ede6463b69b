package coordinator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// gangReporter remembers what it was told of pod groups alone.
type gangReporter struct {
	Silent
	all recordingReporter
}

func (g *gangReporter) GroupCondition(x *v1alpha2.PodGroup, status metav1.ConditionStatus, reason, message string) {
	g.all.tell("%s %s %s: %s", x.Name, status, reason, message)
}

func (g *gangReporter) GroupEvent(x *v1alpha2.PodGroup, scheduler, kind, reason, note string) {
	g.all.tell("%s event of %s, %s %s: %s", x.Name, scheduler, kind, reason, note)
}

func (g *gangReporter) configure(cfg *SchedulerConfig) {
	cfg.Reporter, cfg.Groups, cfg.MaxUnschedulable = g, groups.Gates{Workload: true, Gang: true}, 24*time.Hour
}

// wants checks what was told since the last call, without the times.
func (g *gangReporter) wants(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	for i := range g.all.told {
		g.all.told[i] = regexp.MustCompile(`; since \S+$`).ReplaceAllString(g.all.told[i], "")
	}
	if !slices.Equal(g.all.told, want) {
		t.Errorf("%s: told\n\t%s\nwant\n\t%s", when, strings.Join(g.all.told, "\n\t"), strings.Join(want, "\n\t"))
	}
	g.all.told = nil
}

func (x *scenario) podGroup(typ objects.EventType, g *v1alpha2.PodGroup) {
	x.t.Helper()
	x.Deliver([]objects.Event{{Type: typ, Kind: objects.KindPodGroup, Object: g}})
	synctest.Wait()
}

// A gang's story: its condition and one event for each change, before its first attempt, too.
func TestWhatIsToldOfAGang(t *testing.T) {
	g := &gangReporter{}
	runScenarioWith(t, g.configure, clusterOf(nodesOf("2", "n")), nil, func(x *scenario) {
		explained := func(name, want string) {
			t.Helper()
			e, err := x.Explain(x.ctx, &pb.ExplainRequest{Namespace: "default", Name: name})
			if err != nil || e.MemberState != want {
				t.Errorf("explanation of %s: got %q, %v, want %q", name, e.GetMemberState(), err, want)
			}
		}
		gang := build.Gang("g", 3).Annotation(groups.GiveUpAfter, "1h").Annotation(groups.RetryAfter, "2h").Obj()
		x.podGroup(objects.Added, gang)
		elapse(3 * newsEvery)
		g.wants(t, "it has no pods, and may be another scheduler's")
		x.deliver(objects.Added, member1("a").Obj())
		x.deliver(objects.Added, member1("b").Obj())
		elapse(newsEvery)
		const gated = "waiting for minCount pods from a gang to appear in scheduling queue: 2 of 3 needed exist; waits for 1 more pod"
		g.wants(t, "it is gated", "g False SchedulingGated: "+gated, "g event of default-scheduler, Normal SchedulingGated: "+gated)
		explained("a", "not tried")
		x.deliver(objects.Added, member1("c").Obj())
		explained("a", "held back by mates")
		explained("c", "does not fit")
		const short = "pod group is unschedulable: 2 of 3 needed fit (3 exist); 1 node: 1 Insufficient cpu; waits for room for 1 more"
		g.wants(t, "it is tried", "g False Unschedulable: "+short, "g event of default-scheduler, Warning FailedScheduling: "+short)
		x.deliver(objects.Added, nodesOf("0", "m")[0])
		elapse(10 * time.Minute)
		g.wants(t, "it is tried again, and nothing has changed")
		elapse(time.Hour)
		const givenUp = "pod group is given up after 1h0m0s: 2 of 3 needed fit (3 exist); 1 node: 1 Insufficient cpu; " +
			"waits for its next try, after 2h0m0s"
		g.wants(t, "it is given up", "g False GivenUp: "+givenUp, "g event of default-scheduler, Warning FailedScheduling: "+givenUp)
		x.deliver(objects.Added, member1("d").Obj())
		again := strings.ReplaceAll(short, "(3 exist); 1 node: 1", "(4 exist); 2 nodes: 2")
		g.wants(t, "another member has it tried", "g False Unschedulable: "+again, "g event of default-scheduler, Warning FailedScheduling: "+again)
		x.deliver(objects.Added, nodesOf("2", "o")[0])
		elapse(10 * time.Second)
		const runs = "pod group is scheduled: 4 of 3 needed have nodes (4 exist)"
		explained("c", "fits")
		g.wants(t, "it starts", "g True Scheduled: ", "g event of default-scheduler, Normal Scheduled: "+runs)
		x.deliver(objects.Deleted, member1("a").Node("n").Obj())
		x.deliver(objects.Deleted, member1("b").Node("n").Obj())
		elapse(3 * newsEvery)
		g.wants(t, "members have ended")
	})
}

// A gang that many attempts find more and less room for has the events of its states, and of the rest one a minute.
func TestEventsOfAGangAreBounded(t *testing.T) {
	states := groups.New(groups.All())
	gang := build.Gang("g", 200).Obj()
	states.Set(gang)
	x, now := states.Get(types.NamespacedName{Namespace: gang.Namespace, Name: gang.Name}), time.Unix(0, 0)
	changes, events := 0, 0
	for i := range 600 { // in ten minutes
		changed, event := x.Tell(&groups.Verdict{State: groups.Unschedulable, Need: 200, Fit: i % 100}, now)
		if changed {
			changes++
		}
		if event {
			events++
		}
		now = now.Add(time.Second)
	}
	if changes != 600 || events != 10 {
		t.Errorf("%d conditions and %d events, want 600 and 10", changes, events)
	}
}

// Of many pod groups that can't be tried so many are told of at a time, and none is forgotten.
func TestNewsOfPodGroupsAreBounded(t *testing.T) {
	g := &gangReporter{}
	runScenarioWith(t, g.configure, clusterOf(nodesOf("2", "n")), nil, func(x *scenario) {
		const n = 2*newsAtOnce + 10
		var events []objects.Event
		for i := range n {
			name := fmt.Sprint("g", i)
			events = append(events, objects.Event{Type: objects.Added, Kind: objects.KindPodGroup, Object: build.Gang(name, 2).Obj()},
				objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: build.Pod(name).UID(name).Member(name).Obj()})
		}
		x.Deliver(events)
		synctest.Wait()
		var got []int
		for range 4 {
			elapse(newsEvery)
			got = append(got, len(g.all.heard())/2)
		}
		if got[0] > newsAtOnce+10 || got[3] != n {
			t.Errorf("told of %v pod groups, want at most %d at a time, and all %d", got, newsAtOnce, n)
		}
	})
}

// Members that wait are told which of the three they are, behind upstream's message, which alone is what is decided.
func TestMembersAreToldWhatTheyAre(t *testing.T) {
	g := &recordingReporter{}
	x := playGang(t, SchedulerConfig{Reporter: g}, build.Gang("g", 3).Obj(), nodesOf("2", "n"), members("a", "b", "c")...)
	x.want(t, "a: "+quorumMissed, "b: "+quorumMissed, "c: "+oneCPUShort)
	want := []string{
		"a@ Unschedulable: " + quorumMissed + "; member of pod group g: held back by mates",
		"b@ Unschedulable: " + quorumMissed + "; member of pod group g: held back by mates",
		"c@ Unschedulable: " + oneCPUShort + " Member of pod group g: does not fit.",
	}
	if got := g.heard(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	causes := map[string]string{}
	for _, p := range x.pendingNow(t, "").Groups {
		causes[p.Example] = p.Causes[0].Cause
	}
	if got := causes["default/a"]; got != "the pod fits, and too few pods of pod group g do" || causes["default/b"] != got || causes["default/c"] == got {
		t.Errorf("the list of pending pods has causes %v", causes)
	}
}

// A member that was not tried, for an error of one before it, is told so.
func TestMembersThatWereNotTriedAreToldSo(t *testing.T) {
	g := &recordingReporter{}
	x := playGang(t, SchedulerConfig{Reporter: g}, build.Gang("g", 2).Obj(), nodesOf("4", "n"))
	x.guard.Compile = failingFor("b", x.guard.Compile)
	for _, p := range members("a", "b", "c") {
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
	}
	x.turn(t)
	const failed = "failed to schedule other pod from a pod group: odd"
	want := []string{
		"a@ SchedulerError: " + failed + "; member of pod group g: held back by mates",
		"b@ SchedulerError: odd",
		"c@ SchedulerError: " + failed + "; member of pod group g: not tried",
	}
	if got := g.heard(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// kube-scheduler's metrics of pod groups are there once a pod group is tried, and ours tell where all of them stand.
func TestMetricsOfPodGroups(t *testing.T) {
	r := prometheus.NewRegistry()
	low := build.Pod("low").UID("low").CPU("1").Node("n").Obj()
	x := playGang(t, SchedulerConfig{Registerer: r, MaxBackoff: -1}, build.Gang("g", 2).Obj(), nodesOf("2", "n"), append(members("a", "b"), low)...)
	x.groups.Set(build.Gang("gated", 2).Obj())
	names := []string{
		"scheduler_podgroup_schedule_attempts_total", "scheduler_podgroup_scheduling_attempt_duration_seconds",
		"scheduler_podgroup_scheduling_algorithm_duration_seconds", "shardsched_pod_groups", "shardsched_pod_group_deficit_pods",
	}
	wants := func(when string, want ...string) {
		t.Helper()
		x.metrics.PodGroups(x.groups)
		if got := gathered(t, r, names...); !slices.Equal(got, want) {
			t.Errorf("%s: got\n\t%s\nwant\n\t%s", when, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
	wants("a member finds no room",
		"scheduler_podgroup_schedule_attempts_total{profile=default-scheduler,result=unschedulable} 1",
		"scheduler_podgroup_scheduling_algorithm_duration_seconds 1",
		"scheduler_podgroup_scheduling_attempt_duration_seconds{profile=default-scheduler,result=unschedulable} 1",
		"shardsched_pod_group_deficit_pods 1", "shardsched_pod_groups{state=gated} 1", "shardsched_pod_groups{state=unschedulable} 1")
	x.leaves(t, "low", "n")
	wants("it starts",
		"scheduler_podgroup_schedule_attempts_total{profile=default-scheduler,result=scheduled} 1",
		"scheduler_podgroup_schedule_attempts_total{profile=default-scheduler,result=unschedulable} 1",
		"scheduler_podgroup_scheduling_algorithm_duration_seconds 2",
		"scheduler_podgroup_scheduling_attempt_duration_seconds{profile=default-scheduler,result=scheduled} 1",
		"scheduler_podgroup_scheduling_attempt_duration_seconds{profile=default-scheduler,result=unschedulable} 1",
		"shardsched_pod_groups{state=gated} 1", "shardsched_pod_groups{state=scheduled} 1")
	if p := boundsOf(t, r, "scheduler_podgroup_scheduling_attempt_duration_seconds"); len(p) != 15 || p[0] != 0.001 || p[14] != 16.384 {
		t.Errorf("got buckets %v, want kube-scheduler's: 0.001, twice as much each, 15 of them", p)
	}
}

// boundsOf are the upper bounds of a histogram's buckets.
func boundsOf(t *testing.T, r *prometheus.Registry, name string) (bounds []float64) {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
				bounds = append(bounds, b.GetUpperBound())
			}
		}
	}
	return bounds
}

// A trace of a pod group has the attempts of its members below it, with what came of it.
func TestTheTraceOfAGang(t *testing.T) {
	exporter, random := tracetest.NewInMemoryExporter(), rand.New(rand.NewPCG(1, 2)).Uint64
	tracer := tracing.New(tracing.Config{
		Provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithIDGenerator(tracing.IDs{Random: random})),
		Random:   random,
	})
	x := playGang(t, SchedulerConfig{Tracer: tracer}, build.Gang("g", 3).Obj(), nodesOf("2", "n"), members("a", "b", "c")...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Run(ctx); err != nil {
		t.Fatal(err)
	}
	roots, below := 0, 0
	var gang tracetest.SpanStub
	for _, s := range exporter.GetSpans() {
		if s.Name == "schedule pod group" {
			gang = s
			roots++
		}
	}
	for _, s := range exporter.GetSpans() {
		if s.Name == "schedule" && s.Parent.SpanID() == gang.SpanContext.SpanID() && s.SpanContext.TraceID() == gang.SpanContext.TraceID() {
			below++
		}
	}
	has := map[string]string{}
	for _, a := range gang.Attributes {
		has[string(a.Key)] = a.Value.String()
	}
	if roots != 1 || below != 3 || has["shardsched.pod_group"] != "default/g" || has["shardsched.members"] != "3" ||
		has["shardsched.fits"] != "2" || has["shardsched.needed"] != "3" || has["shardsched.result"] != "unschedulable" {
		t.Errorf("got %d spans of pod groups with %v, %d below, want one with 3 below", roots, has, below)
	}
	if d := x.decided(t); len(d) != 3 {
		t.Errorf("got decisions %v", d)
	}
}
