package surfaces

import (
	"strings"
	"syscall"
	"testing"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// signal has a scheduler compare and dump its caches.
func signal(t *testing.T, p *testbed.SchedulerProcess) {
	t.Helper()
	if err := syscall.Kill(p.PID(), syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
}

// caches are told of in the log when the process is signalled to, and agree with the API server.
func (r *rig) caches(t *testing.T) {
	signal(t, r.ours)
	for _, want := range []string{"Dump of cached NodeInfo", "Node name: a", "name: ours", "Dump of scheduling queue", "name: waits"} {
		if _, err := r.ours.LineWith(r.Context(), want); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range r.ours.Tail(100) {
		if strings.Contains(line, "Cache mismatch") {
			t.Errorf("want caches that agree, got %s", line)
		}
	}
}
