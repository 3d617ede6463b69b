package cli

import (
	"strings"
	"testing"

	"github.com/shardsched/shardsched/coordinator/queue"
)

func TestEventsAreToldInWords(t *testing.T) {
	for want, events := range map[string][]string{
		"a node joins or its labels change; a claim of it is bound or changed": {"Node Add", "PersistentVolumeClaim Update", "Node UpdateNodeLabel"},
		"a node's labels or taints change":                                     {"Node UpdateNodeLabel", "Node UpdateNodeTaint"},
		"this pod loses its last scheduling gate":                              {"UnschedulablePod UpdatePodSchedulingGatesEliminated"},
		"any event":                      {"any event"},
		"foos.v1.example.com is changed": {"foos.v1.example.com Update"},
		// Who waits for any pod's toleration waits for the pod's own; a pod that is pending frees nothing when it goes.
		"this pod gets a toleration": {"AssignedPod UpdatePodToleration", "UnschedulablePod UpdatePodToleration"},
		"another pod ends or is deleted, is resized to ask for less or its labels change": {
			"AssignedPod Delete", "AssignedPod UpdatePodScaleDown", "AssignedPod UpdatePodLabel", "UnschedulablePod Delete",
		},
		"another pod gets a toleration": {"AssignedPod UpdatePodToleration"},
	} {
		if got := eventWords(events); got != want {
			t.Errorf("%q: got %q, want %q", events, got, want)
		}
	}
}

// Every event that a plugin can wait for has words.
func TestAllEventsHaveWords(t *testing.T) {
	for _, event := range queue.Events() {
		got := eventWords([]string{event})
		if resource, action, _ := strings.Cut(event, " "); resource != "Other" && strings.Contains(got, resource+" ") || strings.Contains(got, action) {
			t.Errorf("%q is told as %q", event, got)
		}
	}
}
