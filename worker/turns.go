package worker

import (
	"context"
	"sync"
)

// turns has requests lock their shards in the order of their turns, where they say that they follow one another. It is safe for
// concurrent use.
type turns struct {
	mu    sync.Mutex
	term  uint64
	begun uint64        // the highest turn of the term that has begun
	moved chan struct{} // closed once a later turn begins; nil: nobody waits
}

// begin tells that a request of a turn has locked its shards, or has failed.
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

// await waits until a turn of a term or a later one has begun, or ctx ends. It does not wait for turn 0, nor where nothing of the term has
// begun: then this process is new, and the turn went to the one before it.
func (t *turns) await(ctx context.Context, term, turn uint64) {
	for {
		t.mu.Lock()
		if turn == 0 || t.term != term || t.begun >= turn {
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
