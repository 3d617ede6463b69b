package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// A lease is renewed renewals times in its TTL, and tried again sooner after a
	// renewal that failed.
	renewals     = 3
	retriesOfTTL = 20
)

// Leadership is one term of one leader.
type Leadership struct {
	client   *clientv3.Client
	clock    clock.Clock
	logger   klog.Logger
	prefix   string
	key      string
	id       clientv3.LeaseID
	ttl      time.Duration
	term     int64            // create revision of key; set before any goroutine starts
	before   *pb.LeaderRecord // set before Campaign returns
	done     chan struct{}
	ctx      context.Context // of the goroutines; ends when the leadership is lost
	cancel   context.CancelFunc
	running  sync.WaitGroup
	mu       sync.Mutex
	deadline time.Time // guarded by mu
	lost     error     // guarded by mu; nil as long as it leads
}

func newLeadership(ctx context.Context, e *Elector, id clientv3.LeaseID, ttl time.Duration, sent time.Time) *Leadership {
	l := &Leadership{
		client:   e.cfg.Client,
		clock:    e.cfg.Clock,
		prefix:   e.prefix,
		key:      fmt.Sprintf("%s%x", e.prefix, int64(id)),
		id:       id,
		ttl:      ttl,
		done:     make(chan struct{}),
		deadline: sent.Add(ttl),
	}
	l.logger = klog.FromContext(ctx).WithValues("leaderKey", l.key)
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// Term is the fencing number: the etcd revision at which the leader's key was made.
func (l *Leadership) Term() uint64 { return uint64(l.term) }

// Before is the coordinator whose end this term's leader has waited for; nil: it has waited for none.
func (l *Leadership) Before() *pb.LeaderRecord { return l.before }

// Check returns an error that wraps ErrDeposed once the lease may have run out. Call it
// right before every write.
func (l *Leadership) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		if late := l.clock.Now().Sub(l.deadline); late >= 0 {
			l.loseLocked(fmt.Sprintf("the lease ran out %v ago", late))
		}
	}
	return l.lost
}

// Done is closed when the leadership is lost or given up.
func (l *Leadership) Done() <-chan struct{} { return l.done }

// Compare holds in etcd as long as this term lasts. It goes into every write.
func (l *Leadership) Compare() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(l.key), "=", l.term)
}

// Leads asks etcd whether this term goes on: somebody claims that it does not. An error says that etcd can not
// tell.
func (l *Leadership) Leads(ctx context.Context) (bool, error) {
	if l.Check() != nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	resp, err := l.client.Txn(ctx).If(l.Compare()).Commit()
	if err != nil {
		return false, fmt.Errorf("leader key %s: %w", l.key, err)
	}
	return resp.Succeeded, nil
}

// resigned is the cause of an end that this process wants.
const resigned = "resigned"

// Resign gives the leadership up, so that another may lead at once. Check fails from the
// moment of the call. It is right to call it after a loss too: it takes the key away that
// etcd may still hold.
func (l *Leadership) Resign(ctx context.Context) error {
	l.lose(resigned)
	l.running.Wait()
	_, err := l.client.Revoke(ctx, l.id)
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke the lease of %s: %w", l.key, err)
	}
	return nil
}

// farewell resigns within bounds; where that fails the key goes when the lease expires.
func (l *Leadership) farewell(ctx context.Context) {
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	if err := l.Resign(bye); err != nil {
		l.logger.Info("The lease is left to expire", "cause", err.Error())
	}
}

func (l *Leadership) lose(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loseLocked(why)
}

func (l *Leadership) loseLocked(why string) {
	if l.lost != nil {
		return
	}
	l.lost = fmt.Errorf("%w: term %d: %s", ErrDeposed, l.term, why)
	log := l.logger
	if why == resigned { // whoever resigns has told why
		log = log.V(2)
	}
	log.Info("Leader lease ended", "term", l.term, "cause", why)
	l.cancel()
	close(l.done)
}

func (l *Leadership) start(f func()) { l.running.Go(f) }

// renew keeps the lease alive until the leadership is lost.
func (l *Leadership) renew() {
	interval := l.ttl / renewals
	for wait := interval; l.wait(wait); {
		sent := l.clock.Now()
		ttl, err := l.keepAlive(interval)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			l.lose("etcd no longer has the lease")
		case err != nil:
			l.logger.Info("Renewal of the leader lease goes on", "cause", err.Error())
			wait = l.ttl / retriesOfTTL
		default:
			l.extend(sent.Add(ttl))
			wait = interval
		}
	}
}

// keepAlive renews the lease once and returns the TTL that etcd granted. The client's own
// KeepAliveOnce tries in a tight loop while etcd is away.
func (l *Leadership) keepAlive(limit time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(l.ctx, limit)
	defer cancel()
	stream, err := etcdserverpb.NewLeaseClient(l.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(l.id)}); err != nil {
		return 0, rpctypes.Error(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	if resp.TTL <= 0 {
		return 0, rpctypes.ErrLeaseNotFound
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// extend moves the deadline, which never goes back.
func (l *Leadership) extend(deadline time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if deadline.After(l.deadline) {
		l.deadline = deadline
	}
}

// expire closes Done when the deadline passes, whether or not anybody asks Check.
func (l *Leadership) expire() {
	for l.Check() == nil {
		l.mu.Lock()
		left := l.deadline.Sub(l.clock.Now())
		l.mu.Unlock()
		if left > 0 {
			l.wait(left)
		}
	}
}

// wait returns false when the leadership is lost.
func (l *Leadership) wait(d time.Duration) bool {
	timer := l.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-l.done:
		return false
	}
}

// waitTurn returns when no contender came before this one.
func (l *Leadership) waitTurn(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		state, err := l.client.Txn(ctx).Then(
			clientv3.OpGet(l.key, clientv3.WithCountOnly()),
			clientv3.OpGet(l.prefix, append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(l.term-1))...),
		).Commit()
		if err != nil {
			return fmt.Errorf("contenders of %s: %w", l.prefix, err)
		}
		if state.Responses[0].GetResponseRange().Count == 0 {
			l.lose("the leader key is gone")
			return errLapsed
		}
		before := state.Responses[1].GetResponseRange().Kvs
		if len(before) == 0 {
			return nil
		}
		if err := l.waitDeleted(ctx, string(before[0].Key), state.Header.Revision); err != nil {
			return err
		}
		l.before = &pb.LeaderRecord{}
		if err := proto.Unmarshal(before[0].Value, l.before); err != nil {
			l.logger.Error(err, "The record of the contender before can not be read", "key", string(before[0].Key))
		}
	}
}

// waitDeleted returns nil when the key is deleted after the revision, or may have been.
func (l *Leadership) waitDeleted(ctx context.Context, key string, after int64) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	watch := l.client.Watch(ctx, key, clientv3.WithRev(after+1), clientv3.WithFilterPut())
	for {
		select {
		case resp, open := <-watch:
			if !open || resp.Canceled {
				return ctx.Err()
			}
			if len(resp.Events) > 0 {
				return nil
			}
		case <-l.done:
			return errLapsed
		}
	}
}

// guardKey notices when somebody deletes the leader's key while the lease lives on.
func (l *Leadership) guardKey() {
	for after := l.term; l.ctx.Err() == nil; {
		rev, err := l.watchKey(after)
		after = max(after, rev)
		if l.ctx.Err() == nil {
			l.logger.Info("Watch of the leader key goes on", "cause", fmt.Sprint(err))
			l.wait(l.ttl / retriesOfTTL)
		}
	}
}

// watchKey follows the leader's key and returns how far it came when the watch breaks.
func (l *Leadership) watchKey(after int64) (int64, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(l.ctx))
	defer cancel()
	for resp := range l.client.Watch(ctx, l.key, clientv3.WithRev(after+1)) {
		if resp.CompactRevision > 0 {
			return resp.CompactRevision - 1, l.confirmKey(ctx)
		}
		if err := resp.Err(); err != nil {
			return after, err
		}
		for _, ev := range resp.Events {
			after = ev.Kv.ModRevision
			if ev.Type == mvccpb.DELETE {
				l.lose("the leader key was deleted")
			}
		}
	}
	return after, nil
}

// confirmKey reads the leader's key where its history is no longer there to be watched.
func (l *Leadership) confirmKey(ctx context.Context) error {
	resp, err := l.client.Txn(ctx).If(l.Compare()).Commit()
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		l.lose("the leader key was deleted")
	}
	return nil
}
