package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// words puts what a pod waits for on one line.
func (w Waits) words(start time.Time) string {
	var out []string
	for _, p := range w.Plugins {
		out = append(out, p.Plugin+": "+strings.Join(p.Events, ", "))
	}
	if !w.BackoffUntil.IsZero() {
		out = append(out, fmt.Sprint("backoff until ", w.BackoffUntil.Sub(start)))
	}
	if !w.TriedAnyway.IsZero() {
		out = append(out, fmt.Sprint("anyway at ", w.TriedAnyway.Sub(start)))
	}
	return strings.Join(out, "; ")
}

func TestWhatAPodWaitsFor(t *testing.T) {
	now := start
	q := newOf(Config{Now: func() time.Time { return now }})
	want := func(when, name, text string) {
		t.Helper()
		if got := q.Waits(q.Find("default", name)).words(start); got != text {
			t.Errorf("%s: pod %s waits for\n%s\nwant\n%s", when, name, got, text)
		}
	}
	q.Add(build.Pod("gated").Gate("wait").Obj())
	want("at first", "gated", "SchedulingGates: UnschedulablePod UpdatePodSchedulingGatesEliminated")
	q.Add(build.Pod("p").Obj())
	want("ready to be tried", "p", "")
	p := q.PopBatch(1, nil)[0]
	want("being tried", "p", "")
	q.Unschedulable(p, []string{"NodeResourcesFit", "Strange"}, "no")
	const fit = "NodeResourcesFit: Node Add, Node UpdateNodeAllocatable, Node UpdateNodeTaint, AssignedPod Delete, AssignedPod UpdatePodScaleDown, UnschedulablePod Delete, UnschedulablePod UpdatePodScaleDown, " +
		"resource.k8s.io/DeviceClass Add, resource.k8s.io/DeviceClass Update; Strange: any event; "
	want("rejected", "p", fit+"backoff until 2s; anyway at 5m30s")
	now = now.Add(3 * time.Second)
	want("three seconds later", "p", fit+"anyway at 5m30s")
	q.Move(NodeAdded(build.Node("n").CPU("64").Memory("64Gi").Pods("9").Obj()))
	p = q.PopBatch(1, nil)[0]
	q.Error(p, fmt.Errorf("no"))
	want("after an error", "p", "backoff until 5s")
}
