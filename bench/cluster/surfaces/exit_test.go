package surfaces

import (
	"context"
	"errors"
	"os/exec"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// code waits for the end of a scheduler and returns its exit code.
func code(t *testing.T, p *testbed.SchedulerProcess) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	select {
	case <-p.Done():
	case <-ctx.Done():
		t.Fatalf("%s: want it to end", p.Name)
	}
	if exit := (&exec.ExitError{}); errors.As(p.Err(), &exit) {
		return exit.ExitCode()
	}
	return 0
}

// TestExits ends coordinators in all the ways there are.
func TestExits(t *testing.T) {
	c := testbed.New(t, testbed.Config{})
	leases := c.Admin.CoordinationV1().Leases("kube-system")

	// The leases outlast each wait here: what goes on does so because a lease was given back.
	const long = "leaderElection: {leaseDuration: 120s, renewDeadline: 3s, retryPeriod: 500ms}"
	leader := c.Coordinator(testbed.Scheduler{Name: "leader", Config: long})
	if _, err := leader.LineWith(c.Context(), `"Loaded"`); err != nil {
		t.Fatal(err)
	}
	standby := c.Coordinator(testbed.Scheduler{Name: "standby", Config: long}) // ready while it stands by
	third := c.Coordinator(testbed.Scheduler{Name: "third", Config: long})
	third.Terminate()
	if got := code(t, third); got != 0 {
		t.Errorf("a standby is told to end: want exit code 0, got %d", got)
	}
	leader.Terminate()
	if got := code(t, leader); got != 0 {
		t.Errorf("the leader is told to end: want exit code 0, got %d", got)
	}
	// A lease that was given back needs not run out.
	if _, err := standby.LineWith(c.Context(), `"Loaded"`); err != nil {
		t.Fatalf("takeover from a leader that was told to end: %v, want it before the lease's 120s are over", err)
	}

	impatient := c.Coordinator(testbed.Scheduler{Name: "impatient", Cluster: "another", Config: "leaderElection: {leaderElect: false}"})
	if _, err := impatient.LineWith(c.Context(), `"Loaded"`); err != nil {
		t.Fatal(err)
	}
	impatient.Pause() // so that both signals are there at once
	impatient.Terminate()
	impatient.Interrupt()
	impatient.Resume()
	if got := code(t, impatient); got != 1 {
		t.Errorf("told to end twice: want exit code 1, got %d", got)
	}

	lease, err := leases.Get(t.Context(), "kube-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other := "somebody-else"
	lease.Spec.HolderIdentity = &other
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := code(t, standby); got != 1 {
		t.Errorf("the Lease is another's: want exit code 1, got %d", got)
	}
	if _, err := standby.LineWith(c.Context(), "leaderelection lost"); err != nil {
		t.Error(err)
	}
}
