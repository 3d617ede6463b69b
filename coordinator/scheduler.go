package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/aside"
	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/domains"
	"github.com/shardsched/shardsched/coordinator/extenders"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/intake"
	"github.com/shardsched/shardsched/coordinator/journal"
	"github.com/shardsched/shardsched/coordinator/nominees"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/quarantine"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/state"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Scheduler is the scheduling loop of one term: the only writer of placement state.
// Make it, load it, then Run it; everything else may be called from any goroutine
// while it runs.
type Scheduler struct {
	cfg       SchedulerConfig
	state     *state.State
	intake    *intake.Intake
	queue     *queue.Queue
	aside     *aside.Aside
	compiler  *compile.Compiler
	answers   *answers.Engine
	fanout    *fanout.Fanout
	chooser   *choice.Chooser
	nominees  *nominees.Cache
	preempt   *preempt.Finder
	outOfTree *outoftree.Plugins // nil: there are none
	extenders *extenders.Lanes
	cycles    *bind.Cycles
	claims    *devices.Binder
	journal   *journal.Writer
	kept      *journal.History
	gangs     *journal.Gangs
	guard     *quarantine.Guard
	// evaluate is the fan-out's.
	evaluate func(context.Context, []fanout.Request) ([]*scorer.Result, error)

	frozen *frozenClock // nil: time goes on by itself
	inbox  *inbox
	reads  *observe.Reads
	// mapNames are the names of nodes that maps leave out.
	mapNames observe.MapNames
	// arrivals has a place for each explanation that asks the API server.
	arrivals chan struct{}

	life  context.Context // ends the loop
	upTo  int64           // the revision of the last change that was taken in
	stop  context.CancelFunc
	ended chan struct{} // closed when Run returns
	cause error         // why, set before

	// The rest belongs to the loop.
	err      error             // ends the term
	watchers []chan<- struct{} // told when the loop is idle
	// draining says that nothing is decided any more, and what is under way comes to its end.
	draining bool
	// newMembers says that SetMembers was called.
	newMembers bool
	budget     budget
	sweeps     sweeps
	happened   []queue.Kind // what the event at hand has come to

	// What is known of pods that are on their way.
	seq         uint64 // of the last decision
	batch       batch
	ahead       ahead
	tuning      tuning
	binds       binds
	admission   admission
	preemptions preemptions
	parking     parking
	groups      *groups.Groups // nil: there are no pod groups
	domains     *domains.Index // of pod groups' topology keys
	reservation reservation
	simulations map[types.NamespacedName]*simulation // of pod groups that are tried in steps
	promises    promises
	// failing are the pods whose last attempt ended in an error, or found a cluster without nodes: nobody waits for what
	// becomes of them.
	failing map[types.UID]struct{}

	// What is told.
	groupReporter GroupReporter // nil: nobody is told of pod groups
	metrics       *observe.Meters
	bugs          *observe.Bugs
	history       *observe.History
	since         time.Time // when it was made: its leader began to lead
	attemptLog    observe.AttemptLog
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
	if s.cfg.Shards == 0 {
		s.state.Cut(ShardsFor(len(all.Nodes)))
	}
	s.cfg.Recorder.Begin(s.cfg.Cluster, s.cfg.Term, all)
	s.upTo = all.Revision
	if all.NoDevices {
		s.state.Claims().NotServed()
	}
	s.queue.Restore(entries)
	s.outOfTree.Load(all)
	for _, obj := range all.Cluster {
		s.takeInFound(obj, func() { s.intake.Set(obj) })
	}
	for _, n := range all.Nodes {
		s.takeInFound(n, func() { s.intake.SetNode(n) })
	}
	for _, p := range all.Pods {
		if !objects.IsTerminal(p) {
			s.takeInFound(p, func() { s.podSet(p) })
		}
	}
	s.queue.Each(func(p *queue.Pod) {
		switch {
		case s.isLeftHeld(p):
			s.unnominate(p)
		case p.NominatedNode != "" && p.Obj.Status.NominatedNodeName == "": // the journal says so
			s.cfg.Recorder.Nominated(p.Obj.UID, p.NominatedNode)
		}
	})
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
	work := slices.Repeat([]func(){take}, len(events))
	if s.frozen != nil {
		work = slices.Insert(work, 0, s.frozen.read())
	}
	s.inbox.put(work...)
	if n := len(events); n > 0 {
		s.inbox.put(func() { s.upTo = max(s.upTo, events[n-1].Revision) })
	}
}

// Seen waits until the changes up to a revision are taken in, of objects that have revisions: those of a store of ours.
func (s *Scheduler) Seen(ctx context.Context, revision int64) error {
	return s.reads.Read(ctx, observe.Read{Step: func() bool { return true }, Waits: func() bool { return s.upTo < revision }})
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
	behind.Go(func() { s.gangs.Run(ctx) })
	behind.Go(func() { s.keepHistory(ctx) })
	behind.Go(func() { s.cycles.Run(ctx) })
	behind.Go(func() { s.countRefusals(ctx) })
	s.outOfTree.Run(ctx)
	s.cause = s.loop(ctx)
	s.reads.End()
	s.state.Budgets().End()
	cancel()
	behind.Wait()
	s.extenders.Wait()
	behind.Go(func() { s.kept.Farewell(ctx) })
	behind.Go(func() { s.gangs.Farewell(ctx) })
	s.journal.Farewell(ctx)
	behind.Wait()
	if err := s.outOfTree.Close(); err != nil {
		klog.FromContext(ctx).Error(err, "Plugins have not closed")
	}
	return s.cause
}

// keepHistory reads what earlier leaders remembered, which the loop is handed in one step, and keeps what this one does.
func (s *Scheduler) keepHistory(ctx context.Context) {
	earlier := observe.NewHistory(nil)
	s.kept.Run(ctx, earlier.Take, func() {
		s.inbox.put(func() { s.history.Recall(earlier) })
	})
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
		s.metrics.Progressed(begun, s.seq, s.queue)
		s.cfg.Heartbeat.Turn()
		decided, ended := s.turn(ctx, begun)
		s.cfg.Heartbeat.Turn()
		s.metrics.Turn(s.cfg.Now().Sub(begun))
		if ended {
			return s.err
		}
		if decided || s.reads.Pending() || !s.inbox.empty() || !s.draining && s.aside.MayGoOn() {
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
	if !s.cfg.Observe {
		s.queue.Flush()
	}
	s.reviewHold()
	s.sweep(begun)
	s.tellNews(begun)
	if err := s.aside.Fill(); err != nil {
		s.fail(err)
	}
	s.reads.Next()
	switch {
	case s.err != nil, ctx.Err() != nil, s.draining && len(s.binds.pending) == 0:
		return false, true
	case s.draining, s.cfg.Observe:
		return false, false
	}
	if s.batch.popped = s.popPromised(s.batch.popped[:0]); len(s.batch.popped) > 0 {
		s.aside.Others()
		s.schedule(ctx, s.batch.popped)
		return true, false
	}
	if len(s.parking.resumed) > 0 {
		s.aside.Others()
		s.scheduleResumed(ctx)
		return true, false
	}
	if s.batch.popped = s.aside.Pop(s.batch.size.next(), s.batch.popped[:0]); len(s.batch.popped) > 0 {
		s.schedule(ctx, s.batch.popped)
		return true, false
	}
	s.batch.popped = s.queue.PopBatch(s.batch.size.next(), s.batch.popped[:0])
	if len(s.batch.popped) == 0 {
		return false, false
	}
	s.schedule(ctx, s.batch.popped)
	return true, false
}

// sweepEvery is how often what is kept grows older, and counters are looked through that nobody uses, these while
// batches are decided.
const sweepEvery = 5 * time.Second

// sweeps is when, and before which batch, the last sweep was.
type sweeps struct {
	at    time.Time
	batch uint64
	news  time.Time // when news of pod groups are told; zero: there are none
}

// sweep has what is kept grow older where it is time, and looks counters through if batches were decided since.
func (s *Scheduler) sweep(now time.Time) {
	if now.Sub(s.sweeps.at) < sweepEvery {
		return
	}
	s.compiler.Age()
	s.answers.Age()
	decided := s.batch.number > s.sweeps.batch
	if s.sweeps.at, s.sweeps.batch = now, s.batch.number; decided {
		s.state.Sweep()
	}
}

// rest is entered when no pod can be decided now.
func (s *Scheduler) rest() {
	now := s.cfg.Now()
	s.metrics.Sizes(s.queue, s.state.Cache, s.cycles.UnderWay(), s.journal.Lag())
	s.metrics.PodGroups(s.groups)
	s.metrics.Rest(now, len(s.binds.pending) > 0)
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
	if len(s.binds.pending) > 0 || s.preemptions.underWay > 0 || len(s.parking.parked)+len(s.parking.resumed) > 0 || !s.inbox.empty() {
		return false
	}
	if s.cfg.Observe {
		return true // pods wait for others' decisions
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
	if d, any := s.aside.Until(); d > 0 && any {
		most = d
	}
	if s.groups.HasNews() {
		most = min(most, newsEvery)
	}
	if d := s.aside.SearchingRests(); d > 0 { // for reads
		most = min(most, d)
	}
	wake := s.queue.NextWake()
	if held := s.reservation.wakes(); wake.IsZero() || !held.IsZero() && held.Before(wake) {
		wake = held
	}
	if wake.IsZero() || s.cfg.Observe {
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
//	the tables' own      a change that could not be undone, or   rows are not what is there: pods might be assumed on
//	                     counters that could not be filled       room that others have
//
// What a pod, a node or another object does wrong, what a plugin, an extender or a worker does wrong, and an attempt that
// meets a bug end no term: they rest or are in quarantine. Nor does what only reads: its caller gets the error.
func (s *Scheduler) fail(err error) {
	s.err = errors.Join(s.err, err)
	s.stop()
}
