package coordinator

import (
	"testing"
	"time"
)

// A frozen clock goes on once the loop takes in what was delivered, not when the clock that it reads does.
func TestAFrozenClockGoesOnWithWhatIsDelivered(t *testing.T) {
	at := time.Unix(1, 0)
	s := &Scheduler{inbox: newInbox(), frozen: newFrozenClock(func() time.Time { return at })}
	at = time.Unix(2, 0)
	if got := s.frozen.now().Unix(); got != 1 {
		t.Errorf("the clock has gone on: got %d, want 1", got)
	}
	s.Deliver(nil)
	at = time.Unix(3, 0)
	if got := s.frozen.now().Unix(); got != 1 {
		t.Errorf("something is delivered: got %d, want 1", got)
	}
	s.inbox.drain(func() bool { return false })
	if got := s.frozen.now().Unix(); got != 2 {
		t.Errorf("it is taken in: got %d, want 2, the time of the delivery", got)
	}
}
