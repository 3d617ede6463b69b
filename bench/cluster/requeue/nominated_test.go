package requeue

import (
	"testing"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// testNominated has another one, such as a cluster autoscaler or a descheduler, nominate a
// pod to a node: its room is kept from pods of no higher priority, until it is not nominated
// there any more.
func testNominated(t *testing.T, s meteredRig) {
	for _, x := range []struct {
		name string
		do   func(meteredRig)
	}{
		{"until the nomination is taken back", nominate("")},
		{"until it goes to another node", nominate("b")},
		{"until the pod is gone", deletePod("guest")},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := s.in(t)
			s.cleanedUp()
			s.prepare(there(small("a").Obj(), small("b").CPU("0").Obj()))
			// It fits nowhere, and so only its nomination takes room.
			guest := build.Pod("guest").Priority(10).CPU("2").NodeSelector("side", "nowhere").Obj()
			s.Create(guest)
			s.Unschedulable("default/guest")
			s.after("UnschedulablePodUpdate", nominate("a"))

			s.Create(build.Pod("low").CPU("1").Obj())
			s.Unschedulable("default/low")
			s.Create(build.Pod("high").Priority(20).CPU("1").Obj())
			if got := s.Bound("default/high"); got != "a" {
				t.Errorf("a pod of higher priority: got node %s, want a", got)
			}
			if p := s.Pods.Get("default/low"); testbed.IsBound(p) {
				t.Errorf("a pod of lower priority: got %s, want it to wait", testbed.Describe(p))
			}
			before := s.count()
			x.do(s)
			if got := s.Bound("default/low"); got != "a" {
				t.Errorf("a pod of lower priority, when the room is free: got node %s, want a", got)
			}
			if d := s.count().since(before); d.requeued("AssignedPodDelete") == 0 {
				t.Errorf("got none taken back by AssignedPodDelete, want the pod of lower priority; counted since:\n%s", d)
			}
		})
	}
}

// nominate writes into the guest's status where it is to go.
func nominate(node string) func(meteredRig) {
	return func(s meteredRig) {
		s.T.Helper()
		s.PatchPod("default/guest", `{"status": {"nominatedNodeName": "`+node+`"}}`, "status")
	}
}
