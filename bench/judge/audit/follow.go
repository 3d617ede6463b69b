package audit

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Where an API server keeps nodes and pods: all between the two keys.
const (
	registry     = "/registry/"
	registryFrom = registry + "minions/"
	registryEnd  = registry + "pods0" // what follows pods/
)

// Follower reads the nodes' and pods' history of an API server's etcd while it is
// written, and remembers when it saw what. It outlives etcd's deaths.
type Follower struct {
	client *clientv3.Client
	now    func() time.Time

	mu      sync.Mutex
	changes []Change
	through int64         // all changes up to this revision are there
	more    chan struct{} // closed at the next change of either
}

// NewFollower makes one that reads the clock now.
func NewFollower(c *clientv3.Client, now func() time.Time) *Follower {
	return &Follower{client: c, now: now, more: make(chan struct{})}
}

// Run follows until ctx ends, or etcd has forgotten what was not read yet.
func (f *Follower) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := f.client.Watch(ctx, registryFrom, clientv3.WithRange(registryEnd), clientv3.WithRev(1), clientv3.WithProgressNotify())
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case resp, open := <-changes:
			if !open {
				return fmt.Errorf("follow %s: the watch ended: %w", registry, ctx.Err())
			}
			if err := resp.Err(); err != nil {
				return fmt.Errorf("follow %s: %w", registry, err)
			}
			f.take(&resp)
		case <-tick.C:
			// An etcd that is away just now is asked again.
			_ = f.client.RequestProgress(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *Follower) take(resp *clientv3.WatchResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.now()
	for _, e := range resp.Events {
		c := changeOf(registry, e)
		c.At = at
		f.changes = append(f.changes, c)
		f.through = max(f.through, c.Revision-1) // of one revision there may be more to come
	}
	if resp.IsProgressNotify() {
		f.through = max(f.through, resp.Header.Revision)
	}
	close(f.more)
	f.more = make(chan struct{})
}

// After returns the changes after the first n, and what is closed when there are more.
func (f *Follower) After(n int) ([]Change, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes[n:len(f.changes):len(f.changes)], f.more
}

// Sync returns when all is there that was written before the call, and tells how many
// changes there are.
func (f *Follower) Sync(ctx context.Context) (int, error) {
	now, err := f.client.Get(ctx, registryFrom, clientv3.WithRange(registryEnd), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("revision of %s: %w", registry, err)
	}
	changes, err := f.await(ctx, now.Header.Revision)
	return len(changes), err
}

// await waits for all changes up to a revision and returns them, with some after it.
func (f *Follower) await(ctx context.Context, revision int64) ([]Change, error) {
	for {
		f.mu.Lock()
		changes, through, more := f.changes, f.through, f.more
		f.mu.Unlock()
		if through >= revision {
			return changes, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, fmt.Errorf("history of %s: seen through revision %d of %d: %w", registry, through, revision, ctx.Err())
		}
	}
}

// History is all that happened up to now. It is an error when that does not add up to
// what a plain read finds.
func (f *Follower) History(ctx context.Context) (*History, error) {
	now, err := f.client.Get(ctx, registryFrom, clientv3.WithRange(registryEnd))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", registry, err)
	}
	h := &History{Revision: now.Header.Revision}
	changes, err := f.await(ctx, h.Revision)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if c.Revision <= h.Revision {
			h.Changes = append(h.Changes, c)
		}
	}
	if err := h.matches(registry, now.Kvs); err != nil {
		return nil, fmt.Errorf("history of %s: %w", registry, err)
	}
	return h, nil
}
