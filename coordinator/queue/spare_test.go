package queue

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// A hint that panics counts as if the event helps the pods that it is about, others are asked as ever, and the
// owner is told.
func TestAHintThatPanicsHelps(t *testing.T) {
	bad := func(p *v1.Pod) bool { return p.Name == "bad" }
	no := func(*Pod, *Event) bool { return false }
	alike := func(*v1.Pod) likeness { return likeness{1} }
	touched := []topic{{of: hostPorts}}
	for name, c := range map[string]struct {
		plugin Plugin
		waits  []string // after the event
		about  string   // the pod that the owner is told of; "": none
	}{
		"If":     {plugin: Plugin{Events: []Registration{{Actions: Add, If: func(*Event) bool { panic("bug") }}}}},
		"Labels": {plugin: Plugin{Alike: alike, Events: []Registration{{Actions: Add, Helps: no, Labels: func(*Event) []string { panic("bug") }}}}},
		"Helps": {plugin: Plugin{Events: []Registration{{Actions: Add, Helps: func(p *Pod, _ *Event) bool {
			if bad(p.Obj) {
				panic("bug")
			}
			return false
		}}}}, waits: []string{"good"}, about: "bad"},
		"Touches": {plugin: Plugin{Events: []Registration{{Actions: Add,
			Helps:   func(p *Pod, _ *Event) bool { return bad(p.Obj) },
			Topics:  func(*Pod) []topic { return nil },
			Touches: func(*Event) ([]topic, bool) { panic("bug") },
		}}}, waits: []string{"good"}},
		"Topics": {plugin: Plugin{Events: []Registration{{Actions: Add, Helps: no,
			Topics: func(p *Pod) []topic {
				if bad(p.Obj) {
					panic("bug")
				}
				return touched
			},
			Touches: func(*Event) ([]topic, bool) { return touched, true },
		}}}, waits: []string{"good"}, about: "bad"},
		"Alike": {plugin: Plugin{Alike: func(p *v1.Pod) likeness {
			if bad(p) {
				panic("bug")
			}
			return likeness{}
		}, Events: []Registration{{Actions: Add, Helps: no}}}, waits: []string{"good"}, about: "bad"},
		"PreEnqueue": {plugin: Plugin{PreEnqueue: func(p *v1.Pod) string {
			if bad(p) {
				panic("bug")
			}
			return ""
		}, Events: []Registration{{Actions: Add}}}, about: "bad"},
	} {
		t.Run(name, func(t *testing.T) {
			now, told, about := start, 0, ""
			c.plugin.Name = "buggy"
			q := newOf(Config{Now: func() time.Time { return now }, Plugins: []Plugin{c.plugin}, Met: func(plugin string, p *Pod, panicked any) {
				if plugin != "buggy" || panicked != "bug" {
					t.Errorf("told of %q, %v", plugin, panicked)
				}
				if told++; p != nil {
					about = p.Obj.Name
				}
			}})
			for _, pod := range []string{"bad", "good"} {
				q.Add(build.Pod(pod).Obj())
			}
			popped := q.PopBatch(2, nil)
			for i, p := range popped {
				p.ClassID = 1
				if name == "Helps" || name == "Touches" {
					p.ClassID = uint64(1 + i) // each is asked
				}
				q.Unschedulable(p, []string{"buggy"}, "no")
			}
			if name == "PreEnqueue" {
				if p := q.pods["pod-bad"]; len(popped) != 1 || p.place != Gated || p.Message != gateMet {
					t.Errorf("got %d popped, the bad one %s (%q); want the good one, and the other held back for %q", len(popped), p.place, p.Message, gateMet)
				}
				return
			}
			now = now.Add(time.Minute)
			q.Move(NodeAdded(build.Node("n").Obj()))
			if got := waitingPods(q); !slices.Equal(got, c.waits) {
				t.Errorf("after the event: got %v wait, want %v", got, c.waits)
			}
			if told == 0 || about != c.about {
				t.Errorf("told %d times, of pod %q; want of %q", told, about, c.about)
			}
		})
	}
}
