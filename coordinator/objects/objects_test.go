package objects_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

func TestAPodIsTerminalByItsPhase(t *testing.T) {
	for phase, want := range map[v1.PodPhase]bool{
		v1.PodPending: false, v1.PodRunning: false, v1.PodUnknown: false, "": false,
		v1.PodSucceeded: true, v1.PodFailed: true,
	} {
		if got := objects.IsTerminal(&v1.Pod{Status: v1.PodStatus{Phase: phase}}); got != want {
			t.Errorf("phase %q is terminal: want %v, got %v", phase, want, got)
		}
	}
}
