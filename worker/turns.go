package worker

import (
	"context"
	"sync"
)

// turns has requests begin in the order in which their leader has sent them, where it says that they follow each other. It is safe for
// concurrent use.
type turns struct {
	mu    sync.Mutex
	term  uint64
	begun uint64        // the highest of the term
	moved chan struct{} // closed with the next turn that begins; nil: nobody waits
}

// begin tells that a request has its shards, or never will have them.
func (t *turns) begin(term, turn uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case term < t.term || term == t.term && turn <= t.begun:
		return
	case term > t.term:
		t.term = term
	}
	t.begun = turn
	if t.moved != nil {
		close(t.moved)
		t.moved = nil
	}
}

// await waits until a turn of a term has begun, or a later one, or ctx ends.
func (t *turns) await(ctx context.Context, term, turn uint64) {
	for {
		t.mu.Lock()
		if turn == 0 || t.term > term || t.term == term && t.begun >= turn {
			t.mu.Unlock()
			return
		}
		if t.moved == nil {
			t.moved = make(chan struct{})
		}
		moved := t.moved
		t.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}
