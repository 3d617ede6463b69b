package cli

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/shardsched/shardsched/coordinator/leader"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/scorer/scan"
)

// What every process tells of itself, and a coordinator that stands by of its loop.
func TestProcessesTellWhatTheyAre(t *testing.T) {
	r := newRegistry()
	tellBuild(r, componentCoordinator)
	tellLead(r, leader.NewFence("c", nil), &observe.Heartbeat{})
	want := fmt.Sprintf(`# HELP shardsched_build_info 1, labeled by the component that the process is, its version, and the version of the rules that it computes by.
# TYPE shardsched_build_info gauge
shardsched_build_info{component="coordinator",rules="%x",version="%s"} 1
# HELP shardsched_leader_since_timestamp_seconds When this process began to lead; 0: it does not lead.
# TYPE shardsched_leader_since_timestamp_seconds gauge
shardsched_leader_since_timestamp_seconds 0
# HELP shardsched_loop_turn_age_seconds For how long the turn of the scheduling loop that is under way has lasted, in whole seconds; 0: it rests, or its turns end.
# TYPE shardsched_loop_turn_age_seconds gauge
shardsched_loop_turn_age_seconds 0
`, scan.Rules(), Version())
	err := testutil.GatherAndCompare(r, strings.NewReader(want), "shardsched_build_info", "shardsched_leader_since_timestamp_seconds",
		"shardsched_loop_turn_age_seconds")
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"go_gc_heap_live_bytes", "go_gc_gomemlimit_bytes"} {
		if got, err := testutil.GatherAndCount(r, name); got != 1 {
			t.Errorf("%s: want one series, got %d, %v", name, got, err)
		}
	}
	if got := unixSeconds(leader.NewFence("c", nil).Since()); got != 0 || math.Signbit(got) {
		t.Errorf("no moment: want 0, got %v", got)
	}
}
