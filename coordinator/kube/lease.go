package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/coordinator/lease"
)

// LeaseConfig tells how to hold the Lease by which kube-schedulers elect their leader.
type LeaseConfig struct {
	// Client must not be one that the fence guards: the Lease is what opens the fence. It needs
	// no timeout of its own, for each request has one, and the Lease is watched through it.
	Client          coordinationclient.LeasesGetter
	Namespace, Name string
	// Identity is what stands in the Lease as its holder.
	Identity string
	// Duration is how long a silent holder keeps the others out. Only its whole seconds
	// count, for the Lease holds no more. RenewDeadline is how long renewals may fail until the
	// holder gives up, RetryPeriod how long it waits between them.
	Duration, RenewDeadline, RetryPeriod time.Duration
	// Ours tells whether a holder is certain to write no more, so that its Lease can be taken at
	// once. It is asked after the Lease was read. nil: no holder is.
	Ours func(holder string) bool
	// StandsBy is told of each other holder that is waited for; nil: nobody is.
	StandsBy func(lease, holder string)
	// Clients is how clients reach this process while it holds the Lease. It stands there as an annotation, under Identity.
	Clients ClientAccess
	// Recorder takes the event that tells who became leader; nil: nowhere.
	Recorder resourcelock.EventRecorder
	// WatchDog, where there is one, is told of the elector, and fails when that is stuck.
	WatchDog *leaderelection.HealthzAdaptor
	// Clock is read for deadlines; nil: the real one.
	Clock clock.Clock
}

// holderMark begins the part of an identity by which coordinators of one cluster know each
// other.
const holderMark = "_shardsched-"

// HolderIdentity is upstream's identity of a scheduler, <hostname>_<uuid>, with the group of
// coordinators that it belongs to: those that are fenced by the same election in etcd.
func HolderIdentity(id, group string) string { return id + holderMark + group }

// IsOfGroup tells whether the holder of a Lease is a coordinator of the group.
func IsOfGroup(holder, group string) bool {
	_, of, ok := strings.Cut(holder, holderMark)
	return ok && of == group
}

// DescribeHolder says what kind of scheduler holds a Lease.
func DescribeHolder(holder string) string {
	if strings.Contains(holder, holderMark) {
		return "shardsched " + holder
	}
	return "kube-scheduler " + holder
}

// Lease is the Kubernetes Lease, held once. Its states:
//
//	AcquireLease ──free, and written──> held ──┬─ deadline passed, taken by another, not renewed
//	                                           │  in time, Release or Abandon
//	                                           v
//	                                         lost (for ever: Done is closed)
//
// The deadline is the time at which the last successful write was *sent*, plus the duration.
// Every other contender saw that write later, so nobody takes the Lease from a silent holder
// before this says that it is lost.
type Lease struct {
	cfg      LeaseConfig
	lock     *leaseLock
	done     chan struct{}
	cancel   context.CancelFunc // of the elector and the watch
	running  sync.WaitGroup
	mu       sync.Mutex
	held     bool      // guarded by mu
	deadline time.Time // guarded by mu
	// written is the Lease as this process wrote it last.
	written *coordinationv1.Lease // guarded by mu
	lost    error                 // guarded by mu
}

// ErrOutOfReach says that a contender could not read or write the Lease for as long as a holder's
// renewals may fail. Others may be able to.
var ErrOutOfReach = errors.New("the Lease is out of reach")

// AcquireLease returns when this process holds the Lease, when ctx ends, or with ErrOutOfReach. The
// Lease outlives ctx.
func AcquireLease(ctx context.Context, cfg LeaseConfig) (*Lease, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Ours == nil {
		cfg.Ours = func(string) bool { return false }
	}
	if cfg.StandsBy == nil {
		cfg.StandsBy = func(string, string) {}
	}
	l := &Lease{cfg: cfg, done: make(chan struct{})}
	l.lock = &leaseLock{l: l}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	held := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l.lock, Name: cfg.Name, WatchDog: cfg.WatchDog,
		LeaseDuration: cfg.Duration, RenewDeadline: cfg.RenewDeadline, RetryPeriod: cfg.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(held) },
			OnStoppedLeading: func() {
				if run.Err() == nil {
					l.lose("it was not renewed in time")
				}
			},
			OnNewLeader: func(holder string) {
				klog.FromContext(ctx).Info("Holder of the Lease", "lease", l.lock.Describe(), "holder", holder)
			},
		},
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("lease %s: %w", l.lock.Describe(), err)
	}
	if err := l.awaitFree(ctx); err != nil {
		cancel()
		return nil, fmt.Errorf("wait for lease %s: %w", l.lock.Describe(), err)
	}
	if cfg.WatchDog != nil {
		cfg.WatchDog.SetLeaderElection(elector)
	}
	stop := context.AfterFunc(ctx, l.cancel)
	l.running.Go(func() { elector.Run(run) })
	late := l.awaitHeld(run, held)
	if !stop() || late != nil {
		// It has ended, perhaps in the moment of success.
		err := cmp.Or(ctx.Err(), late)
		bye, end := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer end()
		return nil, errors.Join(err, l.Release(bye))
	}
	l.running.Go(func() { l.expire() })
	l.running.Go(func() { l.guard(run) })
	return l, nil
}

// awaitHeld waits until the Lease is held, lost or given up. After the time that a renewal may take it is ErrOutOfReach.
func (l *Lease) awaitHeld(run context.Context, held <-chan struct{}) error {
	patience := l.cfg.Clock.NewTimer(l.cfg.RenewDeadline)
	defer patience.Stop()
	select {
	case <-held:
	case <-l.done:
	case <-run.Done():
	case <-patience.C():
		return fmt.Errorf("%w: %s was free and could not be taken for %v", ErrOutOfReach, l.lock.Describe(), l.cfg.RenewDeadline)
	}
	return nil
}

// releaseTimeout bounds the farewell of a contender that gives up.
const releaseTimeout = 2 * time.Second

// Check returns an error that wraps lease.ErrDeposed once the Lease may be another's. Call it
// right before every write.
func (l *Lease) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checkLocked()
}

func (l *Lease) checkLocked() error {
	if l.lost == nil && l.held {
		if late := l.cfg.Clock.Now().Sub(l.deadline); late >= 0 {
			l.loseLocked(fmt.Sprintf("it ran out %v ago", late))
		}
	}
	return l.lost
}

// Done is closed when the Lease is lost or given up.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Announce records the event by which upstream tells who leads. It is the caller's to say
// when, for it is a write like any other.
func (l *Lease) Announce(what string) {
	if l.cfg.Recorder == nil {
		return
	}
	l.mu.Lock()
	subject := l.written.DeepCopy()
	l.mu.Unlock()
	subject.TypeMeta = metav1.TypeMeta{Kind: "Lease", APIVersion: coordinationv1.SchemeGroupVersion.String()}
	l.cfg.Recorder.Eventf(subject, corev1.EventTypeNormal, "LeaderElection", "%s %s", l.cfg.Identity, what)
}

// Release gives the Lease up, so that another may take it at once. Check fails from the
// moment of the call. Where it was lost before, nothing is written.
//
// Differs from upstream: client-go's elector empties the Lease that it finds, whoever holds it
// by then.
func (l *Lease) Release(ctx context.Context) error {
	mine := l.Check() == nil
	l.lose("released")
	l.cancel()
	l.running.Wait()
	if !mine || !l.held {
		return nil
	}
	if err := l.lock.release(ctx); err != nil {
		return fmt.Errorf("release lease %s: %w", l.lock.Describe(), err)
	}
	return nil
}

// Abandon lets go without a write: for a holder that was deposed elsewhere, whose successor
// takes the Lease over.
func (l *Lease) Abandon() {
	l.lose("abandoned")
	l.cancel()
	l.running.Wait()
}

// renewed takes in that a write of the Lease succeeded.
func (l *Lease) renewed(lease *coordinationv1.Lease, deadline time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkLocked(); err != nil {
		return err
	}
	l.held, l.written = true, lease
	if deadline.After(l.deadline) {
		l.deadline = deadline
	}
	return nil
}

func (l *Lease) lose(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loseLocked(why)
}

func (l *Lease) loseLocked(why string) {
	if l.lost == nil {
		l.lost = fmt.Errorf("%w: lease %s: %s", lease.ErrDeposed, l.lock.Describe(), why)
		close(l.done)
		l.cancel()
	}
}

// expire closes Done when the deadline passes, whether or not anybody asks Check.
func (l *Lease) expire() {
	for l.Check() == nil {
		l.mu.Lock()
		left := l.deadline.Sub(l.cfg.Clock.Now())
		l.mu.Unlock()
		if left <= 0 {
			continue
		}
		timer := l.cfg.Clock.NewTimer(left)
		select {
		case <-timer.C():
		case <-l.done:
		}
		timer.Stop()
	}
}
