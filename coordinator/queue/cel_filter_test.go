package queue

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// readers is what a profile's expressions read.
type readers struct {
	Profiles
	pods bool
}

func (r readers) CELReadsPods(*v1.Pod) bool { return r.pods }

// TestCELFilterWaits has a pod refused by CELFilter wait for what may help it.
func TestCELFilterWaits(t *testing.T) {
	on := pod("other", nil)
	on.Spec.NodeName = "n"
	annotated := node("n", nil)
	annotated.Annotations = map[string]string{"a": "b"}
	full := node("n", nil)
	full.Spec.Unschedulable = true
	changed := func(p *v1.Pod) []Event {
		now := p.DeepCopy()
		now.Annotations = map[string]string{"zones": "b"}
		return podUpdated(PendingPod, p, now)
	}
	for _, c := range []struct {
		name   string
		events func(own *v1.Pod) []Event
		pods   bool
		want   bool
	}{
		{"a new node", func(*v1.Pod) []Event { return []Event{NodeAdded(node("n", nil))} }, false, true},
		{"a label", func(*v1.Pod) []Event { return NodeUpdated(node("n", nil), node("n", []string{"label=zone=a"})) }, false, true},
		{"an annotation", func(*v1.Pod) []Event { return NodeUpdated(node("n", nil), annotated) }, false, true},
		{"schedulable again", func(*v1.Pod) []Event { return NodeUpdated(full, node("n", nil)) }, false, true},
		{"a node gone", func(*v1.Pod) []Event { return []Event{NodeDeleted(node("n", nil))} }, false, false},
		{"a pod gone, which nothing reads", func(*v1.Pod) []Event { return []Event{AssignedPodDeleted(on)} }, false, false},
		{"a pod gone", func(*v1.Pod) []Event { return []Event{AssignedPodDeleted(on)} }, true, true},
		{"a pod came", func(*v1.Pod) []Event { return []Event{AssignedPodAdded(on)} }, true, false},
		{"the pod's own annotation", changed, false, true},
		{"another pod's annotation", func(*v1.Pod) []Event { return changed(on) }, true, false},
	} {
		rules, err := newRules(Catalogue(readers{pods: c.pods}))
		if err != nil {
			t.Fatal(err)
		}
		own := pod("p", nil)
		helped := false
		for _, e := range c.events(own) {
			helped = helped || rules.helps(rules.set([]string{"CELFilter"}), &Pod{Obj: own}, &e)
		}
		if helped != c.want {
			t.Errorf("%s: got helped %t, want %t", c.name, helped, c.want)
		}
	}
}
