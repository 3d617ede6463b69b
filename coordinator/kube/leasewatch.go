package kube

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

// awaitFree returns when nobody holds the Lease, as far as this process can see: it was not
// made yet, was given up, is ours to take, or its holder was silent for as long as it promised
// to be at the most. Whether that is so the write that takes it decides. Where reads fail for as
// long as a holder's renewals may, it returns an error.
//
// Differs from upstream: client-go's elector asks now and then.
func (l *Lease) awaitFree(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := make(chan *coordinationv1.Lease)
	ended := make(chan struct{})
	var mute error // set before ended is closed
	go func() {
		defer close(ended)
		mute = l.follow(ctx, l.cfg.RenewDeadline, func(lease *coordinationv1.Lease) {
			select {
			case seen <- lease:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { cancel(); <-ended }()

	expiry := l.cfg.Clock.NewTimer(time.Hour)
	defer expiry.Stop()
	var last *coordinationv1.Lease
	for {
		select {
		case lease := <-seen:
			if lease == nil || holderOf(lease) == "" || holderOf(lease) == l.cfg.Identity || l.cfg.Ours(holderOf(lease)) {
				return nil
			}
			if last == nil || !equality.Semantic.DeepEqual(last.Spec, lease.Spec) {
				expiry.Stop()
				expiry = l.cfg.Clock.NewTimer(durationOf(lease))
			}
			if last == nil || holderOf(last) != holderOf(lease) {
				klog.FromContext(ctx).Info("Stands by while another holds the Lease", "lease", l.lock.Describe(), "holder", holderOf(lease))
				l.cfg.StandsBy(l.lock.Describe(), holderOf(lease))
			}
			last = lease
		case <-expiry.C():
			if last != nil {
				l.lock.expired = last.ResourceVersion
				return nil
			}
			expiry = l.cfg.Clock.NewTimer(time.Hour)
		case <-ended:
			return cmp.Or(ctx.Err(), mute)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func durationOf(lease *coordinationv1.Lease) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}

// guard notices at once when the Lease is another's while it is held.
//
// Differs from upstream: its holder finds out with its next renewal, and goes on meanwhile and
// until its renew deadline has passed.
func (l *Lease) guard(ctx context.Context) {
	_ = l.follow(ctx, 0, func(lease *coordinationv1.Lease) {
		if lease == nil {
			l.lose("somebody deleted it")
			return
		}
		_ = l.saw(holderOf(lease))
	})
}

// saw takes in who holds the Lease, as read after it was acquired or before that.
func (l *Lease) saw(holder string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held && holder != l.cfg.Identity {
		l.loseLocked(fmt.Sprintf("it is held by %q", holder))
	}
	return l.lost
}

// follow tells fn of the Lease as it is and of every change, nil where there is none, until
// ctx ends, or nothing could be read for as long as patience (0: for ever). Where it can't be watched it is read
// now and then.
func (l *Lease) follow(ctx context.Context, patience time.Duration, fn func(*coordinationv1.Lease)) error {
	var failing time.Time // since when reads fail; zero: they don't
	for {
		err := l.followOnce(ctx, func(lease *coordinationv1.Lease) {
			failing = time.Time{}
			fn(lease)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		now := l.cfg.Clock.Now()
		if failing.IsZero() {
			failing = now
		}
		if patience > 0 && err != nil && now.Sub(failing) >= patience {
			return fmt.Errorf("%w for %v: %w", ErrOutOfReach, now.Sub(failing).Round(time.Millisecond), err)
		}
		klog.FromContext(ctx).V(2).Info("Watch of the Lease goes on", "lease", l.lock.Describe(), "cause", fmt.Sprint(err))
		timer := l.cfg.Clock.NewTimer(l.cfg.RetryPeriod)
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (l *Lease) followOnce(ctx context.Context, fn func(*coordinationv1.Lease)) error {
	client := l.cfg.Client.Leases(l.cfg.Namespace)
	read, cancel := l.lock.bounded(ctx)
	defer cancel()
	lease, err := client.Get(read, l.cfg.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		fn(nil)
		return err
	}
	if err != nil {
		return err
	}
	fn(lease)
	// The bare name is what upstream's role allows to be watched.
	w, err := client.Watch(ctx, metav1.ListOptions{
		ResourceVersion: lease.ResourceVersion,
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, l.cfg.Name).String(),
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if lease, ok := e.Object.(*coordinationv1.Lease); !ok {
				return apierrors.FromObject(e.Object)
			} else if e.Type == watch.Deleted {
				fn(nil)
			} else {
				fn(lease)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
