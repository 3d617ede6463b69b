package store

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/lease"
)

// SaveHistory writes parts of the history, by slot. With an error, some may be saved and others not.
func (s *Store) SaveHistory(ctx context.Context, f lease.Fence, put map[int][]byte) error {
	ws := make([]write, 0, len(put))
	for slot, part := range put {
		ws = append(ws, write{key: s.keys.slot(slot), value: part, seen: blind})
	}
	for _, o := range s.commitAll(ctx, opHistory, f, ws) {
		if o.err != nil {
			return fmt.Errorf("save %d parts of the history: %w", len(ws), o.err)
		}
	}
	return nil
}

// LoadHistory reads the parts of the history with their slots, that which was written last as the last: of those that were
// written together, the one of the highest slot.
func (s *Store) LoadHistory(ctx context.Context) (iter.Seq2[int, []byte], error) {
	type part struct {
		slot int
		*mvccpb.KeyValue
	}
	var all []part // by slot
	_, err := s.scan(ctx, s.keys.history, func(kv *mvccpb.KeyValue) error {
		slot, err := strconv.Atoi(strings.TrimPrefix(string(kv.Key), s.keys.history))
		if err != nil {
			klog.FromContext(ctx).Error(err, "Part of the history is left out", "key", string(kv.Key))
			return nil
		}
		all = append(all, part{slot, kv})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load the history: %w", err)
	}
	slices.SortStableFunc(all, func(a, b part) int { return cmp.Compare(a.ModRevision, b.ModRevision) })
	return func(yield func(int, []byte) bool) {
		for _, p := range all {
			if !yield(p.slot, p.Value) {
				return
			}
		}
	}, nil
}
