package journal

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/lease"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// GangStore keeps parts of commits by key.
type GangStore interface {
	// SaveGangs writes and deletes parts. With an error, some may be saved and others not; lease.ErrDeposed: another leads.
	SaveGangs(ctx context.Context, put map[string]*pb.GangCommit, del []string) error
}

// commitTime is how long the write of commits may take. Pods are not held back longer: the commit helps only where this leader ends within
// the next moments.
const commitTime = time.Second

// Gangs keeps the commit of each pod group that is placed from before the first of its pods is bound until all are, on a goroutine of its
// own. The scheduling loop never waits for it, but the binds of the pod group do.
//
//	Put ──> waiting ──┐
//	                  ├── one write for all that wait ──> written ──> the pods are bound
//	Delete ─> over ───┘   or, every 100 ms, what is over
type Gangs struct {
	store GangStore

	mu      sync.Mutex // guards what is below
	waiting []waitingCommit
	over    []*Commit

	// ready holds a token while commits wait.
	ready chan struct{}
}

// waitingCommit is to be written. written is told what has come of that.
type waitingCommit struct {
	*Commit
	written func(error)
}

// NewGangs makes one; store may be nil: nothing is kept.
func NewGangs(store GangStore) *Gangs { return &Gangs{store: store, ready: make(chan struct{}, 1)} }

// Keeps tells whether commits are kept.
func (g *Gangs) Keeps() bool { return g.store != nil }

// Put keeps a commit, which is not changed any more. written is called from another goroutine, unless the term ends before; with an error
// the commit may not be kept.
func (g *Gangs) Put(c *Commit, written func(error)) {
	g.mu.Lock()
	g.waiting = append(g.waiting, waitingCommit{c, written})
	g.mu.Unlock()
	select {
	case g.ready <- struct{}{}:
	default:
	}
}

// Delete deletes commits behind the loop: their pods are bound, or will be decided anew.
func (g *Gangs) Delete(list ...*Commit) {
	if g.store == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = append(g.over, list...)
}

// Run writes until ctx ends.
func (g *Gangs) Run(ctx context.Context) {
	if g.store == nil {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for rest := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-g.ready:
		case <-tick.C:
			if rest--; rest > 0 {
				continue
			}
		}
		if rest = 0; !g.write(ctx) {
			rest = longestRest
		}
	}
}

// Farewell deletes what is over when the loop has ended. The fence still decides whether this leader may write.
func (g *Gangs) Farewell(ctx context.Context) {
	if g.store != nil {
		g.write(context.WithoutCancel(ctx))
	}
}

// write writes what waits, and deletes what is over. It returns false where that has failed.
func (g *Gangs) write(ctx context.Context) bool {
	g.mu.Lock()
	waiting, over := g.waiting, g.over
	g.waiting, g.over = nil, nil
	g.mu.Unlock()
	put := map[string]*pb.GangCommit{}
	for _, w := range waiting {
		for key, part := range w.parts() {
			put[key] = part
		}
	}
	var del []string
	for _, c := range over {
		del = append(del, c.Keys...)
	}
	if len(put)+len(del) == 0 {
		return true
	}
	limited, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	err := g.store.SaveGangs(limited, put, del)
	if err != nil {
		g.Delete(over...)
		if ctx.Err() == nil && !errors.Is(err, lease.ErrDeposed) {
			klog.FromContext(ctx).Error(err, "Commits of pod groups are not kept", "written", len(put), "deleted", len(del))
		}
	}
	for _, w := range waiting {
		w.written(err)
	}
	return err == nil
}
