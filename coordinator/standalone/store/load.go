package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// loadPage is how many keys one request of Load reads.
const loadPage = 1000

// Load reads everything at one revision, which is no older than the call: what a leader
// loads after it won holds all that the leaders before it have committed.
func (s *Store) Load(ctx context.Context) (*objects.Snapshot, error) {
	for {
		all, err := s.load(ctx)
		// A load that takes longer than etcd keeps its revision starts again.
		if !errors.Is(err, ErrCompacted) {
			return all, err
		}
	}
}

func (s *Store) load(ctx context.Context) (*objects.Snapshot, error) {
	var all objects.Snapshot
	type created struct {
		pod      *v1.Pod
		revision int64
	}
	var pods []created
	revision, err := s.scan(ctx, s.keys.objects, func(kv *mvccpb.KeyValue) error {
		obj, err := decode(kv)
		if err != nil {
			return err
		}
		switch obj := obj.(type) {
		case *v1.Node:
			all.Nodes = append(all.Nodes, obj)
		case *v1.Pod:
			pods = append(pods, created{obj, kv.CreateRevision})
		default:
			all.Cluster = append(all.Cluster, obj)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load objects: %w", err)
	}
	objects.Sort(all.Cluster)
	slices.SortStableFunc(pods, func(a, b created) int { return cmp.Compare(a.revision, b.revision) })
	all.Pods = make([]*v1.Pod, len(pods))
	for i := range pods {
		all.Pods[i] = pods[i].pod
	}
	all.Revision = revision
	return &all, nil
}

// scan hands fn every key with a prefix, page by page, all at one revision. It waits for an
// etcd that does not answer until ctx ends.
func (s *Store) scan(ctx context.Context, prefix string, fn func(*mvccpb.KeyValue) error) (revision int64, err error) {
	end := clientv3.GetPrefixRangeEnd(prefix)
	for key := prefix; ; {
		resp, err := s.client.Get(ctx, key, clientv3.WithRange(end), clientv3.WithLimit(loadPage), clientv3.WithRev(revision))
		for n := 1; err != nil && !definite(err) && pause(ctx, n) == nil; n++ {
			resp, err = s.client.Get(ctx, key, clientv3.WithRange(end), clientv3.WithLimit(loadPage), clientv3.WithRev(revision))
		}
		if err != nil {
			return 0, readError(err)
		}
		if revision == 0 {
			revision = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			if err := fn(kv); err != nil {
				return 0, err
			}
		}
		if !resp.More {
			return revision, nil
		}
		key = after(string(resp.Kvs[len(resp.Kvs)-1].Key))
	}
}

// after is the first key behind another.
func after(key string) string { return key + "\x00" }

// readError gives what etcd says to a read the errors of this package.
func readError(err error) error {
	if errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("%w: %w", ErrCompacted, err)
	}
	return err
}
