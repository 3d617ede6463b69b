package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/extenders"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/journal"
	"github.com/shardsched/shardsched/coordinator/nominees"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/record"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/state"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/coordinator/volumes"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// DefaultBatchSize is how many pods share a round to the workers at the most.
const DefaultBatchSize = 512

// SchedulerConfig is what a Scheduler is made of.
type SchedulerConfig struct {
	Cluster string
	// Term fences everything that the scheduler sends.
	Term uint64
	// Shards is the number of shards, 1 or more.
	Shards int
	// BatchSize is how many pods share a round at the most; 0: DefaultBatchSize.
	// It has no influence on decisions.
	BatchSize int
	// Profiles by scheduler name; nil: the default profile.
	Profiles map[string]*compile.Profile
	// Binder commits placements; nil: they count as committed at once, and no extender is asked to bind.
	Binder bind.Binder
	// BindGroup is how many placements one call of the Binder gets at the most, and BindCalls
	// how many calls are under way at once; 0: 100 and 4, for a binder whose placements share
	// commits. One that commits each by itself wants groups of 1, so that none waits for another.
	BindGroup, BindCalls int
	// VolumeWriter writes what placements make of volumes and claims before their pods are
	// bound; nil: nowhere, they count as bound at once.
	VolumeWriter volumes.Writer
	// VolumeController says that somebody else binds a claim to the volume that was found for
	// it, as Kubernetes' volume controller does.
	VolumeController bool
	// DisruptionController says that somebody else keeps the status of PodDisruptionBudgets, as
	// Kubernetes' disruption controller does. Otherwise it is worked out from their specs and the
	// pods.
	DisruptionController bool
	// Journal keeps queue entries; nil: nowhere.
	Journal journal.Store
	// Evictor carries preemptions out; nil: victims are gone at once.
	Evictor Evictor
	// SyncPreemption says that preemptors are not gated while their victims are told to leave
	// (the feature gate SchedulerAsyncPreemption is off).
	SyncPreemption bool
	// Reporter tells the pods' owners what becomes of them; nil: nobody does.
	Reporter Reporter
	// Decisions receives every decision; nil: nowhere.
	Decisions *observe.DecisionLog
	// Recorder writes down what the loop takes in, decides and takes back; nil: nobody does.
	Recorder *record.Writer
	// PodNamed finds pods that are not this scheduler's, to explain that; nil: they are not known.
	PodNamed func(namespace, name string) *v1.Pod
	// OutOfTree are plugins besides the built-in ones; nil: there are none.
	OutOfTree *outoftree.Config
	// Tracer makes spans of attempts; nil: none.
	Tracer *tracing.Tracer
	// Fanout is passed on to the workers' side; Shards, Cluster and Term are filled
	// in.
	Fanout fanout.Config
	// InitialBackoff and MaxBackoff bound how long a failed pod waits; MaxUnschedulable
	// is how long one that fits nowhere rests at the most. 0: upstream's 1 s, 10 s and
	// 5 minutes.
	InitialBackoff, MaxBackoff, MaxUnschedulable time.Duration
	// WaitBackoffOut has pods wait their backoff out though nothing else is to be decided (the
	// feature gate SchedulerPopFromBackoffQ is off).
	WaitBackoffOut bool
	// Heartbeat is told of the loop's turns; nil: nobody looks.
	Heartbeat *observe.Heartbeat
	// Now is the clock; nil: the real one.
	Now func() time.Time
	// QueueNow is the queue's clock, where that is another: a simulation's stands still, so
	// that how long it takes has no influence on what it decides: turns have no bounds then, and it does not
	// matter what an attempt costs. nil: Now.
	QueueNow func() time.Time
	// Registerer receives the metrics; nil: nowhere.
	Registerer prometheus.Registerer
	// Extenders are the configuration's. With ExtendersInline the loop waits for what they say,
	// so that a run does not depend on how fast they are; ExtendersCommit says that one that
	// binds has told those whose the pods are, so that the Binder is not to.
	Extenders                        []configv1.Extender
	ExtendersInline, ExtendersCommit bool
	extenderTransport                http.RoundTripper // nil: connections
	answerLimits                     answers.Limits    // tests make them smaller
	// Fence returns an error once somebody else may lead: it is asked before an extender is to
	// bind. nil: nobody does.
	Fence func() error
}

// Scheduler is the scheduling loop of one term: the only writer of placement state.
// Make it, load it, then Run it; everything else may be called from any goroutine
// while it runs.
type Scheduler struct {
	cfg      SchedulerConfig
	state    *state.State
	queue    *queue.Queue
	fanout   *fanout.Fanout
	evaluate func(context.Context, []fanout.Request) ([]*scorer.Result, error) // fanout's
	compiler *compile.Compiler
	// compileClass is the compiler's.
	compileClass func(*v1.Pod, *compile.Profile, compile.World) (*compile.Class, error)
	metrics      *observe.Meters
	bugs         *observe.Bugs
	inbox        *inbox
	cycles       *bind.Cycles
	outOfTree    *outoftree.Plugins // nil: there are none
	outcomes     outcomes
	journal      *journal.Writer
	life         context.Context // ends the loop
	stop         context.CancelFunc
	reads        *observe.Reads
	ended        chan struct{} // closed when Run returns
	cause        error         // why, set before

	// The rest belongs to the loop.
	answers  *answers.Engine
	ready    []bind.Job
	failures bindFailures // what the log was told of binds
	batches  uint64       // how many there were; sweptAt: at the last sweep
	sweptAt  uint64
	swept    time.Time
	fillAt   time.Time      // when counters go on to come and go
	tracing  *tracing.Batch // the running batch's; nil: none
	popped   []*queue.Pod
	behind   []*queue.Pod // of popped, those that the running batch leaves behind
	happened []queue.Kind // what the event at hand has come to
	popTime  time.Time    // when the running batch was popped
	// promising says that the decision at hand has begun to change more than what is held of its class.
	promising  bool
	quarantine quarantine
	out        outsideTables
	seq        uint64
	binding    map[types.UID]*pendingBind // assumed, the bind not yet reported
	// preempting are the pods whose victims are being told to leave.
	preempting map[types.UID]struct{}
	// evictions is how many preemptions are being carried out, and whyLeaving why victims have to leave.
	evictions  int
	whyLeaving map[types.UID]string
	nominees   *nominees.Cache
	candidates *preempt.Finder
	size       batchSize
	aside      bool // the batch, or the last one, is of pods that were set aside
	arrivals   map[types.UID]time.Time
	history    *observe.History
	// failing are the pods whose last attempt ended in an error, or found a cluster without nodes: nobody waits for what
	// becomes of them.
	failing  map[types.UID]struct{}
	err      error
	watchers []chan<- struct{} // told when the loop is idle
	budget   budget
	// rows counts how often a row came or went.
	rows uint64
	parking
	extenders *extenders.Lanes
	// draining says that nothing is decided any more, and what is under way comes to its end.
	draining bool
	// newMembers says that SetMembers was called.
	newMembers bool
	attemptLog observe.AttemptLog
}

// NewScheduler makes a scheduler with an empty cluster.
func NewScheduler(cfg SchedulerConfig) (*Scheduler, error) {
	if cfg.Shards < 1 {
		return nil, fmt.Errorf("number of shards is %d, expected 1 or more", cfg.Shards)
	}
	if cfg.BatchSize == 0 {
		cfg.BatchSize = DefaultBatchSize
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	free := cfg.QueueNow != nil // its clock stands still, or is nobody's to compare with
	if !free {
		cfg.QueueNow = cfg.Now
	}
	if cfg.Profiles == nil {
		cfg.Profiles = map[string]*compile.Profile{v1.DefaultSchedulerName: rules.DefaultProfile(v1.DefaultSchedulerName)}
	}
	if cfg.Reporter == nil {
		cfg.Reporter = silent{}
	}
	s := &Scheduler{
		cfg:        cfg,
		state:      state.New(cfg.Shards),
		compiler:   compile.New(),
		quarantine: quarantine{},
		out:        newOutsideTables(),
		inbox:      newInbox(),
		journal:    journal.New(cfg.Journal),
		budget:     budget{free: free},
		ended:      make(chan struct{}),
		binding:    map[types.UID]*pendingBind{},
		preempting: map[types.UID]struct{}{},
		whyLeaving: map[types.UID]string{},
		size:       newBatchSize(cfg.BatchSize),
		arrivals:   map[types.UID]time.Time{},
		history:    observe.NewHistory(),
		failing:    map[types.UID]struct{}{},
	}
	if !free {
		s.state.Bound(state.Bounded())
	}
	s.compileClass = s.compiler.Class
	s.state.UseAnnotations(compile.NodeAnnotations(cfg.Profiles))
	s.life, s.stop = context.WithCancel(context.Background())
	s.metrics = observe.NewMeters(cfg.Registerer, cfg.Term)
	s.bugs = observe.NewBugs(s.metrics)
	s.reads = observe.NewReads(func(f func()) { s.inbox.put(f) }, s.await, s.bugs)
	s.cycles = bind.New(bind.Config{
		Binder:  cfg.Binder,
		Volumes: s.state.Storage().Binder(volumes.BinderConfig{Writer: cfg.VolumeWriter, Completes: !cfg.VolumeController}),
		Group:   cfg.BindGroup, Calls: cfg.BindCalls, Fence: cfg.Fence, CommitExtended: !cfg.ExtendersCommit,
		Now: cfg.Now, Report: s.outcome, Progress: s.bindProgress, Refused: oneNode,
	})
	var err error
	s.extenders, err = extenders.New(extenders.Config{
		Extenders: cfg.Extenders, BindNothing: cfg.Binder == nil, Inline: cfg.ExtendersInline, Transport: cfg.extenderTransport,
		Life: s.life, Loop: forReviewers{s}, Cache: s.state.Cache, Metrics: s.metrics.Set(),
	})
	if err != nil {
		return nil, err
	}
	s.outOfTree, err = outoftree.New(s.life, cfg.OutOfTree, outoftree.Options{
		Loop: forReviewers{s}, Cache: s.state.Cache, Metrics: s.metrics.Set(), Meter: s.metrics.Framework(), Now: cfg.Now,
		Extenders: extender.Framed(s.extenders.List()), Acts: s.cycles.Plugin, PreBinding: s.cycles.PreBinding(), Met: s.bugs.Plugin,
	})
	if err != nil {
		return nil, err
	}
	plugins, err := s.outOfTree.ForQueue(s.life, s.changed)
	if err != nil {
		return nil, errors.Join(err, s.outOfTree.Close())
	}
	s.state.OnUntold(s.partLeftOut)
	hints := state.Hints{State: s.state, Profiles: cfg.Profiles, Preemptors: s.preempting}
	s.queue = queue.New(queue.Config{
		OutOfTree: plugins, Met: s.bugs.Hint,
		Now: cfg.QueueNow, InitialBackoff: cfg.InitialBackoff, MaxBackoff: cfg.MaxBackoff,
		MaxUnschedulable: cfg.MaxUnschedulable, WaitBackoffOut: cfg.WaitBackoffOut,
		Meter: s.metrics.Queue(), Timer: cfg.Now,
		Profiles: hints, Plugins: rules.QueuePlugins(hints),
	})
	s.nominees = nominees.New(s.queue, s.state.Cache, s.state.Storage())
	s.state.SetHooks(state.Hooks{
		Changed: s.outOfTree.Changed, Pending: s.queue.All, Mend: s.mend,
		Panicked: func() { s.metrics.Panicked(whileTakingIn) },
	})
	s.state.FollowBudgets(!cfg.DisruptionController)
	f := cfg.Fanout
	f.Cluster, f.Term, f.Shards = cfg.Cluster, cfg.Term, s.state
	f.Registerer = cfg.Registerer
	f.OnPasses = s.metrics.Passed
	s.fanout = fanout.New(f)
	s.evaluate = s.fanout.Evaluate
	s.answers = answers.New(answers.Config{
		Tables: s.state.Cache, BatchSize: cfg.BatchSize, Limits: cfg.answerLimits, Recycle: s.fanout.Recycle,
	})
	s.state.Watch(s.answers.Log())
	s.candidates = preempt.NewFinder(preempt.Config{
		Nodes: s.state.Cache, Budgets: s.state.Budgets(), Nominees: s.nominees, Engine: s.answers, Workers: s.fanout,
		BatchSize: cfg.BatchSize, Now: func() time.Time { return s.cfg.QueueNow() },
		DryRuns: s.metrics.DryRuns(), Rows: s.metrics.DryRunRows(),
	})
	return s, nil
}

// SetMembers names the live workers.
func (s *Scheduler) SetMembers(members []fanout.Member) {
	s.fanout.SetMembers(members)
	s.inbox.put(func() { s.newMembers = true })
}

// takeMembers makes the workers known that SetMembers named, also where there is no pod
// to decide.
func (s *Scheduler) takeMembers(ctx context.Context) {
	if !s.newMembers {
		return
	}
	s.newMembers = false
	if err := s.fanout.Refresh(ctx); err != nil {
		s.fail(err)
	}
}

// Load puts objects and journal entries in before Run.
func (s *Scheduler) Load(all *objects.Snapshot, entries map[types.UID]*pb.QueueEntry) {
	s.cfg.Recorder.Begin(s.cfg.Cluster, s.cfg.Term, all)
	s.queue.Restore(entries)
	s.outOfTree.Load(all)
	for _, obj := range all.Cluster {
		s.takeInFound(obj, func() { s.clusterSet(obj) })
	}
	for _, n := range all.Nodes {
		s.takeInFound(n, func() { s.nodeSet(n) })
	}
	for _, p := range all.Pods {
		if !objects.IsTerminal(p) {
			s.takeInFound(p, func() { s.podSet(p) })
		}
	}
	// Entries of pods that are gone, at their end or on a node by now.
	for _, uid := range s.queue.Unclaimed() {
		s.journal.Put(uid, nil)
	}
}

// Deliver hands over changes of objects, in order. Each is a piece of work of its own, so that a turn looks at the clock
// after each: a tenant's pod of many containers or terms may take longer than a turn has for all.
func (s *Scheduler) Deliver(events []objects.Event) {
	next := 0
	take := func() {
		e := &events[next]
		next++
		s.event(e)
		s.pluginsSaw(e)
	}
	s.inbox.put(slices.Repeat([]func(){take}, len(events))...)
}

// ErrStopped is what a Scheduler answers whose Run has returned.
var ErrStopped = status.Error(codes.Unavailable, "this term's scheduler has stopped")

// Run schedules until ctx ends, or one of the errors ends the term that fail lists. It is called
// once.
func (s *Scheduler) Run(ctx context.Context) error {
	defer close(s.ended)
	defer s.fanout.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	defer s.stop()
	var behind sync.WaitGroup
	behind.Go(func() { s.journal.Run(ctx) })
	behind.Go(func() { s.cycles.Run(ctx) })
	s.outOfTree.Run(ctx)
	s.cause = s.loop(ctx)
	s.reads.End()
	s.state.Budgets().End()
	cancel()
	behind.Wait()
	s.extenders.Wait()
	s.journal.Farewell(ctx)
	if err := s.outOfTree.Close(); err != nil {
		klog.FromContext(ctx).Error(err, "Plugins have not closed")
	}
	return s.cause
}

// Drain ends Run in good order: no pod is decided any more, the binds under way come to
// their end, and the journal is written. When ctx ends before that, so does Run, and the binds
// that are left have no outcome: the next leader will see it. Drain returns after Run, which
// has to be under way.
func (s *Scheduler) Drain(ctx context.Context) error {
	s.inbox.put(func() { s.draining = true })
	select {
	case <-s.ended:
		return s.cause
	case <-ctx.Done():
	}
	s.stop()
	<-s.ended
	return cmp.Or(s.cause, ctx.Err())
}

func (s *Scheduler) loop(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		begun := s.cfg.Now()
		s.cfg.Heartbeat.Turn()
		decided, ended := s.turn(ctx, begun)
		s.cfg.Heartbeat.Turn()
		s.metrics.Turn(s.cfg.Now().Sub(begun))
		if ended {
			return s.err
		}
		if decided || s.reads.Pending() || !s.inbox.empty() || !s.draining && s.isCounting() && s.restsCounting() == 0 {
			continue
		}
		s.rest()
		timer.Reset(s.untilWake())
		select {
		case <-ctx.Done():
		case <-s.inbox.ready:
		case <-timer.C:
		}
	}
}

// inboxTime is for how long a turn takes the inbox in. What is left is the next turn's: a flood of events makes no
// turn long, and decisions get their share of the time. What a simulation has delivered
// is taken in before it decides, however long that takes.
const inboxTime = 10 * time.Millisecond

// turn takes in a part of the inbox and decides a batch, if there is one. It began at begun. With ended the loop is
// to end, with s.err.
func (s *Scheduler) turn(ctx context.Context, begun time.Time) (decided, ended bool) {
	s.inbox.drain(func() bool { return s.budget.over(s.cfg.Now().Sub(begun), inboxTime) })
	s.takeMembers(ctx)
	s.extenders.GiveTurns()
	s.queue.Flush()
	s.sweep(begun)
	s.fillSome()
	s.reads.Next()
	switch {
	case s.err != nil, ctx.Err() != nil, s.draining && len(s.binding) == 0:
		return false, true
	case s.draining:
		return false, false
	}
	if len(s.resumed) > 0 {
		s.aside = false
		s.scheduleResumed(ctx)
		return true, false
	}
	// Batches of pods that were set aside take turns with those of all others.
	if s.aside = !s.aside; s.aside {
		if s.popped = s.popAside(); len(s.popped) > 0 {
			s.schedule(ctx, s.popped)
			return true, false
		}
		s.aside = false
	}
	s.popped = s.queue.PopBatch(s.size.next(), s.popped[:0])
	if len(s.popped) == 0 {
		return false, false
	}
	s.schedule(ctx, s.popped)
	return true, false
}

// sweepEvery is how often what is kept grows older, and counters are looked through that nobody uses, these while
// batches are decided.
const sweepEvery = 5 * time.Second

// sweep has what is kept grow older where it is time, and looks counters through if batches were decided since.
func (s *Scheduler) sweep(now time.Time) {
	if now.Sub(s.swept) < sweepEvery {
		return
	}
	s.compiler.Age()
	s.answers.Age()
	decided := s.batches > s.sweptAt
	if s.swept, s.sweptAt = now, s.batches; decided {
		s.state.Sweep()
	}
}

// rest is entered when no pod can be decided now.
func (s *Scheduler) rest() {
	now := s.cfg.Now()
	s.metrics.Sizes(s.queue, s.state.Cache, s.cycles.UnderWay(), s.journal.Lag())
	s.metrics.Rest(now, len(s.binding) > 0)
	if len(s.watchers) == 0 || !s.idle() {
		return
	}
	for _, w := range s.watchers {
		close(w)
	}
	s.watchers = nil
}

// idle tells whether nothing is left to do until something changes. A pod whose own
// spec makes every attempt an error, or that has no node to be tried on, is tried again
// and again, but nothing comes of it.
func (s *Scheduler) idle() bool {
	if len(s.binding) > 0 || s.evictions > 0 || len(s.parked)+len(s.resumed) > 0 || !s.inbox.empty() {
		return false
	}
	failing := 0
	for uid := range s.failing {
		if p := s.queue.Get(uid); p != nil && p.Place() == queue.ErrorBackoff {
			failing++
		}
	}
	return s.queue.Waiting() == failing
}

func (s *Scheduler) untilWake() time.Duration {
	most := time.Hour
	if s.compiler.Kept() || s.answers.Ages() {
		most = sweepEvery
	}
	if d := s.restsCounting(); d > 0 && s.isCounting() {
		most = d
	}
	wake := s.queue.NextWake()
	if wake.IsZero() {
		return most
	}
	return min(max(wake.Sub(s.cfg.QueueNow()), 0), most)
}

// Idle waits until no pod waits for a decision or a bind.
func (s *Scheduler) Idle(ctx context.Context) error {
	ch := make(chan struct{})
	s.inbox.put(func() { s.watchers = append(s.watchers, ch) })
	return s.await(ctx, ch)
}

// await waits for the loop to close done.
func (s *Scheduler) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-s.ended:
		return s.stopped(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopped tells why nobody answers any more.
func (s *Scheduler) stopped(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.cause != nil:
		return fmt.Errorf("%w: %w", ErrStopped, s.cause)
	}
	return ErrStopped
}

// fail ends the loop, and with it the term: the next leader starts from what is committed. These errors end one, and no
// other does:
//
//	error                where it comes from                     why the term can't go on
//	lease.ErrDeposed     the outcome of a bind                   another leads: the right to write is gone
//	fanout.ErrDeposed    workers are asked, or made known        another leads: workers refuse this term
//	the tables' own      a change that could not be undone, or   rows are not what is there: pods might be promised
//	                     counters that could not be filled       room that others have
//
// What a pod, a node or another object does wrong, what a plugin, an extender or a worker does wrong, and an attempt that
// meets a bug end no term: they rest or are in quarantine. Nor does what only reads: its caller gets the error.
func (s *Scheduler) fail(err error) {
	s.err = errors.Join(s.err, err)
	s.stop()
}
