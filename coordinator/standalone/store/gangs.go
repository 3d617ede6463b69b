package store

import (
	"context"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/lease"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// SaveGangs writes and deletes parts of commits of pod groups, by key. With an error, some may be saved and others not.
func (s *Store) SaveGangs(ctx context.Context, f lease.Fence, put map[string]*pb.GangCommit, del []string) error {
	ws := make([]write, 0, len(put)+len(del))
	for key, part := range put {
		raw, err := proto.Marshal(part)
		if err == nil {
			err = part.Validate()
		}
		if err != nil {
			return fmt.Errorf("commit of pod group %s: %w", part.GetPodGroup(), err)
		}
		ws = append(ws, write{key: s.keys.gangs + key, value: raw, seen: blind})
	}
	for _, key := range del {
		ws = append(ws, write{key: s.keys.gangs + key, seen: blind})
	}
	for _, o := range s.commitAll(ctx, opJournal, f, ws) {
		if o.err != nil {
			return fmt.Errorf("save %d parts of commits: %w", len(ws), o.err)
		}
	}
	return nil
}

// LoadGangs reads the parts of commits of pod groups, by key. One that can not be read is logged, and nil: it is to be deleted.
func (s *Store) LoadGangs(ctx context.Context) (map[string]*pb.GangCommit, error) {
	parts := map[string]*pb.GangCommit{}
	_, err := s.scan(ctx, s.keys.gangs, func(kv *mvccpb.KeyValue) error {
		key, part := strings.TrimPrefix(string(kv.Key), s.keys.gangs), &pb.GangCommit{}
		err := proto.Unmarshal(kv.Value, part)
		if err == nil {
			err = part.Validate()
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Part of a commit is left out", "key", string(kv.Key))
			part = nil
		}
		parts[key] = part
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load commits of pod groups: %w", err)
	}
	return parts, nil
}
