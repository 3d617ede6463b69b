package lease

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// observeRetry is how long an observer waits after etcd failed.
const observeRetry = time.Second

// Observe tells fn who leads, first now and then at every change; nil: nobody. It
// returns ctx's error when ctx ends; what etcd fails at meanwhile is tried again.
func Observe(ctx context.Context, client *clientv3.Client, cluster string, fn func(*pb.LeaderRecord)) error {
	o := observer{client: client, prefix: Prefix(cluster), fn: fn}
	for {
		err := o.follow(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("observe %s: %w", o.prefix, ctx.Err())
		}
		klog.FromContext(ctx).Info("Observation of the leader goes on", "prefix", o.prefix, "cause", fmt.Sprint(err))
		pause, cancel := context.WithTimeout(ctx, observeRetry)
		<-pause.Done()
		cancel()
	}
}

type observer struct {
	client *clientv3.Client
	prefix string
	fn     func(*pb.LeaderRecord)
	told   bool
	last   *pb.LeaderRecord
}

// follow reads the leader and again after each change, until the watch breaks.
func (o *observer) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	rev, err := o.read(ctx)
	if err != nil {
		return err
	}
	for resp := range o.client.Watch(ctx, o.prefix, clientv3.WithPrefix(), clientv3.WithRev(rev+1)) {
		if err := resp.Err(); err != nil {
			return err
		}
		if len(resp.Events) == 0 || resp.Header.Revision <= rev {
			continue
		}
		if rev, err = o.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// read tells fn of the leader where it is another than before.
func (o *observer) read(ctx context.Context) (revision int64, err error) {
	resp, err := o.client.Get(ctx, o.prefix, clientv3.WithFirstCreate()...)
	if err != nil {
		return 0, err
	}
	var leader *pb.LeaderRecord
	if len(resp.Kvs) > 0 {
		leader = &pb.LeaderRecord{}
		if err := proto.Unmarshal(resp.Kvs[0].Value, leader); err != nil {
			return 0, fmt.Errorf("leader record at %s: %w", resp.Kvs[0].Key, err)
		}
	}
	if !o.told || !proto.Equal(leader, o.last) {
		o.told, o.last = true, leader
		o.fn(leader)
	}
	return resp.Header.Revision, nil
}
