package framework

import (
	"context"
	"math"
	"sync"

	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/scorer/scan"
)

// DefaultParallelism is how many pieces of work are done at once, unless said otherwise.
const DefaultParallelism = 16

// parallelizer does so many pieces of work at once.
type parallelizer int

var _ fwk.Parallelizer = parallelizer(0)

// Until is part of fwk.Parallelizer. Pieces are handed out in chunks; once the context has ended,
// no more are. A context of nil never ends. A piece that panics ends it, and the caller panics.
func (p parallelizer) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed failure[*scan.Panic]
	workqueue.ParallelizeUntil(ctx, int(p), pieces, func(piece int) {
		defer func() {
			if v := recover(); v != nil {
				failed.note(piece, scan.Recovered(v))
				cancel()
			}
		}()
		do(piece)
	}, workqueue.WithChunkSize(p.chunk(pieces)))
	if why, panicked := failed.get(); panicked {
		panic(why)
	}
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
