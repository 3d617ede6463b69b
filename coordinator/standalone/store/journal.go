package store

import (
	"context"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/lease"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// SaveEntries writes and removes entries of the queue journal. A pod in both is written.
// With an error, some may be saved and others not.
//
// Bind and Delete remove the entry of their pod in their own transaction. An entry that is
// saved while its pod is being bound may outlive it; the next leader finds it in
// LoadEntries without a pending pod and removes it.
func (s *Store) SaveEntries(ctx context.Context, f lease.Fence, put map[types.UID]*pb.QueueEntry, del []types.UID) error {
	ws := make([]write, 0, len(put)+len(del))
	for uid, entry := range put {
		if uid == "" {
			return fmt.Errorf("queue entry of pod %s has no uid", entry.GetPod())
		}
		raw, err := proto.Marshal(entry)
		if err != nil {
			return fmt.Errorf("queue entry of pod %s: %w", entry.GetPod(), err)
		}
		if raw == nil {
			raw = []byte{} // nil deletes
		}
		ws = append(ws, write{key: s.keys.entry(uid), value: raw, seen: blind})
	}
	seen := make(map[types.UID]bool, len(del))
	for _, uid := range del {
		if _, also := put[uid]; also || seen[uid] || uid == "" {
			continue
		}
		seen[uid] = true
		ws = append(ws, write{key: s.keys.entry(uid), seen: blind})
	}
	for _, o := range s.commitAll(ctx, opJournal, f, ws) {
		if o.err != nil {
			return fmt.Errorf("save %d queue entries: %w", len(ws), o.err)
		}
	}
	return nil
}

// LoadEntries reads the queue journal. It may hold entries of pods that are bound or
// gone (see SaveEntries); hand those to SaveEntries to be removed. The journal only
// advises: an entry that can not be read is logged and left out.
func (s *Store) LoadEntries(ctx context.Context) (map[types.UID]*pb.QueueEntry, error) {
	entries := map[types.UID]*pb.QueueEntry{}
	_, err := s.scan(ctx, s.keys.queue, func(kv *mvccpb.KeyValue) error {
		entry := &pb.QueueEntry{}
		err := proto.Unmarshal(kv.Value, entry)
		if err == nil {
			err = entry.Validate()
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Queue entry is left out", "key", string(kv.Key))
			return nil
		}
		entries[types.UID(strings.TrimPrefix(string(kv.Key), s.keys.queue))] = entry
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load the queue journal: %w", err)
	}
	return entries, nil
}
