package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// patience bounds what a test waits for; nothing waits that long when all is well.
const patience = 3 * time.Minute

var (
	_       lease.Fence = (*lease.Leadership)(nil)
	birth               = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	created             = pb.ApplyOutcome_APPLY_OUTCOME_CREATED
	same                = pb.ApplyOutcome_APPLY_OUTCOME_UNCHANGED
	changed             = pb.ApplyOutcome_APPLY_OUTCOME_CONFIGURED
)

// rig is a store on an etcd of its own, with a fence that the test can let fall.
type rig struct {
	*store.Store
	etcd   *embedetcd.Server
	client *clientv3.Client
	fence  *fence
	dir    string
}

// fence is a leadership whose two halves the test can break one by one.
type fence struct {
	key     string
	term    int64
	expired atomic.Bool
	checks  atomic.Int64
}

func (f *fence) Check() error {
	f.checks.Add(1)
	if f.expired.Load() {
		return fmt.Errorf("%w: the test says so", lease.ErrDeposed)
	}
	return nil
}

func (f *fence) Compare() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(f.key), "=", f.term)
}

func newRig(t testing.TB) *rig {
	t.Helper()
	if parallel, ok := t.(*testing.T); ok {
		parallel.Parallel() // most of a test is waiting for its etcd to start
	}
	r := &rig{dir: t.TempDir()}
	r.start(t, "127.0.0.1:0")
	client, err := r.etcd.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	r.client = client
	r.fence = newFence(t, client)
	var uids atomic.Int64
	r.Store = store.New(client, "test", store.WithLeader("the-leader"),
		store.WithClock(func() time.Time { return birth }),
		store.WithUIDs(func() types.UID { return types.UID(fmt.Sprintf("uid-%d", uids.Add(1))) }))
	return r
}

func (r *rig) start(t testing.TB, listen string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	etcd, err := embedetcd.Start(ctx, embedetcd.Config{DataDir: r.dir, Listen: listen, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	r.etcd = etcd
}

// restart stops etcd, lets meanwhile run, and starts it again with the same data.
func (r *rig) restart(t testing.TB, meanwhile func()) {
	t.Helper()
	r.etcd.Close()
	if meanwhile != nil {
		meanwhile()
	}
	r.start(t, r.etcd.Endpoint())
}

func newFence(t testing.TB, c *clientv3.Client) *fence {
	t.Helper()
	f := &fence{key: "/leader-of-" + t.Name()}
	put, err := c.Put(t.Context(), f.key, "leader")
	if err != nil {
		t.Fatal(err)
	}
	f.term = put.Header.Revision
	return f
}

// depose makes another leader, behind the back of the first.
func (r *rig) depose(t testing.TB) {
	t.Helper()
	if _, err := r.client.Delete(t.Context(), r.fence.key); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Put(t.Context(), r.fence.key, "another"); err != nil {
		t.Fatal(err)
	}
}

func node(name string) *v1.Node {
	capacity := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("8"),
		v1.ResourceMemory: resource.MustParse("32Gi"),
		v1.ResourcePods:   resource.MustParse("110"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status:     v1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}

func pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name:  "main",
			Image: "registry.example/web:1",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("128Mi"),
			}},
		}}},
	}
}

func pods(prefix string, n int) []runtime.Object {
	objs := make([]runtime.Object, n)
	for i := range objs {
		objs[i] = pod(fmt.Sprintf("%s-%04d", prefix, i))
	}
	return objs
}

func (r *rig) apply(t testing.TB, objs ...runtime.Object) int64 {
	t.Helper()
	_, revision, err := r.Apply(t.Context(), r.fence, objs, false)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return revision
}

func (r *rig) load(t testing.TB) *objects.Snapshot {
	t.Helper()
	all, err := r.Load(t.Context())
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return all
}

// pod reads one pod back; nil where there is none.
func (r *rig) pod(t testing.TB, name string) *v1.Pod {
	t.Helper()
	for _, p := range r.load(t).Pods {
		if p.Name == name {
			return p
		}
	}
	return nil
}

func wantOutcomes(t testing.TB, got []pb.ApplyOutcome, want ...pb.ApplyOutcome) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("outcomes: got %v, want %v", got, want)
	}
}

func wantError(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// stream collects what a watch delivers.
type stream struct {
	events chan objects.Event
	ended  chan error
	cancel context.CancelFunc
}

func (r *rig) watch(t testing.TB, after int64) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &stream{events: make(chan objects.Event, 10000), ended: make(chan error, 1), cancel: cancel}
	go func() {
		w.ended <- r.Watch(ctx, after, func(events []objects.Event) error {
			for _, e := range events {
				w.events <- e
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		await(t, "end of a watch", w.ended)
	})
	return w
}

func (w *stream) next(t testing.TB) objects.Event {
	t.Helper()
	return await(t, "an event", w.events)
}

func await[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing within %v", what, patience)
		panic("unreachable")
	}
}

func (r *rig) put(t testing.TB, key, value string) {
	t.Helper()
	if _, err := r.client.Put(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

func ref(kind objects.Kind, namespace, name string) objects.Ref {
	return objects.Ref{Kind: kind, Namespace: namespace, Name: name}
}
