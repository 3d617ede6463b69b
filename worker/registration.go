package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// What a RegistrationConfig leaves out, and the pace of trying again.
const (
	DefaultRegistrationTTL = 10 * time.Second
	minRetry               = 100 * time.Millisecond
	maxRetry               = 5 * time.Second
)

// RegistrationConfig says what to keep where.
type RegistrationConfig struct {
	Client  *clientv3.Client
	Cluster string
	// Member is what Server.Member returns.
	Member *pb.WorkerRegistration
	// TTL is how long after the worker's last sign of life the key goes away, in
	// whole seconds; 0: DefaultRegistrationTTL.
	TTL time.Duration
	// Clock paces the attempts; nil: the real one.
	Clock clock.Clock
}

// Registration keeps a worker's key in etcd, under a lease of its own:
//
//	/shardsched/<cluster>/workers/<id> = pb.WorkerRegistration
type Registration struct {
	cfg        RegistrationConfig
	registered chan struct{}
}

// NewRegistration makes a registration that does nothing before Run.
func NewRegistration(cfg RegistrationConfig) *Registration {
	if cfg.TTL <= 0 {
		cfg.TTL = DefaultRegistrationTTL
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Registration{cfg: cfg, registered: make(chan struct{})}
}

// Key is the worker's key.
func (r *Registration) Key() string {
	return "/shardsched/" + r.cfg.Cluster + "/workers/" + r.cfg.Member.GetId()
}

// Registered is closed once the key has been there for the first time.
func (r *Registration) Registered() <-chan struct{} { return r.registered }

// Run keeps the key until ctx ends and then takes it away. A lost lease or an
// etcd out of reach is tried again for ever. It errs only if the value can not be
// encoded or the key could not be taken away; then the lease takes it.
func (r *Registration) Run(ctx context.Context) error {
	value, err := proto.Marshal(r.cfg.Member)
	if err != nil {
		return fmt.Errorf("encode registration of worker %s: %w", r.cfg.Member.GetId(), err)
	}
	logger := klog.FromContext(ctx)
	retry := minRetry
	for {
		lease, err := r.register(ctx, string(value))
		if err == nil {
			logger.V(2).Info("Registered", "key", r.Key(), "lease", int64(lease))
			retry = minRetry
			err = r.keep(ctx, lease)
		}
		if ctx.Err() != nil {
			return r.deregister(ctx, lease)
		}
		logger.Error(err, r.trouble(), "key", r.Key(), "after", retry)
		select {
		case <-ctx.Done():
			return r.deregister(ctx, lease)
		case <-r.cfg.Clock.After(retry):
		}
		retry = min(2*retry, maxRetry)
	}
}

// trouble words an attempt that ended: before the first success nothing is gone.
func (r *Registration) trouble() string {
	select {
	case <-r.registered:
		return "Registration is gone, registering again"
	default:
		return "Cannot register yet, trying again"
	}
}

// register puts the key under a new lease, which it returns also with an error
// if it has one.
func (r *Registration) register(ctx context.Context, value string) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.TTL)
	defer cancel()
	grant, err := r.cfg.Client.Grant(ctx, int64(max(r.cfg.TTL/time.Second, 1)))
	if err != nil {
		return clientv3.NoLease, fmt.Errorf("grant lease for %s: %w", r.Key(), err)
	}
	if _, err := r.cfg.Client.Put(ctx, r.Key(), value, clientv3.WithLease(grant.ID)); err != nil {
		return grant.ID, fmt.Errorf("put %s: %w", r.Key(), err)
	}
	select {
	case <-r.registered:
	default:
		close(r.registered)
	}
	return grant.ID, nil
}

// keep renews the lease until it is lost or ctx ends.
func (r *Registration) keep(ctx context.Context, lease clientv3.LeaseID) error {
	renewals, err := r.cfg.Client.KeepAlive(ctx, lease)
	if err != nil {
		return fmt.Errorf("keep lease of %s: %w", r.Key(), err)
	}
	for range renewals {
		// Each element is one renewal; the channel closes with the lease.
	}
	return fmt.Errorf("keep lease of %s: lost", r.Key())
}

// deregister revokes the lease, and the key with it. ctx has ended; only its
// values count.
func (r *Registration) deregister(ctx context.Context, lease clientv3.LeaseID) error {
	if lease == clientv3.NoLease {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(r.cfg.TTL, maxRetry))
	defer cancel()
	if _, err := r.cfg.Client.Revoke(ctx, lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("deregister %s: %w", r.Key(), err)
	}
	klog.FromContext(ctx).V(2).Info("Deregistered", "key", r.Key())
	return nil
}
