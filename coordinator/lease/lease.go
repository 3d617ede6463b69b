package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// ErrDeposed says that this process does not lead, or can not be sure that it does.
var ErrDeposed = errors.New("deposed: this coordinator no longer leads")

// errLapsed says that the own lease ended while waiting for the turn.
var errLapsed = errors.New("the lease lapsed before it was this contender's turn")

const (
	// DefaultTTL is the leader lease's time to live.
	DefaultTTL = 15 * time.Second
	// MinTTL is the shortest that etcd grants with its default heartbeat.
	MinTTL = 2 * time.Second
	// campaignRetry is how long a contender waits after etcd refused or failed.
	campaignRetry = time.Second
	// askTimeout bounds how long etcd may take to tell whether a term goes on.
	askTimeout = 2 * time.Second
	// revokeTimeout bounds the farewell of a contender that gives up.
	revokeTimeout = 2 * time.Second
)

// TTLWithin is the longest that is no longer than d and that etcd grants; 0: DefaultTTL. Upstream takes any duration.
func TTLWithin(d time.Duration) time.Duration {
	if d == 0 {
		return DefaultTTL
	}
	return max(d.Truncate(time.Second), MinTTL)
}

// Config tells how to take part in an election.
type Config struct {
	Client  *clientv3.Client
	Cluster string
	// Record tells followers and clients who leads.
	Record *pb.LeaderRecord
	// TTL is how long a leader that went silent keeps the others out; whole seconds, at
	// least 2; 0: DefaultTTL.
	TTL time.Duration
	// Clock is read for deadlines and waited on between renewals; nil: the real one.
	Clock clock.Clock
}

// Elector takes part in the election of one cluster's leader.
type Elector struct {
	cfg    Config
	prefix string
	value  string
}

// New checks the configuration. It does not talk to etcd yet.
func New(cfg Config) (*Elector, error) {
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	switch {
	case cfg.Client == nil:
		return nil, errors.New("leader election: no etcd client given")
	case cfg.Cluster == "" || strings.Contains(cfg.Cluster, "/"):
		return nil, fmt.Errorf("leader election: cluster name %q is empty or has a slash", cfg.Cluster)
	case cfg.TTL < MinTTL || cfg.TTL%time.Second != 0:
		return nil, fmt.Errorf("leader election: lease of %v: want whole seconds, at least %v", cfg.TTL, MinTTL)
	}
	value, err := proto.Marshal(cfg.Record)
	if err != nil {
		return nil, fmt.Errorf("leader election: leader record: %w", err)
	}
	return &Elector{cfg: cfg, prefix: Prefix(cfg.Cluster), value: string(value)}, nil
}

// Prefix is where the contenders of a cluster put their keys.
func Prefix(cluster string) string { return "/shardsched/" + cluster + "/leader/" }

// Campaign returns when this process leads, or when ctx ends. While etcd can not be reached
// it keeps trying. The leadership outlives ctx: it ends with Resign, or when it is lost.
func (e *Elector) Campaign(ctx context.Context) (*Leadership, error) {
	for {
		l, err := e.contend(ctx)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("campaign for %s: %w", e.prefix, ctx.Err())
		}
		if !transient(err) {
			return nil, fmt.Errorf("campaign for %s: %w", e.prefix, err)
		}
		klog.FromContext(ctx).Info("Campaign goes on", "prefix", e.prefix, "cause", err.Error())
		select {
		case <-e.cfg.Clock.After(campaignRetry):
		case <-ctx.Done():
		}
	}
}

// contend takes a lease, puts the key and waits for the turn.
func (e *Elector) contend(ctx context.Context) (*Leadership, error) {
	l, err := e.enter(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.waitTurn(ctx); err != nil {
		l.farewell(ctx)
		return nil, err
	}
	l.start(l.guardKey)
	return l, nil
}

// enter puts this contender's key; the lease is kept alive from here on.
func (e *Elector) enter(ctx context.Context) (*Leadership, error) {
	sent := e.cfg.Clock.Now()
	granted, err := e.cfg.Client.Grant(ctx, int64(e.cfg.TTL/time.Second))
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	l := newLeadership(ctx, e, granted.ID, time.Duration(granted.TTL)*time.Second, sent)
	put, err := e.cfg.Client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(l.key), "=", 0)).
		Then(clientv3.OpPut(l.key, e.value, clientv3.WithLease(granted.ID))).
		Commit()
	if err == nil && !put.Succeeded {
		err = fmt.Errorf("key %s is there already", l.key)
	}
	if err != nil {
		l.farewell(ctx)
		return nil, fmt.Errorf("leader key: %w", err)
	}
	l.term = put.Header.Revision
	l.start(l.renew)
	l.start(l.expire)
	return l, nil
}

// transient tells whether trying again may help.
func transient(err error) bool {
	if errors.Is(err, errLapsed) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch codeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.ResourceExhausted:
		return true
	}
	return false
}

// codeOf finds the gRPC code in an error of etcd's client, which has types of its own.
func codeOf(err error) codes.Code {
	var etcd rpctypes.EtcdError
	if errors.As(err, &etcd) {
		return etcd.Code()
	}
	return status.Code(err)
}
