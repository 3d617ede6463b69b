package audit

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Change is one write of one key.
type Change struct {
	Revision int64
	// Key is what follows the cluster's prefix: objects/pods/default/web.
	Key string
	// Value is nil where the key was deleted.
	Value []byte
	// At is when a Follower saw it; not known to other readers.
	At time.Time
}

// History is every write to a cluster's keys up to Revision, in order.
type History struct {
	Changes  []Change
	Revision int64
}

// Prefix is where all keys of a cluster are.
func Prefix(cluster string) string { return "/shardsched/" + cluster + "/" }

// progressEvery is how often etcd is asked how far a watch has come.
const progressEvery = 50 * time.Millisecond

// ReadHistory reads all that etcd remembers of a cluster. It is an error when etcd has
// forgotten some of it, or when the writes do not add up to what is there now.
func ReadHistory(ctx context.Context, c *clientv3.Client, cluster string) (*History, error) {
	prefix := Prefix(cluster)
	now, err := c.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", prefix, err)
	}
	h := &History{Revision: now.Header.Revision}
	if err := h.watch(ctx, c, prefix); err != nil {
		return nil, fmt.Errorf("history of %s: %w", prefix, err)
	}
	if err := h.matches(prefix, now.Kvs); err != nil {
		return nil, fmt.Errorf("history of %s: %w", prefix, err)
	}
	return h, nil
}

// watch collects the changes up to the history's revision.
func (h *History) watch(ctx context.Context, c *clientv3.Client, prefix string) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	changes := c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithProgressNotify())
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case resp, open := <-changes:
			if !open {
				return fmt.Errorf("watch ended: %w", ctx.Err())
			}
			if err := resp.Err(); err != nil {
				return err
			}
			if h.take(prefix, resp) {
				return nil
			}
		case <-tick.C:
			if err := c.RequestProgress(ctx); err != nil {
				return fmt.Errorf("ask how far the watch is: %w", err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take adds a response's events and tells whether the history is complete.
func (h *History) take(prefix string, resp clientv3.WatchResponse) bool {
	if resp.IsProgressNotify() {
		return resp.Header.Revision >= h.Revision
	}
	for _, e := range resp.Events {
		if e.Kv.ModRevision > h.Revision {
			return true
		}
		h.Changes = append(h.Changes, changeOf(prefix, e))
	}
	return false
}

func changeOf(prefix string, e *clientv3.Event) Change {
	c := Change{Revision: e.Kv.ModRevision, Key: strings.TrimPrefix(string(e.Kv.Key), prefix)}
	if e.Type == mvccpb.PUT {
		c.Value = append([]byte{}, e.Kv.Value...)
	}
	return c
}

// matches holds the sum of all changes against what a plain read found.
func (h *History) matches(prefix string, now []*mvccpb.KeyValue) error {
	sum := map[string]Change{}
	for _, c := range h.Changes {
		if c.Value == nil {
			delete(sum, c.Key)
			continue
		}
		sum[c.Key] = c
	}
	if len(sum) != len(now) {
		return fmt.Errorf("its writes leave %d keys, a read at revision %d finds %d", len(sum), h.Revision, len(now))
	}
	for _, kv := range now {
		key := strings.TrimPrefix(string(kv.Key), prefix)
		c, ok := sum[key]
		if !ok || c.Revision != kv.ModRevision || !bytes.Equal(c.Value, kv.Value) {
			return fmt.Errorf("%s: its last write is of revision %d, a read finds revision %d", key, c.Revision, kv.ModRevision)
		}
	}
	return nil
}

// ReadState reads a cluster as it is now. It knows no history: each key counts as
// written once.
func ReadState(ctx context.Context, c *clientv3.Client, cluster string) (*State, error) {
	prefix := Prefix(cluster)
	now, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", prefix, err)
	}
	s := NewState()
	for _, kv := range now.Kvs {
		s.Apply(Change{Revision: kv.ModRevision, Key: strings.TrimPrefix(string(kv.Key), prefix), Value: kv.Value})
	}
	return s, nil
}
