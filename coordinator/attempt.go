package coordinator

import (
	"context"
	"time"

	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/coordinator/tracing"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// attempt is one try to find a node for a popped pod:
//
//	popped ──admit──> in a batch ──compile──> has its class ──decide──┬──> placed: bound behind the loop
//	  ^                   ^                         │                 ├──> refused: back in the queue
//	  │                   │                         │                 └──> parked: extenders are asked
//	  │                   └──── readmit ── resumed ─┼──── they have answered ────┘
//	  └── given back, or set aside until counters are filled or devices found
//
// A parked pod stays in flight in the queue. A resumed attempt begins anew: only what extenders have said is kept, and what has
// happened since is held against that.
type attempt struct {
	// Try is what a choice knows of it: its pod, profile and trace, and what extenders make of the pod, since it was popped; its class
	// since it was compiled; what plugins make of the pod while it is decided.
	choice.Try

	// Since it was popped:
	begun time.Time
	// resumed: it was parked.
	resumed bool
	// last tells that nobody may stand behind it in the batch, for its affinity terms count only once it is placed.
	last bool
	// registering is the time that it took to register its terms.
	registering time.Duration

	// Since it was compiled: the versions of the cluster's storage and of claims of devices that its class is of.
	storage, claims uint64
	// failed ends the attempt in an error.
	failed error
	// undone: it was compiled while mates held nodes that do not hold them any more.
	undone bool

	// Once it is placed: the best nodes as the decision saw them, where that is spelled out.
	top []*pb.ScoredNode
	// preemption is whom it pushes out, once that is settled; nil: nobody.
	preemption *pb.Preemption

	// beside is what its pod group makes of it, where both have no node.
	beside func(message string) string
}

// volatile tells that placements of other pods, or taking them back, may change what the pod is compiled to.
func (a *attempt) volatile() bool {
	if a.Class != nil {
		return a.Class.Volatile || a.Class.Claims || a.undone
	}
	return storage.HasClaims(a.Pod.Obj) || len(a.Pod.Obj.Spec.ResourceClaims) > 0
}

// since is how long an attempt has taken.
func (a *attempt) since(now time.Time) time.Duration { return now.Sub(a.begun) }

// admit opens an attempt; false where there is nothing to decide for the pod.
func (s *Scheduler) admit(p *queue.Pod) (attempt, bool) {
	a, ok := s.admitWith(p, nil)
	if ok {
		a.begun, a.Trace = s.batch.begun, s.batch.traces.Attempt(p.Obj, p.Attempts, p.Timestamp)
		a.Extenders = s.extenders.Review(p, a.Trace)
	}
	return a, ok
}

// admitWith is admit with a trace that was begun.
func (s *Scheduler) admitWith(p *queue.Pod, trace *tracing.Attempt) (attempt, bool) {
	prof := s.cfg.Profiles[p.Obj.Spec.SchedulerName]
	_, node, _ := s.state.Pod(p.Obj.UID)
	if prof == nil || p.Obj.DeletionTimestamp != nil || node != "" {
		if prof != nil && node == "" {
			s.cfg.Reporter.Skipped(p.Obj)
		}
		s.queue.Done(p.Obj.UID)
		return attempt{}, false
	}
	delete(s.failing, p.Obj.UID)
	p.Backfills = s.backfills(p)
	a := attempt{Try: choice.Try{Pod: p, Profile: prof, Trace: trace}}
	if p.Obj.Spec.Affinity == nil { // there is nothing to be made known but volumes
		a.last = !s.guard.RegisterTerms(p.Obj, s.state.MayBring())
		return a, true
	}
	begin := s.cfg.Now()
	a.last = !s.guard.RegisterTerms(p.Obj, s.state.MayBring())
	a.registering = s.cfg.Now().Sub(begin)
	return a, true
}

// compile gives an attempt its class.
func (s *Scheduler) compile(a *attempt) {
	a.Trace.Begin(tracing.Compile)
	defer a.Trace.End(tracing.Compile)
	a.Class, a.failed = s.guard.ClassOf(a.Pod.Obj, a.Profile)
	a.storage, a.claims = s.state.Storage().Version(), s.state.ClaimsVersion()
}

// renew compiles a pod with claims anew where a placement before it has changed the
// storage: the claim may have got its volume, or a volume may be taken. The same holds for claims of devices. Its class, if it is
// another one then, is asked for by itself.
func (s *Scheduler) renew(a *attempt) error {
	if !a.volatile() || a.storage == s.state.Storage().Version() && a.claims == s.state.ClaimsVersion() {
		return nil
	}
	return s.compileAnew(a)
}

// compileAnew compiles a pod as of now.
func (s *Scheduler) compileAnew(a *attempt) error {
	s.compile(a)
	return s.state.Settle()
}

// parking is the attempts that have left their batches.
type parking struct {
	// parked wait for an answer, or for their turn to have it asked for; resumed have it.
	parked  map[*queue.Pod]*attempt
	resumed []*attempt
	// gangs are all attempts of a parked pod group, some of which are parked.
	gangs map[*queue.Group][]*attempt
}

// park takes an attempt out of its batch, until Resume. What decides it returns true after that, and
// neither records nor refuses.
func (s *Scheduler) park(a *attempt) {
	s.commit()
	kept := *a
	if s.parking.parked == nil {
		s.parking.parked = map[*queue.Pod]*attempt{}
	}
	s.parking.parked[a.Pod] = &kept
}

// readmit prepares a resumed attempt for its decision; false where there is nothing to decide
// any more.
func (s *Scheduler) readmit(a *attempt) (attempt, bool) {
	p := a.Pod
	if s.queue.Get(p.Obj.UID) != p {
		s.queue.Done(p.Obj.UID) // it was deleted meanwhile
		a.Trace.Finish(tracing.GivenBack, nil)
		return attempt{}, false
	}
	fresh, ok := s.admitWith(p, a.Trace)
	if !ok {
		a.Trace.Finish(tracing.GivenBack, nil)
		return attempt{}, false
	}
	fresh.Extenders, fresh.Advice, fresh.begun, fresh.resumed = a.Extenders, a.Advice, a.begun, true
	if !fresh.Extenders.Answered() {
		s.queue.Rejoin(p)
	}
	return fresh, true
}

// scheduleResumed decides the attempts that have their answers.
func (s *Scheduler) scheduleResumed(ctx context.Context) {
	list := s.parking.resumed
	s.parking.resumed = nil
	s.scheduleAll(ctx, nil, list)
}
