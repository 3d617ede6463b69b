package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// ErrLeaseLost ends a process that led and was deposed: by the loss of either lease, or by word
// of a newer leader.
var ErrLeaseLost = errors.New("leaderelection lost")

// ObjectSource keeps a copy of the API server's objects, and tells of changes.
type ObjectSource interface {
	// Run keeps the copy until ctx ends.
	Run(ctx context.Context) error
	// WaitSynced returns when all objects were there once.
	WaitSynced(ctx context.Context) error
	// CatchUp returns when the copy holds all that a read made after the call shows.
	CatchUp(ctx context.Context) error
	// Subscribe returns the objects as they are, and delivers every change after that, per
	// object in order, until it is stopped.
	Subscribe(deliver func([]objects.Event)) (all *objects.Snapshot, stop func(), err error)
}

// Kubernetes is the mode of a coordinator in kube-scheduler's place. Its process leads one term and ends with it, as
// upstream's does. All that writes to the API server is in the template of the scheduler, and asks the process's
// Fence before every request.
//
//	informers start ──> etcd elects ──> Lease held ──> consistent read ──> load ──> lead
//	 and have synced         ^─ etcd's lease lost, ─┘                                 │
//	                            Lease out of reach                                    │
//	                                                                                  │
//	nil  <── both leases released <── binds under way have ended <── ctx ended ───────┤
//	ErrLeaseLost <── nothing more is written <───────────── either lease lost ────────┘
type Kubernetes struct {
	// Source has the objects; DelayCacheUntilActive says that it is to be run by the leader
	// only. Then nobody knows before the election whether the objects can be read.
	Source                ObjectSource
	DelayCacheUntilActive bool
	// NoJournal has nothing of the queue and of decisions kept for the next leader, which is what a kube-scheduler does: where etcd ends
	// with this process, nobody would read it.
	NoJournal bool
}

const (
	// drainTimeout bounds how long a leader that is told to end waits for the binds under way.
	drainTimeout = 5 * time.Second
	// bindsInFlight is how many binds are handed to the binder at once, unless said otherwise.
	bindsInFlight = 256
	// loadRetry is how long to wait before reading again what could not be read.
	loadRetry = time.Second
)

func (k Kubernetes) ready(ctx context.Context, run func(func(context.Context) error)) error {
	if k.DelayCacheUntilActive {
		return nil
	}
	run(k.Source.Run)
	return k.waitSynced(ctx)
}

func (k Kubernetes) waitSynced(ctx context.Context) error {
	if err := k.Source.WaitSynced(ctx); err != nil {
		return fmt.Errorf("informers: %w", err)
	}
	return nil
}

func (k Kubernetes) prepare(ctx context.Context, t *term) (entries map[types.UID]*pb.QueueEntry, err error) {
	if k.DelayCacheUntilActive {
		t.process(k.Source.Run)
	}
	begun := time.Now()
	if err := k.waitSynced(ctx); err != nil {
		return nil, err
	}
	synced := time.Now()
	if err := persist(ctx, "catch up with the API server", k.Source.CatchUp); err != nil {
		return nil, err
	}
	caughtUp := time.Now()
	sc := &t.config
	sc.VolumeController, sc.DisruptionController, sc.ExtendersCommit = true, true, true
	if sc.BindGroup == 0 {
		sc.BindGroup, sc.BindCalls = 1, bindsInFlight // no bind waits for another
	}
	t.drain = drainTimeout
	t.notes = func(*objects.Snapshot) []any {
		return []any{"waited", synced.Sub(begun), "caughtUp", caughtUp.Sub(synced), "loaded", time.Since(caughtUp)}
	}
	if k.NoJournal {
		sc.Journal, sc.History, sc.Gangs = nil, nil, nil
		return nil, nil
	}
	err = persist(ctx, "load the queue journal", func(ctx context.Context) (err error) {
		entries, err = t.store.LoadEntries(ctx)
		return err
	})
	return entries, err
}

func (k Kubernetes) subscribe(_ context.Context, _ *term, deliver func([]objects.Event)) (*objects.Snapshot, func(), error) {
	all, stop, err := k.Source.Subscribe(deliver)
	if err != nil {
		return nil, nil, fmt.Errorf("subscribe to the API server's objects: %w", err)
	}
	return all, stop, nil
}

func (Kubernetes) next(ctx context.Context, led bool, err error) (again bool, end error) {
	switch deposed := errors.Is(err, lease.ErrDeposed) || errors.Is(err, fanout.ErrDeposed); {
	case led && deposed:
		return false, fmt.Errorf("%w: %w", ErrLeaseLost, err)
	case led:
		return false, err
	case ctx.Err() != nil:
		return false, nil
	case deposed, errors.Is(err, kube.ErrOutOfReach):
		// It has not led yet, so there is nothing that it could do wrong. Where it can't reach the
		// Lease, another that stands in etcd comes first now.
		klog.FromContext(ctx).Info("Stands for election again", "cause", err.Error())
		return true, nil
	}
	return false, err
}

// persist tries again until it succeeds or the term ends: the process has no other term in which to try.
func persist(ctx context.Context, what string, f func(context.Context) error) error {
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		klog.FromContext(ctx).Error(err, "Trying again", "to", what)
		pause(ctx, loadRetry)
	}
}
