package kube_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

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
