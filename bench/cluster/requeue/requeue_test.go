package requeue

import (
	"slices"
	"testing"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func TestRequeue(t *testing.T) {
	trials := slices.Concat(nodeTrials(), fitTrials(), neighbourTrials(), volumeTrials())
	r := rig.New(t, testbed.Config{})
	r.Create(build.Namespace(elsewhere, "side", "elsewhere"))
	r.Start(profiles(trials))
	s := newMeteredRig(r)
	s.refuseBinds()
	t.Run("events", func(t *testing.T) { run(t, s, trials) })
	t.Run("the room of a nominated pod is kept", func(t *testing.T) { testNominated(t, s) })
	t.Run("a pod that backs off is tried early where nothing else is to be done", func(t *testing.T) { testPoppedEarly(t, s) })
	t.Run("pods whose binds are refused", func(t *testing.T) { testRefusedBinds(t, s) })
	t.Run("pods that another binds", func(t *testing.T) { testBoundByAnother(t, s) })
	t.Run("pods that are replaced under their names", func(t *testing.T) { testReplaced(t, s) })
	t.Run("a crowd waits", func(t *testing.T) { testCrowd(t, s) })
	if !rig.Upstream() { // which has no journal
		t.Run("the leader is killed while a crowd waits", func(t *testing.T) { testLeaderKilled(t, s) })
	}
	if got := testbed.Denied(s.Audited()); len(got) > 0 && !rig.Upstream() {
		t.Errorf("denied by RBAC: got %q, want nothing", got)
	}
}
