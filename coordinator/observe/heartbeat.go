package observe

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often the loop's heartbeat is looked at.
	lookEvery = time.Second
	// hungAfter is in how many looks one after the other the same turn is found until the loop counts as hung: half a
	// minute. A turn takes milliseconds; one in which a plugin or a worker is late, seconds. Looks are counted, not
	// time: a process that was stopped and goes on has had none meanwhile.
	hungAfter = 30
)

// Heartbeat tells whether the scheduling loop of a process gets on: it hangs where one turn does not come to its
// end. A loop that has nothing to do is in no turn. It outlives the terms of the process.
type Heartbeat struct {
	// turns counts beginnings and ends: it is odd while a turn is under way.
	turns atomic.Uint64
	// seen is what the last look found, and same how many found that before; they are the watcher's.
	seen uint64
	same atomic.Uint64
}

// Turn begins or ends a turn; nil: nobody looks.
func (h *Heartbeat) Turn() {
	if h != nil {
		h.turns.Add(1)
	}
}

// Check returns an error while the loop hangs. It is for health checks.
func (h *Heartbeat) Check() error {
	if age := h.Age(); age >= hungAfter*lookEvery {
		return fmt.Errorf("the scheduling loop hangs: a turn has not ended for %s", age)
	}
	return nil
}

// Age is for how long the turn that is under way has been seen, in whole seconds; 0: the loop rests, or its turns end.
func (h *Heartbeat) Age() time.Duration { return time.Duration(h.same.Load()) * lookEvery }

// look takes note of where the loop is.
func (h *Heartbeat) look() {
	now := h.turns.Load()
	if now%2 == 1 && now == h.seen {
		h.same.Add(1)
	} else {
		h.same.Store(0)
	}
	h.seen = now
}

// Watch returns what Check says as soon as the loop hangs, or nil when ctx ends. Nothing can end such a loop but
// the end of the process.
func (h *Heartbeat) Watch(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if h.look(); h.Check() != nil {
			return h.Check()
		}
	}
}
