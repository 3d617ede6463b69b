package cli

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// stuck is a reporter that never comes back, as a loop that hangs.
type stuck struct {
	coordinator.Reporter
	until chan struct{}
}

func (s stuck) Unscheduled(*v1.Pod, string, string, *objects.Nominating) { <-s.until }

// The process ends itself when its loop hangs, and tells where that is.
func TestAHungLoopEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, until := &observe.Heartbeat{}, make(chan struct{})
		s, err := coordinator.NewScheduler(coordinator.SchedulerConfig{Cluster: "test", Term: 1, Shards: 1, Heartbeat: h, Reporter: stuck{until: until}})
		if err != nil {
			t.Fatal(err)
		}
		s.Load(&objects.Snapshot{Pods: []*v1.Pod{build.Pod("p").Obj()}}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		run := make(chan error, 1)
		go func() { run <- s.Run(ctx) }()
		var stacks strings.Builder
		codes := make(chan int, 1)
		begun := time.Now()
		if err := endIfHung(ctx, h, &stacks, func(code int) { codes <- code }); err != nil || len(codes) != 1 || <-codes != 1 {
			t.Errorf("got %v, want the process ended with 1", err)
		}
		if took := time.Since(begun); took < 30*time.Second || took > 35*time.Second || !strings.Contains(stacks.String(), "stuck.Unscheduled") {
			t.Errorf("ended after %s with the stacks\n%s\nwant it after half a minute, with the place where it hangs", took, stacks.String())
		}
		close(until)
		cancel()
		<-run
	})
}
