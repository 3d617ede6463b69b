package leader

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Standalone is the mode of a coordinator without Kubernetes: etcd holds the objects, and they are written there. It
// leads whenever it is elected, until the process is told to end.
//
//	follow --elected--> load at one revision --> lead
//	   ^                                          |
//	   +-----------lease lost, or an error--------+
//
// A term starts from what etcd holds, read after the election: nothing is
// carried over from an earlier one.
type Standalone struct{}

// standRetry is how long a coordinator rests after a term that has ended with an error.
const standRetry = time.Second

func (Standalone) ready(context.Context, func(func(context.Context) error)) error { return nil }

func (Standalone) prepare(ctx context.Context, t *term) (map[types.UID]*pb.QueueEntry, error) {
	sc := &t.config
	sc.Binder = binder{t.store, t}
	sc.VolumeWriter = volumeWriter{t.store, t}
	sc.ClaimWriter = claimWriter{t.store, t}
	sc.Evictor = evictor{t.store, t, t.run}
	sc.PodKept = t.store.Pod
	if sc.Reporter == nil {
		sc.Reporter = newPodGroupTeller(t.store, t)
	}
	t.objects = t.store
	t.notes = func(all *objects.Snapshot) []any { return []any{"revision", all.Revision} }
	entries, err := t.store.LoadEntries(ctx)
	if err != nil {
		return nil, fmt.Errorf("load queue journal: %w", err)
	}
	return entries, nil
}

func (Standalone) subscribe(ctx context.Context, t *term, deliver func([]objects.Event)) (*objects.Snapshot, func(), error) {
	all, err := t.store.Load(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("load objects: %w", err)
	}
	if err := t.store.Tend(ctx, t, all); err != nil {
		return nil, nil, fmt.Errorf("tend resource claims: %w", err)
	}
	if tells, ok := t.config.Reporter.(*podGroupTeller); ok {
		t.run(func() error { tells.run(ctx); return nil })
	}
	t.run(func() error {
		return t.store.Watch(ctx, all.Revision, func(events []objects.Event) error {
			deliver(events)
			return nil
		})
	})
	return all, func() {}, nil // the watch ends with the term
}

func (Standalone) next(ctx context.Context, _ bool, err error) (again bool, end error) {
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Term ended")
		pause(ctx, standRetry)
	}
	return ctx.Err() == nil, nil
}

// binder writes binds under a term.
type binder struct {
	store *store.Store
	fence lease.Fence
}

// Bind is part of bind.Binder. Its bindings share transactions, so their outcomes come together.
func (b binder) Bind(ctx context.Context, bindings []objects.Binding, done func(i int, err error)) {
	for i, err := range b.store.Bind(ctx, b.fence, bindings) {
		done(i, err)
	}
}

// evictor carries preemptions out under a term.
type evictor struct {
	store *store.Store
	fence lease.Fence
	run   func(func() error)
}

// Evict is part of coordinator.Evictor. Victims are gone at once: nobody runs anything that would take time.
func (e evictor) Evict(ctx context.Context, x objects.Eviction, done func(error)) {
	e.run(func() error {
		done(e.store.Evict(ctx, e.fence, &x))
		return nil // where it is deposed, the end of the lease ends the term
	})
}

// volumeWriter writes volumes and claims under a term.
type volumeWriter struct {
	store *store.Store
	fence lease.Fence
}

// Write is part of volumes.Writer: one transaction, so all objects have one version.
func (v volumeWriter) Write(ctx context.Context, objs []objects.Object) ([]string, error) {
	revision, err := v.store.Update(ctx, v.fence, objs)
	if err != nil {
		return nil, err
	}
	return slices.Repeat([]string{strconv.FormatInt(revision, 10)}, len(objs)), nil
}
