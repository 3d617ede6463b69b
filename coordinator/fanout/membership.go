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
	// maxRegistrationBytes is how long key and value of a registration may be: more than those of a valid one are.
	maxRegistrationBytes = 16 << 10
	// keysAtOnce and valuesAtOnce are how many one answer of etcd has: of 1.5 MiB each at the most.
	keysAtOnce, valuesAtOnce = 64, 16
	// tellAtOnce and tellEvery are how often changes are told: each has the shards shared out anew on the scheduling
	// loop.
	tellAtOnce = 16
	tellEvery  = time.Second
)

// errLeftOut means that there is room again for workers that were left out.
var errLeftOut = errors.New("one of too many workers has left")

// WatchMembers calls fn with the registered workers of a cluster, at most 1,024, sorted by id:
// once at the start, and after every change, or after several where many follow each other: 16 at once, and then
// once a second. It returns ctx's error when ctx
// ends, and until then rides out an etcd that is out of reach: fn keeps what it
// was told last. A value that can not be decoded, or is too large, is logged and left out.
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
	r := registrations{prefix: prefix, members: map[string]Member{}}
	revision, err := r.list(ctx, client)
	if err != nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	fn(sorted(r.members))
	changes := client.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	var due <-chan time.Time // nil: all is told
	for {
		select {
		case change, open := <-changes:
			if !open {
				return fmt.Errorf("watch %s: %w", prefix, errors.New("ended"))
			}
			if err := change.Err(); err != nil {
				return fmt.Errorf("watch %s: %w", prefix, err)
			}
			if err := r.change(ctx, change.Events); err != nil {
				return err
			}
			if len(change.Events) > 0 && due == nil {
				due = time.After(r.wait(time.Now()))
			}
		case <-due:
			due = nil
			fn(sorted(r.members))
		}
	}
}

// registrations are those of a cluster.
type registrations struct {
	prefix  string
	members map[string]Member // by etcd key
	full    bool              // some are left out, for there are too many
	paid    time.Time         // until when what was told of changes is paid for, at one each tellEvery
	// leftOut counts those left out since the log told of one, at told.
	leftOut int
	told    time.Time
}

// change takes changes in.
func (r *registrations) change(ctx context.Context, events []*clientv3.Event) error {
	for _, e := range events {
		_, known := r.members[string(e.Kv.Key)]
		switch {
		case e.Type == mvccpb.DELETE && known && r.full:
			return errLeftOut
		case e.Type == mvccpb.DELETE:
			delete(r.members, string(e.Kv.Key))
			continue
		case !known && len(r.members) >= maxMembers:
			r.full = true
			continue
		}
		r.put(ctx, e.Kv)
	}
	return nil
}

// wait is how long it has to be until the next change is told.
func (r *registrations) wait(now time.Time) time.Duration {
	if credit := now.Add(-tellAtOnce * tellEvery); r.paid.Before(credit) {
		r.paid = credit
	}
	r.paid = r.paid.Add(tellEvery)
	return max(r.paid.Sub(now), 0)
}

// list reads those that are there longest, as of the revision that it gives. Values are read last and a few at a time,
// for all may be as large as etcd takes them.
func (r *registrations) list(ctx context.Context, client *clientv3.Client) (revision int64, err error) {
	var keys []*mvccpb.KeyValue
	for from, end := r.prefix, clientv3.GetPrefixRangeEnd(r.prefix); ; {
		page, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(keysAtOnce),
			clientv3.WithRev(revision))
		if err != nil {
			return 0, err
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		keys = r.longestThere(ctx, append(keys, page.Kvs...))
		if !page.More {
			break
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
	if r.full {
		klog.FromContext(ctx).Error(nil, "There are too many workers, the others are left out", "max", maxMembers)
	}
	for some := range slices.Chunk(keys, valuesAtOnce) {
		var gets []clientv3.Op
		for _, kv := range some {
			gets = append(gets, clientv3.OpGet(string(kv.Key), clientv3.WithRev(revision)))
		}
		values, err := client.Txn(ctx).Then(gets...).Commit()
		if err != nil {
			return 0, err
		}
		for _, v := range values.Responses {
			for _, kv := range v.GetResponseRange().Kvs {
				r.put(ctx, kv)
			}
		}
	}
	return revision, nil
}

// longestThere leaves keys out that are too long, and those created last of too many.
func (r *registrations) longestThere(ctx context.Context, keys []*mvccpb.KeyValue) []*mvccpb.KeyValue {
	keys = slices.DeleteFunc(keys, func(kv *mvccpb.KeyValue) bool {
		err := bounded(kv)
		if err != nil {
			r.tell(ctx, kv, err)
		}
		return err != nil
	})
	slices.SortStableFunc(keys, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	if len(keys) > maxMembers {
		r.full = true
		keys = slices.Delete(keys, maxMembers, len(keys))
	}
	return keys
}

// bounded refuses what is too large for a registration, before anybody decodes it.
func bounded(kv *mvccpb.KeyValue) error {
	if n := len(kv.Key) + len(kv.Value); n > maxRegistrationBytes {
		return fmt.Errorf("its key and value have %d bytes, more than %d", n, maxRegistrationBytes)
	}
	return nil
}

// put takes one registration in, or leaves it out.
func (r *registrations) put(ctx context.Context, kv *mvccpb.KeyValue) {
	err := bounded(kv)
	var m Member
	if err == nil {
		m, err = decodeMember(strings.TrimPrefix(string(kv.Key), r.prefix), kv.Value)
	}
	if err != nil {
		delete(r.members, string(kv.Key))
		r.tell(ctx, kv, err)
		return
	}
	r.members[string(kv.Key)] = m
}

// tell has the log tell of a registration that is left out, a line a second: whoever may write one may write many.
func (r *registrations) tell(ctx context.Context, kv *mvccpb.KeyValue, err error) {
	r.leftOut++
	if time.Since(r.told) < time.Second {
		return
	}
	klog.FromContext(ctx).Error(err, "A worker's registration is left out",
		"key", string(kv.Key[:min(len(kv.Key), 256)]), "leftOut", r.leftOut)
	r.leftOut, r.told = 0, time.Now()
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
