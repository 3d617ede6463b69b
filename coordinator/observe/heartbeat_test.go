package observe

import "testing"

// A process that was stopped in the middle of a turn has missed its looks, and is not ended when it goes on.
func TestAStoppedProcessDoesNotHang(t *testing.T) {
	h := &Heartbeat{}
	h.Turn()
	for range hungAfter - 1 {
		h.look()
	}
	h.Turn()
	h.Turn()
	for range hungAfter {
		h.look() // the first of them finds another turn
	}
	if err := h.Check(); err != nil {
		t.Errorf("after %d looks at the second turn: got %v, want no error", hungAfter, err)
	}
	if h.look(); h.Check() == nil || h.Age() != hungAfter*lookEvery {
		t.Errorf("one look later: got %v and an age of %v, want an error and %v", h.Check(), h.Age(), hungAfter*lookEvery)
	}
	h.Turn()
	if h.look(); h.Age() != 0 {
		t.Errorf("when the turn has ended: got an age of %v, want 0", h.Age())
	}
}
