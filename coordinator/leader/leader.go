package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Config is what a coordinator is made of, however it runs.
type Config struct {
	// Etcd holds the journal, the leader's lease and the workers' registrations.
	Etcd *clientv3.Client
	// Record tells clients and followers who this coordinator is.
	Record *pb.LeaderRecord
	// LeaseTTL is how long a silent leader keeps the others out in etcd; 0: 15 s.
	LeaseTTL time.Duration
	// Lease is the Kubernetes Lease to hold beside: Identity and Ours are filled in. nil: there
	// is none, for no other scheduler is to be kept out.
	Lease *kube.LeaseConfig
	// Fence is told whether this process leads; nil: nobody asks.
	Fence *Fence
	// API is told who leads.
	API *api.Server
	// Scheduler is the template of each term's scheduler: Term, Journal, Fence and what the Mode decides are filled in.
	Scheduler coordinator.SchedulerConfig
	// Registerer gives each term's scheduler a fresh place for its metrics, so that one
	// term's do not stand beside the next's; nil: the template's is for all.
	Registerer func(term uint64) prometheus.Registerer
	// Sinks run while this process leads, and have the time to write what is left when their
	// context ends.
	Sinks []func(context.Context) error
	// Leading is told when this coordinator begins to lead (its scheduler) and when it
	// ceases to (nil). It may be nil.
	Leading func(*coordinator.Scheduler)
	// Mode is one of the two ways to run: Kubernetes or Standalone.
	Mode Mode
}

// Mode is what the two ways to run differ in: where objects come from, where decisions go, and what follows a term.
type Mode interface {
	// ready returns when this process can read what a leader needs. One that can't stands for no election, for as a
	// leader it would keep out those that can. run starts something that lasts as long as the process.
	ready(ctx context.Context, run func(func(context.Context) error)) error
	// prepare completes t, and returns the journal's entries. Both these and the objects that subscribe will return are
	// as new as a read made after the leases were won.
	prepare(ctx context.Context, t *term) (map[types.UID]*pb.QueueEntry, error)
	// subscribe returns the objects as they are, and delivers every change after that, per object in order, until stop is
	// called.
	subscribe(ctx context.Context, t *term, deliver func([]objects.Event)) (all *objects.Snapshot, stop func(), err error)
	// next says what follows when a term has ended with err, or the campaign for one, which led to none: another, or the
	// end of the process. ctx has ended where the process is told to end.
	next(ctx context.Context, led bool, err error) (again bool, end error)
}

// farewell bounds how long a leader that ends takes to tell the others.
const farewell = 2 * time.Second

// Run stands by, leads whenever it is elected, and returns where the mode says so, or when ctx has ended and both leases
// are released.
func Run(ctx context.Context, cfg Config) error {
	elector, err := lease.New(lease.Config{
		Client: cfg.Etcd, Cluster: cfg.Scheduler.Cluster, Record: cfg.Record, TTL: cfg.LeaseTTL,
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
	c := &contender{
		Config: cfg, elector: elector,
		follower: &follower{api: cfg.API, self: cfg.Record.GetId(), log: klog.FromContext(ctx)},
		process:  func(f func(context.Context) error) { g.Go(func() error { return unlessEnded(base, f(base)) }) },
	}
	c.process(func(ctx context.Context) error {
		return lease.Observe(ctx, cfg.Etcd, cfg.Scheduler.Cluster, c.follower.saw)
	})
	g.Go(func() error {
		defer end()
		return c.stand(ctx, base)
	})
	return g.Wait()
}

// contender is a coordinator that leads or would like to.
type contender struct {
	Config
	elector  *lease.Elector
	follower *follower
	// process runs something that lasts as long as this process.
	process func(func(context.Context) error)
}

// stand stands for election until the mode says that the process is to end. base ends later than ctx.
func (c *contender) stand(ctx, base context.Context) error {
	if err := c.Mode.ready(ctx, c.process); err != nil {
		return unlessEnded(ctx, err)
	}
	for {
		led, err := c.oneTerm(ctx, base)
		if again, end := c.Mode.next(ctx, led, err); !again {
			return end
		}
	}
}

// oneTerm is a term from the campaign on: campaign, load and run, resign. led tells whether it came to be a term.
func (c *contender) oneTerm(ctx, base context.Context) (led bool, err error) {
	l, err := c.campaign(ctx)
	if err != nil || ctx.Err() != nil {
		resign(base, l)
		return false, err
	}
	log := klog.FromContext(base).WithValues("term", l.etcd.Term())
	base = klog.NewContext(base, log)
	log.Info("Became leader", "id", c.Record.GetId(), "after", cmp.Or(l.before(), "nobody"))
	c.Fence.open(l)
	defer c.Fence.close()
	if l.kube != nil {
		l.kube.Announce("became leader")
	}
	err = c.lead(ctx, base, l)
	log.Info("Stopped leading", "id", c.Record.GetId(), "cause", cmp.Or(err, errRetired).Error())
	resign(base, l)
	return true, err
}

// campaign returns when this process holds both leases. With an error it holds none.
func (c *contender) campaign(ctx context.Context) (leases, error) {
	leadership, err := c.elector.Campaign(ctx)
	if err != nil {
		return leases{}, fmt.Errorf("campaign: %w", err)
	}
	l := leases{etcd: leadership}
	if c.Lease == nil {
		return l, nil
	}
	if l.kube, l.holder, err = c.acquire(ctx, leadership); err != nil {
		err = cmp.Or(leadership.Check(), err)
		resign(ctx, l)
		return leases{}, err
	}
	return l, nil
}

// acquire waits for the Lease while etcd's is held: a coordinator that was just elected knows that the one before it
// writes no more, and takes the Lease from it at once. It waits for any other holder like any kube-scheduler.
// holder is who held it before, of those that were waited for.
func (c *contender) acquire(ctx context.Context, leadership *lease.Leadership) (held *kube.Lease, holder string, err error) {
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
		return nil, "", err
	}
	cfg := *c.Lease
	cfg.Identity = kube.HolderIdentity(c.Record.GetId(), group)
	// Whoever of the group held the Lease before was deposed in etcd, as long as this one is not.
	cfg.Ours = func(holder string) bool { return kube.IsOfGroup(holder, group) && leadership.Check() == nil }
	var waited atomic.Pointer[string] // the last holder that was waited for
	cfg.StandsBy = func(lease, holder string) {
		described := kube.DescribeHolder(holder)
		waited.Store(&described)
		c.API.StandBy(lease, described)
	}
	defer c.API.StandBy("", "")
	held, err = kube.AcquireLease(ctx, cfg)
	if last := waited.Load(); last != nil {
		holder = *last
	}
	return held, holder, err
}

// lead runs the term's scheduler, and the sinks until it has ended.
func (c *contender) lead(ctx, base context.Context, l leases) error {
	sinks, stop := context.WithCancel(base)
	defer stop()
	g, leading := errgroup.WithContext(sinks)
	for _, sink := range c.Sinks {
		g.Go(func() error { return unlessEnded(sinks, sink(sinks)) })
	}
	g.Go(func() error {
		defer stop()
		return c.run(ctx, leading, l)
	})
	return g.Wait()
}

// term is a term that is loaded or runs.
type term struct {
	leases
	// config is what its scheduler is made of, and store where the journal is.
	config coordinator.SchedulerConfig
	store  *store.Store
	// objects serves the client API's objects; nil: they are the API server's.
	objects *store.Store
	// drain bounds how long the binds under way have where the process is told to end; 0: they have no time.
	drain time.Duration
	// notes is what the log is told of the loading, besides how much there was.
	notes func(*objects.Snapshot) []any
	// run starts what ends with the term, and ends the term where it returns an error. process starts what lasts as
	// long as the process.
	run     func(func() error)
	process func(func(context.Context) error)
}

// errRetired ends a term because the process is told to end.
var errRetired = errors.New("told to end")

// run runs the term's scheduler until a lease is lost, or ctx ends and what was begun is done.
// base ends later.
func (c *contender) run(ctx, base context.Context, l leases) error {
	g, running := errgroup.WithContext(base)
	// A lease that is lost while etcd is away ends the loading too.
	g.Go(func() error { return lost(running, l.etcd) })
	if l.kube != nil {
		g.Go(func() error { return lost(running, l.kube) })
	}
	t := &term{leases: l, config: c.Scheduler, run: g.Go, process: c.process}
	var loaded atomic.Pointer[coordinator.Scheduler]
	g.Go(func() error {
		s, stop, err := c.load(running, t)
		if err != nil {
			return err
		}
		defer stop()
		loaded.Store(s)
		g.Go(func() error { return fanout.WatchMembers(running, c.Etcd, c.Scheduler.Cluster, s.SetMembers) })
		c.follower.lead(func() { c.API.SetLeading(t.objects, l, s) })
		c.tell(s)
		g.Go(func() error { return unlessEnded(running, (&pulse{of: s, now: time.Now}).run(running)) })
		return cmp.Or(s.Run(running), running.Err())
	})
	g.Go(func() error {
		select {
		case <-running.Done():
			return running.Err()
		case <-ctx.Done():
		}
		if s := loaded.Load(); s != nil && t.drain > 0 {
			drain(running, s, t.drain)
		}
		return errRetired
	})
	err := g.Wait()
	c.follower.follow()
	if loaded.Load() != nil {
		c.tell(nil)
	}
	if errors.Is(err, errRetired) {
		return nil
	}
	return err
}

// tell says that a term's scheduler begins, or (nil) has ended.
func (c *contender) tell(s *coordinator.Scheduler) {
	if c.Leading != nil {
		c.Leading(s)
	}
}

// load makes the term's scheduler of the journal and the objects.
func (c *contender) load(ctx context.Context, t *term) (s *coordinator.Scheduler, stop func(), err error) {
	sc := &t.config
	sc.Term, sc.Fence, sc.Fanout.Leads = t.etcd.Term(), t.Check, t.leads
	sc.Log, sc.Before = klog.FromContext(ctx), t.before()
	if c.Registerer != nil {
		sc.Registerer = c.Registerer(sc.Term)
	}
	t.store = store.New(c.Etcd, sc.Cluster, store.WithRegisterer(sc.Registerer), store.WithLeader(c.Record.GetId()))
	sc.Journal, sc.History, sc.Self = journal{t.store, t}, history{t.store, t}, c.Record.GetId()
	sc.Gangs = gangs{t.store, t}
	entries, err := c.Mode.prepare(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	commits, err := loadGangs(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	if s, err = coordinator.NewScheduler(*sc); err != nil {
		return nil, nil, err
	}
	if plugins := sc.OutOfTree; plugins != nil && plugins.Start != nil {
		if err := plugins.Start(ctx); err != nil {
			return nil, nil, err
		}
	}
	all, stop, err := c.Mode.subscribe(ctx, t, s.Deliver)
	if err != nil {
		return nil, nil, err
	}
	s.Load(all, entries)
	s.LoadCommits(commits)
	amounts := []any{"nodes", len(all.Nodes), "pods", len(all.Pods), "journal", len(entries), "commits", len(commits)}
	klog.FromContext(ctx).Info("Loaded", append(amounts, t.notes(all)...)...)
	return s, stop, nil
}

// journal writes queue entries under a term.
type journal struct {
	store *store.Store
	fence lease.Fence
}

// SaveEntries is part of the Store of package journal.
func (j journal) SaveEntries(ctx context.Context, put map[types.UID]*pb.QueueEntry, del []types.UID) error {
	return j.store.SaveEntries(ctx, j.fence, put, del)
}

// gangs writes commits of pod groups under a term.
type gangs struct {
	store *store.Store
	fence lease.Fence
}

// SaveGangs is part of the GangStore of package journal.
func (g gangs) SaveGangs(ctx context.Context, put map[string]*pb.GangCommit, del []string) error {
	return g.store.SaveGangs(ctx, g.fence, put, del)
}

// loadGangs reads the commits that earlier leaders have left.
func loadGangs(ctx context.Context, t *term) (commits map[string]*pb.GangCommit, err error) {
	if t.config.Gangs == nil {
		return nil, nil
	}
	err = persist(ctx, "load the commits of pod groups", func(ctx context.Context) (err error) {
		commits, err = t.store.LoadGangs(ctx)
		return err
	})
	return commits, err
}

// history writes what is remembered of decisions under a term.
type history struct {
	*store.Store
	fence lease.Fence
}

// SaveHistory is part of the HistoryStore of package journal.
func (h history) SaveHistory(ctx context.Context, put map[int][]byte) error {
	return h.Store.SaveHistory(ctx, h.fence, put)
}

// lost turns the end of a lease into an error, which ends everything of the term.
func lost(ctx context.Context, l Lease) error {
	select {
	case <-l.Done():
		return cmp.Or(l.Check(), lease.ErrDeposed)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain lets the binds under way come to their end.
func drain(ctx context.Context, s *coordinator.Scheduler, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if err := s.Drain(ctx); err != nil && ctx.Err() != nil {
		klog.FromContext(ctx).Info("Binds are left under way, their outcome is the next leader's to see", "cause", err.Error())
	}
}

// resign gives up what is held, in the reverse order, so that the next of the group finds the Lease free when etcd
// elects it. A Lease whose term in etcd is over is left to the successor. The process may be ending: the leases are given
// up all the same, so that the next leader need not wait for them.
func resign(ctx context.Context, l leases) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	log := klog.FromContext(ctx)
	if l.kube != nil {
		if l.etcd.Check() != nil {
			l.kube.Abandon()
		} else if err := l.kube.Release(ctx); err != nil {
			log.Error(err, "The Lease is left to expire")
		}
	}
	if l.etcd == nil {
		return
	}
	if err := l.etcd.Resign(ctx); err != nil && !errors.Is(err, lease.ErrDeposed) {
		log.Error(err, "Resign")
	}
}

// unlessEnded is err, but nil where ctx has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
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
