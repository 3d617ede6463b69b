package main

import (
	"context"
	"fmt"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/process"
)

// The sides.
const (
	upstream = "upstream"
	ours     = "ours"
)

// configuration is both sides': no limits of their own but what is far above what the
// machine can do, and upstream's leader election.
const configuration = `
clientConnection: {qps: 10000, burst: 10000}
leaderElection: {leaderElect: true, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s}
`

// startSide starts a scheduler with all of its processes, and returns when it says that it
// is ready. The processes are those of the bed that were not there before.
func (o *options) startSide(ctx context.Context, bed *testbed.Bed, side string) (*testbed.SchedulerProcess, error) {
	s := testbed.Scheduler{Config: configuration}
	if side == upstream {
		return bed.Upstream(ctx, s)
	}
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	s.EmbeddedEtcd = address
	s.Args = []string{fmt.Sprintf("--local-workers=%d", o.localWorkers)}
	p, err := bed.Coordinator(ctx, s)
	if err != nil {
		return nil, err
	}
	program, err := bed.Shardsched(ctx)
	if err != nil {
		return nil, err
	}
	for i := range o.workers {
		if _, err := bed.Run(fmt.Sprintf("worker-%d", i), program, "worker", "--etcd-endpoints=http://"+address, "--cluster=testbed",
			fmt.Sprintf("--id=worker-%d", i), "--listen=127.0.0.1:0", "--http-listen="); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// stopSide ends the scheduler's processes in the order in which they were started.
func stopSide(processes []*process.Process) {
	for _, p := range processes {
		testbed.Stop(p)
	}
}
