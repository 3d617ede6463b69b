package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

const (
	// watchRetry is the pause between two attempts to reach etcd.
	watchRetry = 500 * time.Millisecond
	// maxMembers is how many workers a cluster may have. Those that are there longest are looked at: whoever may
	// write registrations may write any number.
	maxMembers = 1024
)

// errLeftOut means that there is room again for workers that were left out.
var errLeftOut = errors.New("one of too many workers has left")

// WatchMembers calls fn with the registered workers of a cluster, at most 1,024, sorted by id:
// once at the start, and after every change. It returns ctx's error when ctx
// ends, and until then rides out an etcd that is out of reach: fn keeps what it
// was told last. A value that can not be decoded is logged and left out.
func WatchMembers(ctx context.Context, client *clientv3.Client, cluster string, fn func([]Member)) error {
	prefix := "/shardsched/" + cluster + "/workers/"
	for {
		err := watchOnce(ctx, client, prefix, fn)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		klog.FromContext(ctx).Error(err, "Watch of the workers broke, starting again", "prefix", prefix)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchRetry):
		}
	}
}

// watchOnce lists the members and follows the changes until the watch breaks.
func watchOnce(ctx context.Context, client *clientv3.Client, prefix string, fn func([]Member)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	list, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithLimit(maxMembers),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	members := make(map[string]Member, len(list.Kvs))
	for _, kv := range list.Kvs {
		put(ctx, members, prefix, kv)
	}
	full := list.More
	if full {
		klog.FromContext(ctx).Error(nil, "There are too many workers, the others are left out", "workers", list.Count, "max", maxMembers)
	}
	fn(sorted(members))
	changes := client.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(list.Header.Revision+1))
	for change := range changes {
		if err := change.Err(); err != nil {
			return fmt.Errorf("watch %s: %w", prefix, err)
		}
		for _, e := range change.Events {
			_, known := members[string(e.Kv.Key)]
			switch {
			case e.Type == mvccpb.DELETE && known && full:
				return errLeftOut
			case e.Type == mvccpb.DELETE:
				delete(members, string(e.Kv.Key))
				continue
			case !known && len(members) >= maxMembers:
				full = true
				continue
			}
			put(ctx, members, prefix, e.Kv)
		}
		if len(change.Events) > 0 {
			fn(sorted(members))
		}
	}
	return fmt.Errorf("watch %s: %w", prefix, errors.New("ended"))
}

// put decodes one registration into members, which is keyed by etcd key.
func put(ctx context.Context, members map[string]Member, prefix string, kv *mvccpb.KeyValue) {
	m, err := decodeMember(strings.TrimPrefix(string(kv.Key), prefix), kv.Value)
	if err != nil {
		delete(members, string(kv.Key))
		klog.FromContext(ctx).Error(err, "A worker's registration is left out", "key", string(kv.Key))
		return
	}
	members[string(kv.Key)] = m
}

// decodeMember reads the value of the key that ends in id.
func decodeMember(id string, value []byte) (Member, error) {
	var r pb.WorkerRegistration
	if err := proto.Unmarshal(value, &r); err != nil {
		return Member{}, fmt.Errorf("decode registration of worker %s: %w", id, err)
	}
	if err := r.Validate(); err != nil {
		return Member{}, fmt.Errorf("registration of worker %s: %w", id, err)
	}
	if r.GetId() != id {
		return Member{}, fmt.Errorf("registration of worker %s: it names worker %s", id, r.GetId())
	}
	return Member{
		ID: id, Address: r.GetAddress(), Cores: r.GetCores(), Version: r.GetVersion(), OtherRules: r.GetRules() != scan.Rules(),
	}, nil
}

// sorted lists members by id.
func sorted(members map[string]Member) []Member {
	return slices.SortedFunc(maps.Values(members), func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
}
