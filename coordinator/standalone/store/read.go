package store

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/shardsched/shardsched/coordinator/lease"
)

// getAll reads keys, in the order given; nil where there is nothing. What etcd does not
// answer is asked again as long as the fence stands: etcd's client does not by itself.
func (s *Store) getAll(ctx context.Context, f lease.Fence, keys []string) ([]*mvccpb.KeyValue, int64, error) {
	kvs := make([]*mvccpb.KeyValue, len(keys))
	revisions := make([]int64, (len(keys)+maxTxnOps-1)/maxTxnOps)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for n := range revisions {
		begin := n * maxTxnOps
		part, into := keys[begin:min(begin+maxTxnOps, len(keys))], kvs[begin:]
		group.Go(func() (err error) {
			revisions[n], err = s.getSome(ctx, f, part, into)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}
	var newest int64
	for _, r := range revisions {
		newest = max(newest, r)
	}
	return kvs, newest, nil
}

func (s *Store) getSome(ctx context.Context, f lease.Fence, keys []string, into []*mvccpb.KeyValue) (int64, error) {
	ops := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		ops[i] = clientv3.OpGet(key)
	}
	resp, err := s.client.Txn(ctx).Then(ops...).Commit()
	for n := 1; err != nil && !definite(err) && f.Check() == nil && pause(ctx, n) == nil; n++ {
		resp, err = s.client.Txn(ctx).Then(ops...).Commit()
	}
	if err != nil {
		return 0, fmt.Errorf("read %d objects: %w", len(keys), err)
	}
	for i, r := range resp.Responses {
		if found := r.GetResponseRange().Kvs; len(found) > 0 {
			into[i] = found[0]
		}
	}
	return resp.Header.Revision, nil
}
