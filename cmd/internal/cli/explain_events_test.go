package cli

import (
	"strings"
	"testing"

	"github.com/shardsched/shardsched/coordinator/queue"
)

func TestEventsAreToldInWords(t *testing.T) {
	for want, events := range map[string][]string{
		"a node comes or gets other labels; a claim changes": {"Node Add", "PersistentVolumeClaim Update", "Node UpdateNodeLabel"},
		"a pending pod loses its last gate":                  {"UnschedulablePod UpdatePodSchedulingGatesEliminated"},
		"any event":                                          {"any event"},
		"foos.v1.example.com changes":                        {"foos.v1.example.com Update"},
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
		if resource, action, _ := strings.Cut(event, " "); resource != "Other" && strings.Contains(got, resource) || strings.Contains(got, action) {
			t.Errorf("%q is told as %q", event, got)
		}
	}
}
