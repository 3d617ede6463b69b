package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/api"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// ErrLeaseLost ends a process that led and was deposed: by the loss of either lease, or by word
// of a newer leader.
var ErrLeaseLost = errors.New("leaderelection lost")

// ObjectSource keeps a picture of the API server's objects, and tells of changes.
type ObjectSource interface {
	// Run keeps the picture until ctx ends.
	Run(ctx context.Context) error
	// WaitSynced returns when all objects were there once.
	WaitSynced(ctx context.Context) error
	// CatchUp returns when the picture holds all that a read made after the call shows.
	CatchUp(ctx context.Context) error
	// Subscribe returns the objects as they are, and delivers every change after that, per
	// object in order, until it is stopped.
	Subscribe(deliver func([]store.Event)) (objects *store.Objects, stop func(), err error)
}

// KubernetesConfig is what a coordinator of a Kubernetes cluster is made of.
type KubernetesConfig struct {
	// Etcd holds the journal, the leader's lease and the workers' registrations.
	Etcd *clientv3.Client
	// Record tells clients and followers who this coordinator is. Its id, upstream's
	// <hostname>_<uuid>, begins its identity in the Lease.
	Record *pb.LeaderRecord
	// LeaseTTL is how long a silent leader keeps the others out in etcd; 0: 15 s.
	LeaseTTL time.Duration
	// Lease is the Kubernetes Lease to hold beside: Identity and Ours are filled in. nil: there
	// is none, for no other scheduler is to be kept out.
	Lease *kube.LeaseConfig
	// Standing is told whether this process leads. What writes to the API server asks its
	// Check before every request.
	Standing *Standing
	// API is told who leads.
	API *api.Server
	// Source has the objects; DelayCacheUntilActive says that it is to be run by the leader
	// only.
	Source                ObjectSource
	DelayCacheUntilActive bool
	// Scheduler is the template of the term's scheduler: Term, Journal, VolumeController and
	// DisruptionController are filled in.
	Scheduler SchedulerConfig
	// Sinks run while this process leads, and have the time to write what is left when their
	// context ends.
	Sinks []func(context.Context) error
	// Leading is told when this coordinator begins to lead (its scheduler) and when it
	// ceases to (nil). It may be nil.
	Leading func(*Scheduler)
}

const (
	// drainTimeout bounds how long a leader that is told to end waits for the binds under way,
	// and farewell what it takes to tell the others.
	drainTimeout = 5 * time.Second
	farewell     = 2 * time.Second
	// bindsInFlight is how many binds are handed to the binder at once, unless said otherwise.
	bindsInFlight = 256
	// loadRetry is how long to wait before reading again what could not be read.
	loadRetry = time.Second
)

// RunKubernetes stands by until it is elected, leads one term and returns.
//
//	informers start ──> etcd elects ──> Lease held ──> consistent read ──> load ──> lead
//	 and have synced         ^─ etcd's lease lost, ─┘                                 │
//	                            Lease out of reach                                    │
//	                                                                                  │
//	nil  <── both leases released <── binds under way have ended <── ctx ended ───────┤
//	ErrLeaseLost <── nothing more is written <───────────── either lease lost ────────┘
//
// The Lease is held inside the time that etcd's is held, so a coordinator that was just elected
// knows that the one before it writes no more, and takes the Lease from it at once. It waits for
// any other holder like any kube-scheduler. One that can't read what it needs stands for no election,
// for as a leader it would keep out those that can; with DelayCacheUntilActive nobody knows before.
func RunKubernetes(ctx context.Context, cfg KubernetesConfig) error {
	elector, err := lease.New(lease.Config{
		Client: cfg.Etcd, Cluster: cfg.Scheduler.Cluster, Record: cfg.Record, TTL: etcdTTL(cfg.LeaseTTL),
	})
	if err != nil {
		return err
	}
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	// What a leader needs in order to end well outlives ctx.
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, base := errgroup.WithContext(base)
	context.AfterFunc(base, giveUp)
	c := &candidate{
		KubernetesConfig: cfg, elector: elector,
		follower: &follower{api: cfg.API, self: cfg.Record.GetId()},
		run:      func(f func(context.Context) error) { g.Go(func() error { return unlessEnded(base, f(base)) }) },
	}
	c.run(func(ctx context.Context) error {
		return lease.Observe(ctx, cfg.Etcd, cfg.Scheduler.Cluster, c.follower.saw)
	})
	if !cfg.DelayCacheUntilActive {
		c.run(cfg.Source.Run)
	}
	g.Go(func() error {
		defer end()
		return c.stand(ctx, base)
	})
	return g.Wait()
}

// etcdTTL is the longest that is no longer than d and that etcd grants: upstream takes any
// duration.
func etcdTTL(d time.Duration) time.Duration {
	if d == 0 {
		return lease.DefaultTTL
	}
	return max(d.Truncate(time.Second), lease.MinTTL)
}

// unlessEnded is err, but nil where ctx has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// candidate is a coordinator that leads or would like to.
type candidate struct {
	KubernetesConfig
	elector  *lease.Elector
	follower *follower
	// run starts something that lasts as long as this process.
	run func(func(context.Context) error)
}

// office is what a leader holds.
type office struct {
	etcd *lease.Leadership
	kube *kube.Lease // nil: there is none
}

func (o office) fence() fence {
	if o.kube == nil {
		return fence{etcd: o.etcd}
	}
	return fence{etcd: o.etcd, kube: o.kube}
}

// stand stands for election until this process has led, or ctx ends. base ends later.
func (c *candidate) stand(ctx, base context.Context) error {
	if !c.DelayCacheUntilActive {
		if err := c.Source.WaitSynced(ctx); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return fmt.Errorf("informers: %w", err)
		}
	}
	for {
		o, err := c.win(ctx)
		switch {
		case ctx.Err() != nil:
			return o.leave(base)
		case errors.Is(err, lease.ErrDeposed), errors.Is(err, kube.ErrOutOfReach):
			// It has not led yet, so there is nothing that it could do wrong. Where it can't reach the
			// Lease, another that stands in etcd comes first now.
			klog.FromContext(ctx).Info("Stands for election again", "cause", err.Error())
			continue
		case err != nil:
			return err
		}
		return c.hold(ctx, base, o)
	}
}

// win returns when this process holds both leases. With an error it holds none.
func (c *candidate) win(ctx context.Context) (office, error) {
	leadership, err := c.elector.Campaign(ctx)
	if err != nil {
		return office{}, fmt.Errorf("campaign: %w", err)
	}
	o := office{etcd: leadership}
	if c.Lease == nil {
		return o, nil
	}
	o.kube, err = c.acquire(ctx, leadership)
	if err == nil {
		return o, nil
	}
	err = cmp.Or(leadership.Check(), err)
	return office{}, errors.Join(err, o.leave(ctx))
}

// acquire waits for the Lease while etcd's is held.
func (c *candidate) acquire(ctx context.Context, leadership *lease.Leadership) (*kube.Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-leadership.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	group, err := lease.Group(ctx, c.Etcd, c.Scheduler.Cluster, c.Record.GetId())
	if err != nil {
		return nil, err
	}
	cfg := *c.Lease
	cfg.Identity = kube.HolderIdentity(c.Record.GetId(), group)
	// Whoever of the group held the Lease before was deposed in etcd, as long as this one is not.
	cfg.Ours = func(holder string) bool { return kube.IsOfGroup(holder, group) && leadership.Check() == nil }
	return kube.AcquireLease(ctx, cfg)
}

// leave gives up what is held, in the reverse order, so that the next of the group finds the Lease
// free when etcd elects it. A Lease whose term in etcd is over is left to the successor.
func (o office) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	log := klog.FromContext(ctx)
	if o.kube != nil {
		if o.etcd.Check() != nil {
			o.kube.Abandon()
		} else if err := o.kube.Release(ctx); err != nil {
			log.Error(err, "The Lease is left to expire")
		}
	}
	if o.etcd != nil {
		resign(ctx, o.etcd)
	}
	return nil
}

// hold leads and gives up both leases in the end.
func (c *candidate) hold(ctx, base context.Context, o office) error {
	log := klog.FromContext(base).WithValues("term", o.etcd.Term())
	base = klog.NewContext(base, log)
	log.Info("Became leader", "id", c.Record.GetId())
	c.Standing.lead(o.fence())
	defer c.Standing.lead(nil)
	if o.kube != nil {
		o.kube.Announce("became leader")
	}
	if c.DelayCacheUntilActive {
		c.run(c.Source.Run)
	}
	sinks, stop := context.WithCancel(base)
	defer stop()
	g, leading := errgroup.WithContext(sinks)
	for _, sink := range c.Sinks {
		g.Go(func() error { return unlessEnded(sinks, sink(sinks)) })
	}
	g.Go(func() error {
		defer stop()
		return c.lead(ctx, leading, o)
	})
	err := g.Wait()
	log.Info("Stopped leading", "id", c.Record.GetId())
	return errors.Join(err, o.leave(base))
}

// errRetired ends a term because the process is told to end.
var errRetired = errors.New("told to end")

// lead runs the term's scheduler until a lease is lost, or ctx ends and what was begun is done.
// base ends later.
func (c *candidate) lead(ctx, base context.Context, o office) error {
	g, term := errgroup.WithContext(base)
	g.Go(func() error { return ended(term, o.etcd) })
	if o.kube != nil {
		g.Go(func() error { return ended(term, o.kube) })
	}
	var loaded atomic.Pointer[Scheduler]
	g.Go(func() error {
		s, stop, err := c.load(term, o)
		if err != nil {
			return err
		}
		defer stop()
		loaded.Store(s)
		g.Go(func() error { return fanout.WatchMembers(term, c.Etcd, c.Scheduler.Cluster, s.SetMembers) })
		c.follower.lead(func() { c.API.SetLeading(nil, o.fence(), s) })
		if c.Leading != nil {
			c.Leading(s)
			defer c.Leading(nil)
		}
		return cmp.Or(s.Run(term), term.Err())
	})
	g.Go(func() error {
		select {
		case <-term.Done():
			return term.Err()
		case <-ctx.Done():
		}
		if s := loaded.Load(); s != nil {
			c.drain(term, s)
		}
		return errRetired
	})
	err := g.Wait()
	c.follower.follow()
	switch {
	case errors.Is(err, errRetired):
		return nil
	case errors.Is(err, lease.ErrDeposed), errors.Is(err, fanout.ErrDeposed):
		return fmt.Errorf("%w: %w", ErrLeaseLost, err)
	}
	return err
}

// drain lets the binds under way come to their end.
func (c *candidate) drain(ctx context.Context, s *Scheduler) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := s.Drain(ctx); err != nil && ctx.Err() != nil {
		klog.FromContext(ctx).Info("Binds are left under way, their outcome is the next leader's to see", "cause", err.Error())
	}
}

// load makes the term's scheduler of what the API server and the journal hold, both read after
// the leases were won.
func (c *candidate) load(ctx context.Context, o office) (s *Scheduler, stop func(), err error) {
	begun := time.Now()
	if err := c.Source.WaitSynced(ctx); err != nil {
		return nil, nil, fmt.Errorf("informers: %w", err)
	}
	synced := time.Now()
	if err := c.persist(ctx, "catch up with the API server", c.Source.CatchUp); err != nil {
		return nil, nil, err
	}
	caughtUp := time.Now()
	sc := c.Scheduler
	sc.Term, sc.VolumeController, sc.DisruptionController = o.etcd.Term(), true, true
	sc.ExtendersCommit, sc.Fence, sc.Fanout.Leads = true, c.Standing.Check, o.fence().leads
	if sc.BindGroup == 0 {
		sc.BindGroup, sc.BindCalls = 1, bindsInFlight // no bind waits for another
	}
	st := store.New(c.Etcd, sc.Cluster, store.WithRegisterer(sc.Registerer))
	sc.Journal = fencedJournal{st, o.fence()}
	var entries map[types.UID]*pb.QueueEntry
	err = c.persist(ctx, "load the queue journal", func(ctx context.Context) (err error) {
		entries, err = st.LoadEntries(ctx)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if s, err = NewScheduler(sc); err != nil {
		return nil, nil, err
	}
	if err := sc.Guests.start(ctx); err != nil {
		return nil, nil, err
	}
	objects, stop, err := c.Source.Subscribe(s.Deliver)
	if err != nil {
		return nil, nil, fmt.Errorf("subscribe to the API server's objects: %w", err)
	}
	s.Load(objects, entries)
	klog.FromContext(ctx).Info("Loaded", "nodes", len(objects.Nodes), "pods", len(objects.Pods), "journal", len(entries),
		"waited", synced.Sub(begun), "caughtUp", caughtUp.Sub(synced), "loaded", time.Since(caughtUp))
	return s, stop, nil
}

// persist tries again until it succeeds or the term ends.
func (c *candidate) persist(ctx context.Context, what string, f func(context.Context) error) error {
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
