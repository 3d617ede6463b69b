package leader

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/lease"
)

// Lease proves for a while that nobody else leads.
type Lease interface {
	// Check returns an error that wraps lease.ErrDeposed once the lease may have run out.
	Check() error
	// Done is closed when the lease is lost or given up.
	Done() <-chan struct{}
}

// leases are what a leader holds. They fence what it writes: it leads as long as it holds all.
type leases struct {
	etcd *lease.Leadership
	kube *kube.Lease // nil: there is none to hold
	// holder is who held the Lease before, described; empty: nobody who was waited for.
	holder string
}

// before names who led before: the holder of the Lease that was waited for, or the leader in etcd; empty: nobody, as far as is known.
func (l leases) before() string { return cmp.Or(l.holder, l.etcd.Before().GetId()) }

var _ lease.Fence = leases{}

// Check is part of lease.Fence.
func (l leases) Check() error {
	if err := l.etcd.Check(); err != nil || l.kube == nil {
		return err
	}
	return l.kube.Check()
}

// Compare is part of lease.Fence.
func (l leases) Compare() clientv3.Cmp { return l.etcd.Compare() }

// leads asks etcd whether the term goes on. Of the Lease it is known: nobody else can have it as long as it has
// not run out here.
func (l leases) leads(ctx context.Context) (bool, error) {
	if l.Check() != nil {
		return false, nil
	}
	return l.etcd.Leads(ctx)
}

// watchdogTolerance is how long a leader may have been without its leases until it counts as
// stuck, for it should have ended by then. It is upstream's.
const watchdogTolerance = 20 * time.Second

// Fence lets a process write only while it leads. It is made before anything that writes, and
// Run opens it. All its methods may be called from any goroutine, at any time.
type Fence struct {
	name string
	now  func() time.Time

	mu     sync.Mutex
	leases lease.Fence // guarded by mu; nil: it does not lead
	since  time.Time   // guarded by mu; when the leases were won
	// stale is when the watchdog first found a leader without its leases.
	stale time.Time // guarded by mu
}

// NewFence is that of a process that stands by. The name is the Lease's, for messages; now
// is the clock; nil: the real one.
func NewFence(name string, now func() time.Time) *Fence {
	if now == nil {
		now = time.Now
	}
	return &Fence{name: name, now: now}
}

// Check returns an error that wraps lease.ErrDeposed unless this process leads, for certain. Call it
// right before every write.
func (f *Fence) Check() error {
	f.mu.Lock()
	l := f.leases
	f.mu.Unlock()
	if l == nil {
		return fmt.Errorf("%w: it stands by", lease.ErrDeposed)
	}
	return l.Check()
}

// Leading tells whether this process leads.
func (f *Fence) Leading() bool { return f.Check() == nil }

// Since is when this process began to lead; zero: it does not lead, or not for certain.
func (f *Fence) Since() time.Time {
	f.mu.Lock()
	l, since := f.leases, f.since
	f.mu.Unlock()
	if l == nil || l.Check() != nil {
		return time.Time{}
	}
	return since
}

// open has the leases of a term decide. A nil Fence fences nothing.
func (f *Fence) open(l lease.Fence) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leases, f.since, f.stale = l, f.now(), time.Time{}
}

// close lets nothing pass, for good measure.
func (f *Fence) close() { f.open(nil) }

// Watchdog is the health check of that name in upstream's endpoints.
func (f *Fence) Watchdog() Watchdog { return Watchdog{f} }

// Watchdog fails where a leader has lost its lease and is still here long after: it hangs, and had
// better be restarted.
type Watchdog struct{ fence *Fence }

// Name is the check's name.
func (Watchdog) Name() string { return "leaderElection" }

// Check is the check.
func (w Watchdog) Check(*http.Request) error {
	f := w.fence
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leases == nil || f.leases.Check() == nil {
		f.stale = time.Time{}
		return nil
	}
	if f.stale.IsZero() {
		f.stale = f.now()
	}
	if f.now().Sub(f.stale) > watchdogTolerance {
		return fmt.Errorf("failed election to renew leadership on lease %s", cmp.Or(f.name, "of etcd"))
	}
	return nil
}
