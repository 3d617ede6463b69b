package coordinator

import "sync"

// inbox carries work to the scheduling loop from other goroutines, in order and
// without a bound: who delivers an event has already taken it from where it came
// and can not give it back.
type inbox struct {
	mu     sync.Mutex
	queued []func()
	// ready holds one token while queued is not empty.
	ready chan struct{}
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

// put queues f for the loop.
func (b *inbox) put(f func()) {
	b.mu.Lock()
	b.queued = append(b.queued, f)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// drain runs everything that is queued, in order, on the caller's goroutine.
func (b *inbox) drain() {
	for {
		b.mu.Lock()
		work := b.queued
		b.queued = nil
		b.mu.Unlock()
		if len(work) == 0 {
			return
		}
		for _, f := range work {
			f()
		}
	}
}

// empty tells whether nothing is queued.
func (b *inbox) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queued) == 0
}
