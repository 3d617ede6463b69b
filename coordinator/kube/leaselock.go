package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errNotRead says that the Lease was to be written before it was read.
var errNotRead = errors.New("the lease was not read yet")

// leaseLock is the Lease as client-go's elector sees it: free also where nobody holds it any
// more, and out of reach as soon as it is lost. Only the elector's goroutine uses it, and, when
// that has ended, Release.
type leaseLock struct {
	l *Lease
	// read is the Lease as the API server last told.
	read *coordinationv1.Lease
	// expired is the version of the Lease whose holder was silent for its whole duration.
	expired string
}

var _ resourcelock.Interface = (*leaseLock)(nil)

func (k *leaseLock) client() coordinationclient.LeaseInterface {
	return k.l.cfg.Client.Leases(k.l.cfg.Namespace)
}

// bounded keeps a request that hangs from using up the time in which the Lease has to be
// renewed.
func (k *leaseLock) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(k.l.cfg.RenewDeadline/2, time.Second))
}

// Get is part of resourcelock.Interface.
func (k *leaseLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := k.l.Check(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	lease, err := k.client().Get(ctx, k.l.cfg.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	k.read = lease
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	if err := k.l.saw(record.HolderIdentity); err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, nil, fmt.Errorf("record of lease %s: %w", k.Describe(), err)
	}
	if lease.ResourceVersion == k.expired || k.l.cfg.Ours(record.HolderIdentity) {
		record.HolderIdentity = ""
	}
	return record, raw, nil
}

// Create is part of resourcelock.Interface.
func (k *leaseLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return k.write(ctx, record, func(ctx context.Context) (*coordinationv1.Lease, error) {
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.l.cfg.Namespace, Name: k.l.cfg.Name},
			Spec:       resourcelock.LeaderElectionRecordToLeaseSpec(&record),
		}
		k.annotate(lease)
		return k.client().Create(ctx, lease, metav1.CreateOptions{})
	})
}

// Update is part of resourcelock.Interface. It succeeds only where the Lease is still as it was
// read, or written, last.
func (k *leaseLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return k.write(ctx, record, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return k.update(ctx, record)
	})
}

// write notes when a write was sent, and what that is worth.
func (k *leaseLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord,
	send func(context.Context) (*coordinationv1.Lease, error)) error {
	if err := k.l.Check(); err != nil {
		return err
	}
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	sent := k.l.cfg.Clock.Now()
	lease, err := send(ctx)
	if err != nil {
		return err
	}
	k.read = lease
	return k.l.renewed(lease, sent.Add(time.Duration(record.LeaseDurationSeconds)*time.Second))
}

func (k *leaseLock) update(ctx context.Context, record resourcelock.LeaderElectionRecord) (*coordinationv1.Lease, error) {
	if k.read == nil {
		return nil, errNotRead
	}
	lease := k.read.DeepCopy()
	lease.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	k.annotate(lease)
	return k.client().Update(ctx, lease, metav1.UpdateOptions{})
}

// release empties the Lease, unless somebody else has taken it. A renewal that was under way
// may come in between, so it tries again.
func (k *leaseLock) release(ctx context.Context) error {
	for {
		lease, err := k.client().Get(ctx, k.l.cfg.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		k.read = lease
		record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
		if record.HolderIdentity != k.Identity() {
			return nil
		}
		now := metav1.NewTime(k.l.cfg.Clock.Now())
		_, err = k.update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// RecordEvent is part of resourcelock.Interface. The elector's events are Announce's to
// tell.
func (k *leaseLock) RecordEvent(string) {}

// Identity is part of resourcelock.Interface.
func (k *leaseLock) Identity() string { return k.l.cfg.Identity }

// Describe is part of resourcelock.Interface.
func (k *leaseLock) Describe() string { return k.l.cfg.Namespace + "/" + k.l.cfg.Name }
