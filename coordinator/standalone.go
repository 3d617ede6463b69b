package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/api"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// StandaloneConfig is what a coordinator without Kubernetes is made of.
type StandaloneConfig struct {
	// Etcd holds the objects, the journal, the leader's lease and the workers' registrations.
	Etcd *clientv3.Client
	// Record tells clients and followers who this coordinator is.
	Record *pb.LeaderRecord
	// LeaseTTL is how long a silent leader keeps the others out; 0: 15 s.
	LeaseTTL time.Duration
	// API is told who leads.
	API *api.Server
	// Scheduler is the template of each term's scheduler: Term, Binder, Journal, Evictor and
	// VolumeWriter are filled in.
	Scheduler SchedulerConfig
	// Registerer gives each term's scheduler a fresh place for its metrics, so that one
	// term's do not stand beside the next's; nil: nowhere.
	Registerer func(term uint64) prometheus.Registerer
	// Leading is told when this coordinator begins to lead (its scheduler) and when it
	// ceases to (nil). It may be nil.
	Leading func(*Scheduler)
}

// RunStandalone stands by, leads whenever it is elected, and returns when ctx ends.
//
//	follow --elected--> load at one revision --> lead
//	   ^                                          |
//	   +-----------lease lost, or an error--------+
//
// A term starts from what etcd holds, read after the election: nothing is
// carried over from an earlier one.
func RunStandalone(ctx context.Context, cfg StandaloneConfig) error {
	elector, err := lease.New(lease.Config{
		Client: cfg.Etcd, Cluster: cfg.Scheduler.Cluster, Record: cfg.Record, TTL: cfg.LeaseTTL,
	})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	f := &follower{api: cfg.API, self: cfg.Record.GetId()}
	g.Go(func() error {
		// It ends with ctx, and with nothing else.
		_ = lease.Observe(ctx, cfg.Etcd, cfg.Scheduler.Cluster, f.saw)
		return nil
	})
	g.Go(func() error {
		for ctx.Err() == nil {
			if err := term(ctx, cfg, elector, f); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Term ended")
				pause(ctx, time.Second)
			}
		}
		return nil
	})
	return g.Wait()
}

// term waits to be elected and leads until the term ends.
func term(ctx context.Context, cfg StandaloneConfig, elector *lease.Elector, f *follower) error {
	leadership, err := elector.Campaign(ctx)
	if err != nil {
		return fmt.Errorf("campaign: %w", err)
	}
	defer func() {
		// The process may be ending: give the lease up all the same, so that the next
		// leader need not wait for it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		resign(ctx, leadership)
	}()
	log := klog.FromContext(ctx).WithValues("term", leadership.Term())
	log.Info("Became leader", "id", cfg.Record.GetId())
	err = lead(klog.NewContext(ctx, log), cfg, leadership, f)
	log.Info("Stopped leading", "id", cfg.Record.GetId())
	return err
}

// resign lets another lead at once.
func resign(ctx context.Context, leadership *lease.Leadership) {
	if err := leadership.Resign(ctx); err != nil && !errors.Is(err, lease.ErrDeposed) {
		klog.FromContext(ctx).Error(err, "Resign")
	}
}

// lead runs one term's scheduler.
func lead(ctx context.Context, cfg StandaloneConfig, leadership *lease.Leadership, f *follower) error {
	g, ctx := errgroup.WithContext(ctx)
	// A lease that is lost while etcd is away ends the loading too.
	g.Go(func() error { return ended(ctx, leadership) })
	leads := false
	g.Go(func() error {
		s, st, revision, err := load(ctx, cfg, leadership, g.Go)
		if err != nil {
			return err
		}
		g.Go(func() error { return fanout.WatchMembers(ctx, cfg.Etcd, cfg.Scheduler.Cluster, s.SetMembers) })
		g.Go(func() error {
			return st.Watch(ctx, revision, func(events []store.Event) error {
				s.Deliver(events)
				return nil
			})
		})
		f.lead(func() { cfg.API.SetLeading(st, leadership, s) })
		if leads = cfg.Leading != nil; leads {
			cfg.Leading(s)
		}
		return cmp.Or(s.Run(ctx), ctx.Err())
	})
	err := g.Wait()
	f.follow()
	if leads {
		cfg.Leading(nil)
	}
	return err
}

// load makes a term's scheduler of what etcd holds, at the revision that it returns. run starts what
// ends with the term.
func load(ctx context.Context, cfg StandaloneConfig, leadership *lease.Leadership, run func(func() error)) (*Scheduler, *store.Store, int64, error) {
	sc := cfg.Scheduler
	sc.Term = leadership.Term()
	if cfg.Registerer != nil {
		sc.Registerer = cfg.Registerer(sc.Term)
	}
	st := store.New(cfg.Etcd, sc.Cluster, store.WithRegisterer(sc.Registerer))
	sc.Binder = fencedBinder{st, leadership}
	sc.Journal = fencedJournal{st, leadership}
	sc.VolumeWriter = fencedVolumes{st, leadership}
	sc.Evictor = fencedEvictor{st, leadership, run}
	sc.Fence, sc.Fanout.Leads = leadership.Check, leadership.Leads
	objects, err := st.Load(ctx)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("load objects: %w", err)
	}
	entries, err := st.LoadEntries(ctx)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("load queue journal: %w", err)
	}
	s, err := NewScheduler(sc)
	if err != nil {
		return nil, nil, 0, err
	}
	s.Load(objects, entries)
	klog.FromContext(ctx).Info("Loaded", "nodes", len(objects.Nodes), "pods", len(objects.Pods), "journal", len(entries), "revision", objects.Revision)
	return s, st, objects.Revision, nil
}

// ended turns the end of the lease into an error, which ends everything of the term.
func ended(ctx context.Context, l Lease) error {
	select {
	case <-l.Done():
		return cmp.Or(l.Check(), lease.ErrDeposed)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// fencedBinder writes binds under a term.
type fencedBinder struct {
	store *store.Store
	fence store.Fence
}

// Bind is part of Binder. Its bindings share transactions, so their outcomes come together.
func (b fencedBinder) Bind(ctx context.Context, bindings []store.Binding, done func(i int, err error)) {
	for i, err := range b.store.Bind(ctx, b.fence, bindings) {
		done(i, err)
	}
}

// fencedJournal writes queue entries under a term.
type fencedJournal struct {
	store *store.Store
	fence store.Fence
}

func (j fencedJournal) SaveEntries(ctx context.Context, put map[types.UID]*pb.QueueEntry, del []types.UID) error {
	return j.store.SaveEntries(ctx, j.fence, put, del)
}

// fencedEvictor carries preemptions out under a term.
type fencedEvictor struct {
	store *store.Store
	fence store.Fence
	run   func(func() error)
}

// Evict is part of Evictor. Victims are gone at once: nobody runs anything that would take time.
func (e fencedEvictor) Evict(ctx context.Context, x preempt.Eviction, done func(error)) {
	e.run(func() error {
		err := e.store.Evict(ctx, e.fence, &x)
		for _, v := range x.Victims {
			if err != nil {
				break
			}
			klog.FromContext(ctx).Info("Preempted", "pod", klog.KObj(v), "note", preempt.EventNote(x.Preemptor, x.Node, false))
		}
		done(err)
		return nil // where it is deposed, the end of the lease ends the term
	})
}

// fencedVolumes writes volumes and claims under a term.
type fencedVolumes struct {
	store *store.Store
	fence store.Fence
}

// Write is part of volumes.Writer: one transaction, so all objects have one version.
func (v fencedVolumes) Write(ctx context.Context, objs []objects.Object) ([]string, error) {
	revision, err := v.store.Update(ctx, v.fence, objs)
	if err != nil {
		return nil, err
	}
	return slices.Repeat([]string{strconv.FormatInt(revision, 10)}, len(objs)), nil
}
