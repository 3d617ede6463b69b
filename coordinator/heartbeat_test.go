package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
)

// A loop that rests, for however long, or takes turn after turn is well. One that stays in a turn is found after
// half a minute, and its end is seen.
func TestALoopThatHangsIsFound(t *testing.T) {
	h := &observe.Heartbeat{}
	runScenarioWith(t, func(cfg *SchedulerConfig) { cfg.Heartbeat = h }, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		found := make(chan error, 1)
		go func() { found <- h.Watch(x.ctx) }()
		elapse(time.Hour)
		for range 90 {
			x.deliver(objects.Added, cores("p", "1"))
			elapse(time.Second)
		}
		if err := h.Check(); err != nil || len(found) > 0 {
			t.Errorf("a loop that rests or turns: got %v, want no error", err)
		}
		stuck := make(chan struct{})
		x.inbox.put(func() { <-stuck })
		elapse(29 * time.Second)
		if err := h.Check(); err != nil {
			t.Errorf("a turn of less than half a minute: got %v, want no error", err)
		}
		elapse(3 * time.Second)
		if err := h.Check(); err == nil || len(found) == 0 || <-found == nil {
			t.Errorf("a turn without an end: got %v, want an error, and the watch ended with it", err)
		}
		close(stuck)
		synctest.Wait()
		go func() { _ = h.Watch(x.ctx) }()
		if elapse(2 * time.Second); h.Check() != nil {
			t.Errorf("when it goes on: got %v, want no error", h.Check())
		}
	})
}
