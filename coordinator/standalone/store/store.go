package store

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// ErrCompacted says why a watch or list ended: the revision asked for is compacted away. Load again.
var ErrCompacted = errors.New("revision compacted")

// Store keeps one cluster's objects and queue journal in etcd. It is safe for
// concurrent use.
type Store struct {
	client  *clientv3.Client
	keys    keys
	now     func() time.Time
	uid     func() types.UID
	metrics *metrics
	// decidedBy is what the pods that are bound tell of who decided them; empty: nothing.
	decidedBy string
}

// Option changes what New assumes.
type Option func(*options)

type options struct {
	now        func() time.Time
	uid        func() types.UID
	registerer prometheus.Registerer
	leader     string
}

// WithClock sets the clock for creation and condition times; without it, time.Now.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// WithUIDs sets where the UIDs of new objects come from; without it, random ones.
func WithUIDs(next func() types.UID) Option { return func(o *options) { o.uid = next } }

// WithRegisterer makes the store register its metrics.
func WithRegisterer(r prometheus.Registerer) Option { return func(o *options) { o.registerer = r } }

// WithLeader names the coordinator that binds pods.
func WithLeader(id string) Option { return func(o *options) { o.leader = id } }

// New returns the store of a cluster. It does not talk to etcd yet.
func New(client *clientv3.Client, cluster string, opts ...Option) *Store {
	o := options{now: time.Now, uid: func() types.UID { return types.UID(uuid.NewString()) }}
	for _, opt := range opts {
		opt(&o)
	}
	return &Store{client: client, keys: keysOf(cluster), now: o.now, uid: o.uid, metrics: newMetrics(o.registerer),
		decidedBy: objects.DecidedBy(o.leader)}
}

// decode reads a stored object and gives it its resourceVersion.
func decode(kv *mvccpb.KeyValue) (objects.Object, error) {
	obj, err := objects.Decode(kv.Value)
	if err != nil {
		return nil, fmt.Errorf("stored object at %s: %w", kv.Key, err)
	}
	obj.SetResourceVersion(strconv.FormatInt(kv.ModRevision, 10))
	return obj, nil
}

// encode writes the stored form: without the resourceVersion, which the key has.
func encode(obj objects.Object) ([]byte, error) {
	version := obj.GetResourceVersion()
	obj.SetResourceVersion("")
	raw, err := objects.Encode(obj)
	obj.SetResourceVersion(version)
	return raw, err
}
