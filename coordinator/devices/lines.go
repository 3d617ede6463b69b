package devices

import (
	"context"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lines have pods that share a claim write it one after the other, each on top of what the one before has written. Written at
// once, all but one would be in conflict, and most of a crowd would not be bound within their tries.
//
// Differs from upstream: there, they are in conflict.
type lines struct {
	mu sync.Mutex
	of map[types.UID]*line
}

// line is of one claim.
type line struct {
	uid types.UID
	// turn has a token while nobody writes. Who has it may touch newest.
	turn chan struct{}
	// newest is the claim as it was written last; nil: by nobody in this line.
	newest *resourcev1.ResourceClaim
	// n is how many write or wait; guarded by lines.mu.
	n int
}

func newLines() *lines { return &lines{of: map[types.UID]*line{}} }

// enter returns when it is the caller's turn, who has to leave then.
func (l *lines) enter(ctx context.Context, uid types.UID) (*line, error) {
	l.mu.Lock()
	at := l.of[uid]
	if at == nil {
		at = &line{uid: uid, turn: make(chan struct{}, 1)}
		at.turn <- struct{}{}
		l.of[uid] = at
	}
	at.n++
	l.mu.Unlock()
	select {
	case <-at.turn:
		return at, nil
	case <-ctx.Done():
		l.step(at)
		return nil, context.Cause(ctx)
	}
}

// leave hands the turn on.
func (l *lines) leave(at *line) {
	at.turn <- struct{}{}
	l.step(at)
}

func (l *lines) step(at *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.n--; at.n == 0 {
		delete(l.of, at.uid)
	}
}
