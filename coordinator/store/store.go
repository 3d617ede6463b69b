package store

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Why a write was refused, or a watch ended.
var (
	// ErrDeposed is lease.ErrDeposed: this process does not lead, nothing was written.
	ErrDeposed = lease.ErrDeposed
	// ErrConflict says that the object was changed since it was read.
	ErrConflict = errors.New("changed meanwhile")
	// ErrNotFound says that the object is not there (any more).
	ErrNotFound = errors.New("not found")
	// ErrAlreadyBound says that the pod is on a node already.
	ErrAlreadyBound = errors.New("already bound")
	// ErrCompacted says that the changes asked for are compacted away: load again.
	ErrCompacted = errors.New("revision compacted")
	// ErrUnknown says that etcd did not answer: the write may or may not be there.
	ErrUnknown = errors.New("outcome unknown")
)

// Fence proves leadership; *lease.Leadership is one.
type Fence interface {
	// Check returns ErrDeposed when the lease may have run out. It is called right
	// before every write.
	Check() error
	// Compare holds in etcd as long as the term lasts. It is part of every write.
	Compare() clientv3.Cmp
}

// Store keeps one cluster's objects and queue journal in etcd.
type Store struct {
	client *clientv3.Client
}

// Option changes what New assumes.
type Option func(*Store)

// WithClock sets the clock for creation and condition times.
func WithClock(now func() time.Time) Option { return func(*Store) {} }

// WithUIDs sets where the UIDs of new objects come from.
func WithUIDs(next func() types.UID) Option { return func(*Store) {} }

// WithRegisterer makes the store register its metrics.
func WithRegisterer(r prometheus.Registerer) Option { return func(*Store) {} }

// New returns the store of a cluster. It does not talk to etcd yet.
func New(client *clientv3.Client, cluster string, opts ...Option) *Store {
	return &Store{client: client}
}

// Objects is everything in the store at one revision.
type Objects struct {
	Nodes      []*v1.Node
	Pods       []*v1.Pod // in the order in which they were created
	Namespaces []*v1.Namespace
	Revision   int64
}

// Load reads everything at one revision.
func (s *Store) Load(ctx context.Context) (*Objects, error) { return nil, errors.ErrUnsupported }

// EventType is what happened to an object.
type EventType int

// What happens to objects.
const (
	Added EventType = iota + 1
	Modified
	Deleted
)

// Event is one change. Of Node, Pod and Namespace the one that Kind names is set; with
// Deleted it is the object as it was before.
type Event struct {
	Type      EventType
	Kind      objects.Kind
	Node      *v1.Node
	Pod       *v1.Pod
	Namespace *v1.Namespace
	Revision  int64
}

// OldPod is the pod before a Modified event, decoded on demand; nil where etcd no
// longer has it.
func (e *Event) OldPod() (*v1.Pod, error) { return nil, nil }

// OldNode is the node before a Modified event, decoded on demand; nil where etcd no
// longer has it.
func (e *Event) OldNode() (*v1.Node, error) { return nil, nil }

// Watch hands fn every change after a revision, in order, none twice, until ctx ends, fn
// returns an error, or the revision is compacted away (ErrCompacted).
func (s *Store) Watch(ctx context.Context, after int64, fn func([]Event) error) error {
	return errors.ErrUnsupported
}

// Apply creates or updates objects.
func (s *Store) Apply(ctx context.Context, f Fence, objs []runtime.Object, dryRun bool) ([]pb.ApplyOutcome, int64, error) {
	return nil, 0, errors.ErrUnsupported
}

// Delete removes objects and tells which of them were there.
func (s *Store) Delete(ctx context.Context, f Fence, refs []objects.Ref) ([]bool, int64, error) {
	return nil, 0, errors.ErrUnsupported
}

// Binding asks for a pod to be put on a node.
type Binding struct {
	// Pod as it was read: its ResourceVersion is compared.
	Pod  *v1.Pod
	Node string
}

// Bind writes bindings; the errors are in the order of bs, nil where the pod is bound.
func (s *Store) Bind(ctx context.Context, f Fence, bs []Binding) []error { return nil }

// SaveEntries writes and removes entries of the queue journal.
func (s *Store) SaveEntries(ctx context.Context, f Fence, put map[types.UID]*pb.QueueEntry, del []types.UID) error {
	return errors.ErrUnsupported
}

// LoadEntries reads the queue journal.
func (s *Store) LoadEntries(ctx context.Context) (map[types.UID]*pb.QueueEntry, error) {
	return nil, errors.ErrUnsupported
}
