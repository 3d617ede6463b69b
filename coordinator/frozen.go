package coordinator

import (
	"sync/atomic"
	"time"
)

// frozenClock is a clock that goes on with what is delivered. Else a turn that the loop takes for another reason, between a step of the
// clock and the changes that come with it, would decide pods by the one without the others.
type frozenClock struct {
	clock func() time.Time
	at    atomic.Pointer[time.Time]
}

func newFrozenClock(clock func() time.Time) *frozenClock {
	c := &frozenClock{clock: clock}
	c.read()()
	return c
}

func (c *frozenClock) now() time.Time { return *c.at.Load() }

// read reads the clock. The loop has that time once it calls what is returned.
func (c *frozenClock) read() func() {
	now := c.clock()
	return func() { c.at.Store(&now) }
}
