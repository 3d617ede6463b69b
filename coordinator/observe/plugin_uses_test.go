package observe

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

func TestPluginsByProfile(t *testing.T) {
	m := NewMeters(prometheus.NewRegistry(), 1)
	m.Ask()
	m.Request("a", 1)
	m.Request("b", 1)
	for range 2 {
		m.Passed(0, []scan.Pass{
			{Plugin: pb.Plugin_PLUGIN_CEL_FILTER, Point: pb.ExtensionPoint_EXTENSION_POINT_FILTER, Took: 3 * time.Second, RowsIn: 10, RowsOut: 4},
			{Plugin: pb.Plugin_PLUGIN_NODE_PORTS, Point: pb.ExtensionPoint_EXTENSION_POINT_FILTER, Took: time.Second, RowsIn: 4, RowsOut: 3},
		})
	}
	m.Passed(1, []scan.Pass{{Plugin: pb.Plugin_PLUGIN_NODE_PORTS, Point: pb.ExtensionPoint_EXTENSION_POINT_FILTER, Took: 4 * time.Second, RowsIn: 9}})
	calls := m.Set().Histogram("shardsched_extender_call_duration_seconds", "http://gpu", "filter")
	calls.ObserveN(0.003, 9)
	calls.Observe(1)
	m.Set().Counter("shardsched_extender_errors_total", "http://gpu", "filter").Add(2)
	m.Set().Counter("shardsched_extender_errors_total", "http://never", "filter")
	m.Set().Histogram("shardsched_extender_call_duration_seconds", "http://never", "filter")

	r := m.PluginUses(func(profile, plugin string) []string {
		if plugin == "CELFilter" {
			return []string{profile + " owned"}
		}
		return nil
	})
	var got []string
	for _, u := range r.GetUses() {
		got = append(got, fmt.Sprintf("%s %s %s: %d calls of %v, %d in, %d out %v", u.GetProfile(), u.GetPlugin(), u.GetExtensionPoint(), u.GetCalls(), u.GetTook().AsDuration(), u.GetRowsIn(), u.GetRowsOut(), u.GetExpressions()))
	}
	want := []string{
		"a CELFilter Filter: 2 calls of 6s, 20 in, 8 out [a owned]",
		"b NodePorts Filter: 1 calls of 4s, 9 in, 0 out []",
		"a NodePorts Filter: 2 calls of 2s, 8 in, 6 out []",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(r.GetPlugins()) != 2 {
		t.Errorf("got the latency of %d plugins, want 2", len(r.GetPlugins()))
	}
	if len(r.GetExtenders()) != 1 {
		t.Fatalf("got %v, want the one extender that was asked", r.GetExtenders())
	}
	x := r.GetExtenders()[0]
	// 0.003 lies in the bucket from 0.002 to 0.004, whose middle the median of ten is, nearly; 1 in that from 0.512 to 1.024.
	if p50, p99 := x.GetLatency().GetP50().AsDuration(), x.GetLatency().GetP99().AsDuration(); x.GetFailures() != 2 || x.GetLatency().GetCount() != 10 ||
		p50 < 3*time.Millisecond || p50 > 3200*time.Microsecond || p99 < 512*time.Millisecond || p99 > 1024*time.Millisecond {
		t.Errorf("got %v", x)
	}
}

func TestStagesOfAttempts(t *testing.T) {
	m := NewMeters(nil, 1)
	if got := m.Summary(epoch, 0).Stages; len(got) != 0 {
		t.Errorf("got %v before anything was decided", got)
	}
	m.Compiled(time.Millisecond)
	m.BindEnded("a", 0, 2*time.Millisecond, false, nil)
	m.BindEnded("b", 0, 2*time.Millisecond, false, nil)
	m.Turn(time.Second)
	var got []string
	for _, s := range m.Summary(epoch, 0).Stages {
		got = append(got, fmt.Sprintf("%s: %d", s.GetStage(), s.GetLatency().GetCount()))
	}
	if want := []string{"compile: the pod's terms become a class: 1", "bind: 2", "turn of the loop: 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// size is a queue of so many pods.
type size int

func (s size) Size() int { return int(s) }

// TestProgressIsNotedWhileThereIsWork has the loop work, rest for a minute, and work again.
func TestProgressIsNotedWhileThereIsWork(t *testing.T) {
	m := NewMeters(nil, 1)
	at := func(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }
	for i := range 12 { // a turn a second
		m.Progressed(at(float64(i)), uint64(10*i), size(5))
	}
	m.Rest(at(11.5), false)
	m.Progressed(at(71.5), 115, size(1))
	var got []string
	for _, p := range m.Summary(epoch, 0).Progress {
		got = append(got, fmt.Sprintf("%v: %d, %d", p.GetTime().AsTime().Sub(epoch), p.GetDecisions(), p.GetPodsPending()))
	}
	// What was decided until the rest was not decided during it.
	if want := []string{"0s: 0, 5", "5s: 50, 5", "10s: 100, 5", "11.5s: 115, 5", "1m11.5s: 115, 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range 10 * progressNotes {
		m.Progressed(at(100+5*float64(i)), 0, size(0))
	}
	notes := m.Summary(epoch, 0).Progress
	if len(notes) != progressNotes || notes[0].GetTime().AsTime().Add(5*time.Second*(progressNotes-1)) != notes[progressNotes-1].GetTime().AsTime() {
		t.Errorf("got %d notes, want the last %d in order", len(notes), progressNotes)
	}
}

func TestWhatPendingPodsLack(t *testing.T) {
	x := NewLacking(nil)
	x.add(build.Pod("plain").Obj())
	for _, name := range []string{"b", "a"} {
		pod := build.Pod(name).Obj()
		for i := range devices.MaxClaims + 1 {
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: fmt.Sprint("c", i)})
		}
		x.add(pod)
	}
	got := x.Answer()
	if len(got) != 1 || got[0].GetPods() != 2 || got[0].GetExample() != "default/a" {
		t.Errorf("got %v, want two pods with too many claims", got)
	}
}
