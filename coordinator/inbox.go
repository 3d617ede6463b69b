package coordinator

import "sync"

// inbox carries work to the scheduling loop from other goroutines, in order and
// without a bound. It can refuse nothing: the goroutine that delivers an event has already
// taken it from the watch, and can not give it back.
type inbox struct {
	mu     sync.Mutex
	queued []func()
	// ready holds one token while queued is not empty.
	ready chan struct{}
	// taken is the work that the loop has taken from queued. It belongs to the loop.
	taken []func()
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

// put queues work for the loop. No other work comes between.
func (b *inbox) put(work ...func()) {
	b.mu.Lock()
	b.queued = append(b.queued, work...)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// drain runs the queued work, in order, on the caller's goroutine, until none is left or enough returns true after
// a piece of work.
func (b *inbox) drain(enough func() bool) {
	for b.fill() {
		f := b.taken[0]
		b.taken[0], b.taken = nil, b.taken[1:]
		f()
		if enough() {
			return
		}
	}
}

// fill takes the queued work once taken is empty; false: there is none.
func (b *inbox) fill() bool {
	if len(b.taken) > 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken, b.queued = b.queued, nil
	return len(b.taken) > 0
}

// empty tells whether no work is left. Only the loop calls it.
func (b *inbox) empty() bool { return !b.fill() }
