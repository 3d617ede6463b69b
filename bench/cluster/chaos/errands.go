package chaos

import (
	"context"
	"sync"
	"time"
)

// errandEvery is how long to wait from the end of an errand to the next.
const errandEvery = 100 * time.Millisecond

// Errands are done one after the other while a test runs: each takes what a step of a coordinator takes that waits for
// servers and their disks. A machine may be slow where nobody else uses it, and its disks are in no account of its CPUs.
type Errands struct {
	now func() time.Time

	mu   sync.Mutex
	done []errand
}

type errand struct{ from, to time.Time }

// NewErrands are timed by a clock.
func NewErrands(now func() time.Time) *Errands { return &Errands{now: now} }

// Run does errands until ctx ends. What fails tells nothing: a server may be away.
func (e *Errands) Run(ctx context.Context, do func(context.Context) error) {
	for ctx.Err() == nil {
		from := e.now()
		if do(ctx) == nil {
			e.mu.Lock()
			e.done = append(e.done, errand{from, e.now()})
			e.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(errandEvery):
		}
	}
}

// Slowest is the longest errand of those that were under way from one time to another.
func (e *Errands) Slowest(from, to time.Time) (longest time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.done {
		if x.to.After(from) && x.from.Before(to) {
			longest = max(longest, x.to.Sub(x.from))
		}
	}
	return longest
}
