package framework

import (
	"context"
	"math"
	"sync"

	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"
)

// DefaultParallelism is how many pieces of work are done at once, unless said otherwise.
const DefaultParallelism = 16

// parallelizer does so many pieces of work at once.
type parallelizer int

var _ fwk.Parallelizer = parallelizer(0)

// Until is part of fwk.Parallelizer. Pieces are handed out in chunks; once the context has ended,
// no more are.
func (p parallelizer) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	workqueue.ParallelizeUntil(ctx, int(p), pieces, do, workqueue.WithChunkSize(p.chunk(pieces)))
}

// chunk is how many pieces a goroutine takes at a time: at least one, at most the root of their
// number, and few enough that each goroutine gets some.
func (p parallelizer) chunk(pieces int) int {
	return max(1, min(int(math.Sqrt(float64(pieces))), pieces/int(p)+1))
}

// failure is the failure of one of several pieces of work.
type failure[T any] struct {
	mu    sync.Mutex
	set   bool
	piece int
	what  T
}

// note keeps a failure; of several that of the first piece.
func (f *failure[T]) note(piece int, what T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.set || piece < f.piece {
		f.set, f.piece, f.what = true, piece, what
	}
}

// get is the failure, if there was one.
func (f *failure[T]) get() (T, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.what, f.set
}
