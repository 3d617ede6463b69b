package coordinator

import (
	"context"

	"github.com/shardsched/shardsched/coordinator/preempt"
)

// Evictor carries preemptions out. It is called on the loop's goroutine and must not block.
type Evictor interface {
	// Evict clears the nominations of e.Lower, then has the victims leave: each gets its
	// condition, is deleted and gets its event; all but the last together, the last one when they
	// are through. A victim that is gone is no error. done is called once, from any goroutine,
	// when all is written or something failed; what is left then is not begun. When ctx ends, so
	// does the eviction, with an error.
	Evict(ctx context.Context, e preempt.Eviction, done func(error))
}
