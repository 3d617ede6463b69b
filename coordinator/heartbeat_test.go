package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// A loop that rests, for however long, or takes turn after turn is well. One that stays in a turn is found after
// half a minute, and its end is seen.
func TestALoopThatHangsIsFound(t *testing.T) {
	h := &Heartbeat{}
	onStageAs(t, func(cfg *SchedulerConfig) { cfg.Heartbeat = h }, clusterOf(nodesOf("4", "n")), nil, func(x *stage) {
		found := make(chan error, 1)
		go func() { found <- h.Watch(x.ctx) }()
		elapse(time.Hour)
		for range 3 * hungAfter {
			x.deliver(objects.Added, cores("p", "1"))
			elapse(lookEvery)
		}
		if err := h.Check(); err != nil || len(found) > 0 {
			t.Errorf("a loop that rests or turns: got %v, want no error", err)
		}
		stuck := make(chan struct{})
		x.inbox.put(func() { <-stuck })
		elapse((hungAfter - 1) * lookEvery)
		if err := h.Check(); err != nil {
			t.Errorf("a turn of less than half a minute: got %v, want no error", err)
		}
		elapse(3 * lookEvery)
		if err := h.Check(); err == nil || len(found) == 0 || <-found == nil {
			t.Errorf("a turn without an end: got %v, want an error, and the watch ended with it", err)
		}
		close(stuck)
		synctest.Wait()
		if h.look(); h.Check() != nil {
			t.Errorf("when it goes on: got %v, want no error", h.Check())
		}
	})
}

// A process that was stopped in the middle of a turn has missed its looks, and is not ended when it goes on.
func TestAStoppedProcessDoesNotHang(t *testing.T) {
	h := &Heartbeat{}
	h.turn()
	for range hungAfter - 1 {
		h.look()
	}
	h.turn()
	h.turn()
	for range hungAfter {
		h.look() // the first of them finds another turn
	}
	if err := h.Check(); err != nil {
		t.Errorf("after %d looks at the second turn: got %v, want no error", hungAfter, err)
	}
	if h.look(); h.Check() == nil {
		t.Error("one look later: got no error, want one")
	}
}
