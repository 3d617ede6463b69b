package store

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Watch hands fn every change after a revision, in order, none twice; changes of one
// revision come in one call. It returns when ctx ends, fn returns an error, or with
// ErrCompacted when changes it has not delivered yet are compacted away. While etcd can not
// be reached it waits.
func (s *Store) Watch(ctx context.Context, after int64, fn func([]objects.Event) error) error {
	return s.watch(ctx, s.keys.objects, after, func(changes []*clientv3.Event, _ int64) error {
		events, err := decodeEvents(changes)
		if err != nil || len(events) == 0 {
			return err
		}
		return fn(events)
	})
}

func decodeEvents(changes []*clientv3.Event) ([]objects.Event, error) {
	events := make([]objects.Event, 0, len(changes))
	for _, c := range changes {
		kv := c.Kv
		if c.Type == mvccpb.DELETE {
			if kv = c.PrevKv; kv == nil {
				return nil, fmt.Errorf("deletion of %s: %w", c.Kv.Key, ErrCompacted)
			}
		}
		obj, err := decode(kv)
		if err != nil {
			return nil, err
		}
		e := objects.Event{Type: typeOf(c), Kind: objects.KindOf(obj), Revision: c.Kv.ModRevision}
		switch obj := obj.(type) {
		case *v1.Node:
			e.Node = obj
		case *v1.Pod:
			e.Pod = obj
		default:
			e.Object = obj
		}
		events = append(events, e)
	}
	return events, nil
}

func typeOf(c *clientv3.Event) objects.EventType {
	switch {
	case c.Type == mvccpb.DELETE:
		return objects.Deleted
	case c.IsCreate():
		return objects.Added
	}
	return objects.Modified
}

// Selector says which objects are listed or watched.
type Selector struct {
	Kind objects.Kind
	// Empty: all namespaces.
	Namespace string
}

// RawEvent is a change with the object as it is stored.
type RawEvent struct {
	Type objects.EventType
	Item Item
}

// WatchRaw is Watch for the objects of one kind, undecoded. fn is also called without
// events, to tell that there were none up to a revision.
func (s *Store) WatchRaw(ctx context.Context, sel Selector, after int64, fn func(events []RawEvent, revision int64) error) error {
	return s.watch(ctx, s.keys.kind(sel.Kind, sel.Namespace), after, func(changes []*clientv3.Event, revision int64) error {
		events := make([]RawEvent, 0, len(changes))
		for _, c := range changes {
			kv := c.Kv
			if c.Type == mvccpb.DELETE {
				if kv = c.PrevKv; kv == nil {
					return fmt.Errorf("deletion of %s: %w", c.Kv.Key, ErrCompacted)
				}
			}
			ref, err := s.keys.ref(string(kv.Key))
			if err != nil {
				return err
			}
			events = append(events, RawEvent{typeOf(c), Item{ref, kv.Value, c.Kv.ModRevision}})
		}
		return fn(events, revision)
	})
}

// watch follows the keys with a prefix and takes the watch up again where it breaks. With
// each call of fn, every change up to the revision has been delivered.
func (s *Store) watch(ctx context.Context, prefix string, after int64, fn func(changes []*clientv3.Event, revision int64) error) error {
	for failures := 0; ; failures++ {
		w := watcher{client: s.client, prefix: prefix, after: after, fn: fn}
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("watch %s: %w", prefix, ctx.Err())
		}
		if w.final {
			return fmt.Errorf("watch %s after revision %d: %w", prefix, w.after, err)
		}
		if w.after > after {
			failures = 0
		}
		after = w.after
		klog.FromContext(ctx).Info("Watch is taken up again", "prefix", prefix, "after", after, "cause", fmt.Sprint(err))
		if err := pause(ctx, failures+1); err != nil {
			return fmt.Errorf("watch %s: %w", prefix, err)
		}
	}
}

// watcher is one watch from its beginning to its break.
type watcher struct {
	client *clientv3.Client
	prefix string
	after  int64 // everything up to here is delivered
	final  bool  // the error is not one that another watch could heal
	fn     func([]*clientv3.Event, int64) error
}

func (w *watcher) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range w.client.Watch(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithRev(w.after+1), clientv3.WithPrevKV(),
		clientv3.WithProgressNotify()) {
		if resp.CompactRevision > 0 {
			w.final = true
			return fmt.Errorf("%w up to %d", ErrCompacted, resp.CompactRevision-1)
		}
		if err := resp.Err(); err != nil {
			return err
		}
		revision := w.after
		if n := len(resp.Events); n > 0 {
			// The header tells how far etcd is, which may be further than these events.
			revision = resp.Events[n-1].Kv.ModRevision
		} else if resp.IsProgressNotify() {
			revision = resp.Header.Revision
		}
		if revision <= w.after {
			continue
		}
		if err := w.fn(resp.Events, revision); err != nil {
			w.final = true
			return err
		}
		w.after = revision
	}
	return nil
}
