package kube_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// The condition of a PodGroup is written where it says something new, tried again where the API server is busy, and stays true.
func TestConditionsOfPodGroups(t *testing.T) {
	busy, g := 1, build.Gang("g", 2).Obj()
	r := newReporting(t, func(s seen) reply {
		if busy > 0 {
			busy--
			return reply{code: http.StatusTooManyRequests}
		}
		return reply{code: http.StatusOK, object: g}
	})
	r.start()
	patches := func() (out []string) {
		for _, s := range r.written("/podgroups/") {
			out = append(out, string(s.body))
		}
		return out
	}
	until := func(n int, with string) {
		t.Helper()
		eventually(t, "a patch", func() bool {
			r.clock.Step(5 * time.Second)
			list := patches()
			return len(list) == n && strings.Contains(list[n-1], with)
		})
	}
	r.GroupCondition(g, metav1.ConditionFalse, v1alpha2.PodGroupReasonUnschedulable, "pod group is unschedulable")
	until(2, `{"metadata":{"uid":"g"},"status":{"conditions":[{"type":"PodGroupScheduled","status":"False","observedGeneration":1,`)
	if path := r.written("/podgroups/")[0].path; path != "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups/g/status" {
		t.Errorf("got path %s", path)
	}
	r.GroupCondition(g, metav1.ConditionFalse, v1alpha2.PodGroupReasonUnschedulable, "pod group is unschedulable") // nothing new
	r.GroupCondition(g, metav1.ConditionTrue, "Scheduled", "")
	until(3, `"status":"True"`)
	r.GroupCondition(g, metav1.ConditionFalse, v1alpha2.PodGroupReasonUnschedulable, "pod group is unschedulable") // it runs
	other := build.Gang("other", 2).Obj()
	r.GroupCondition(other, metav1.ConditionFalse, v1alpha2.PodGroupReasonSchedulerError, "odd")
	until(4, `"uid":"other"`)
}

// An event of a PodGroup is about it, and its note as long as the API server takes.
func TestEventsOfPodGroups(t *testing.T) {
	r := newReporting(t, script(reply{code: http.StatusCreated}))
	r.start()
	g := build.Gang("g", 2).Obj()
	g.ResourceVersion = "7"
	r.GroupEvent(g, "trainer", v1.EventTypeWarning, "FailedScheduling", "pod group is unschedulable: 100% "+strings.Repeat("é", 1000))
	eventually(t, "the event", func() bool { return len(r.written("/events")) == 1 })
	e := decode[eventsv1.Event](t, r.written("/events")[0].body)
	want := v1.ObjectReference{Kind: "PodGroup", APIVersion: "scheduling.k8s.io/v1alpha2", Namespace: "default", Name: "g", UID: "g", ResourceVersion: "7"}
	if e.Regarding != want || e.Namespace != "default" || e.Type != "Warning" || e.Reason != "FailedScheduling" || e.Action != "Scheduling" ||
		e.ReportingController != "trainer" {
		t.Errorf("got event %+v", e)
	}
	if len(e.Note) > 1024 || !utf8.ValidString(e.Note) || !strings.HasPrefix(e.Note, "pod group is unschedulable: 100% é") {
		t.Errorf("got a note of %d bytes: %q", len(e.Note), e.Note)
	}
}
