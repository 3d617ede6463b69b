package lease

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// ErrDeposed says that this process does not lead, or can not be sure that it does.
var ErrDeposed = errors.New("deposed: this coordinator no longer leads")

// Config tells how to take part in an election.
type Config struct {
	Client  *clientv3.Client
	Cluster string
	// Record tells followers and clients who leads.
	Record *pb.LeaderRecord
	// TTL is how long a leader that went silent keeps the others out; whole seconds,
	// 0: DefaultTTL.
	TTL time.Duration
	// Clock is read for deadlines and waited on between renewals; nil: the real one.
	Clock clock.Clock
}

// DefaultTTL is the leader lease's time to live.
const DefaultTTL = 15 * time.Second

// Elector takes part in the election of one cluster's leader.
type Elector struct{ cfg Config }

// New checks the configuration.
func New(cfg Config) (*Elector, error) { return &Elector{cfg: cfg}, nil }

// Campaign returns when this process leads, or when ctx ends.
func (e *Elector) Campaign(ctx context.Context) (*Leadership, error) {
	return nil, errors.ErrUnsupported
}

// Leadership is one term of one leader.
type Leadership struct {
	term int64
	key  string
	done chan struct{}
}

// Term is the fencing number: the etcd revision at which the leader's key was made.
func (l *Leadership) Term() uint64 { return uint64(l.term) }

// Check returns ErrDeposed once the lease may have run out. Call it right before
// every write.
func (l *Leadership) Check() error { return nil }

// Done is closed when the leadership is lost or given up.
func (l *Leadership) Done() <-chan struct{} { return l.done }

// Compare holds in etcd as long as this term lasts. It goes into every write.
func (l *Leadership) Compare() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(l.key), "=", l.term)
}

// Resign gives the leadership up, so that another may lead at once.
func (l *Leadership) Resign(ctx context.Context) error { return errors.ErrUnsupported }

// Observe tells fn who leads, first now and then at every change; nil: nobody. It
// returns when ctx ends.
func Observe(ctx context.Context, client *clientv3.Client, cluster string, fn func(*pb.LeaderRecord)) error {
	return errors.ErrUnsupported
}
