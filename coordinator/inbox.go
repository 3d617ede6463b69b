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
	// taken are those of queued that the loop has begun with. They belong to it.
	taken []func()
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

// put queues work for the loop, all at once.
func (b *inbox) put(work ...func()) {
	b.mu.Lock()
	b.queued = append(b.queued, work...)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// drain runs what is queued, in order, on the caller's goroutine, until nothing is left or enough says so after one
// of them.
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

// fill takes more where nothing is left of what was taken; false: there is no more.
func (b *inbox) fill() bool {
	if len(b.taken) > 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken, b.queued = b.queued, nil
	return len(b.taken) > 0
}

// empty tells whether nothing is queued. It is for the loop.
func (b *inbox) empty() bool { return !b.fill() }
