package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/store"
)

// Lease proves for a while that nobody else leads.
type Lease interface {
	// Check returns an error that wraps store.ErrDeposed once the lease may have run out.
	Check() error
	// Done is closed when the lease is lost or given up.
	Done() <-chan struct{}
}

// fence is the leader's in Kubernetes mode: it leads as long as it holds both leases.
type fence struct {
	etcd *lease.Leadership
	kube Lease // nil: there is none to hold
}

var _ store.Fence = fence{}

// Check is part of store.Fence.
func (f fence) Check() error {
	if err := f.etcd.Check(); err != nil || f.kube == nil {
		return err
	}
	return f.kube.Check()
}

// Compare is part of store.Fence.
func (f fence) Compare() clientv3.Cmp { return f.etcd.Compare() }

// leads asks etcd whether the term goes on. Of the Lease it is known: nobody else can have it as long as it has
// not run out here.
func (f fence) leads(ctx context.Context) (bool, error) {
	if f.Check() != nil {
		return false, nil
	}
	return f.etcd.Leads(ctx)
}

// watchdogTolerance is how long a leader may have been without its leases until it counts as
// stuck, for it should have ended by then. It is upstream's.
const watchdogTolerance = 20 * time.Second

// Standing tells whether this process leads. It is made before anything that writes, and
// RunKubernetes fills it in. All its methods may be called from any goroutine, at any time.
type Standing struct {
	name string
	now  func() time.Time

	mu    sync.Mutex
	fence store.Fence // guarded by mu; nil: it does not lead
	// stale is when the watchdog first found a leader without its leases.
	stale time.Time // guarded by mu
}

// NewStanding is that of a process that stands by. The name is the Lease's, for messages; now
// is the clock; nil: the real one.
func NewStanding(name string, now func() time.Time) *Standing {
	if now == nil {
		now = time.Now
	}
	return &Standing{name: name, now: now}
}

// Check returns an error that wraps store.ErrDeposed unless this process leads, for certain. Call it
// right before every write.
func (s *Standing) Check() error {
	s.mu.Lock()
	f := s.fence
	s.mu.Unlock()
	if f == nil {
		return fmt.Errorf("%w: it stands by", store.ErrDeposed)
	}
	return f.Check()
}

// Leading tells whether this process leads.
func (s *Standing) Leading() bool { return s.Check() == nil }

// lead opens the fence, nil closes it for good measure.
func (s *Standing) lead(f store.Fence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fence, s.stale = f, time.Time{}
}

// Watchdog is the health check of that name in upstream's endpoints.
func (s *Standing) Watchdog() Watchdog { return Watchdog{s} }

// Watchdog fails where a leader has lost its lease and is still here long after: it hangs, and had
// better be restarted.
type Watchdog struct{ standing *Standing }

// Name is the check's name.
func (Watchdog) Name() string { return "leaderElection" }

// Check is the check.
func (w Watchdog) Check(*http.Request) error {
	s := w.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fence == nil || s.fence.Check() == nil {
		s.stale = time.Time{}
		return nil
	}
	if s.stale.IsZero() {
		s.stale = s.now()
	}
	if s.now().Sub(s.stale) > watchdogTolerance {
		return fmt.Errorf("failed election to renew leadership on lease %s", cmp.Or(s.name, "of etcd"))
	}
	return nil
}
