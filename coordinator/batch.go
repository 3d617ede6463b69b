package coordinator

import (
	"context"
	"fmt"
	"math"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/coordinator/volumes"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// noNodes is upstream's message where the cluster has no node at all.
const noNodes = "no nodes available to schedule pods"

// roundCandidates is how many candidates the answers of one round may name: as many as fit in
// a message.
const roundCandidates = 1 << 17

// attempt is one popped pod with its class.
type attempt struct {
	pod   *queue.Pod
	prof  *compile.Profile
	class *compile.Class
	// question is what the pod asks the decision engine, as of the last call of Scheduler.question.
	question answers.Question
	// unobserved tells that its affinity terms count only once it is placed: nobody is behind it in the
	// batch.
	unobserved bool
	// volatile tells that other placements may change what the pod is compiled to, which was
	// of that version of the cluster's storage.
	volatile bool
	storage  uint64
	// observing is what it took to make its terms known.
	observing time.Duration
	// failed ends the attempt before any node is looked at.
	failed error
	trace  *tracing.Attempt // nil: it has none
	// top are the best nodes as the decision saw them, where that is spelled out.
	top []*pb.ScoredNode
	// begun is when the pod was popped.
	begun time.Time
	// plugins is what the out-of-tree plugins make of it; nil: its profile has none.
	plugins *pluginReview
	// answer is what those outside the loop have said, where they were asked; nil: they were not.
	answer *outsiders
	// shrunk is what extenders have left of the candidates of its preemption; nil: they were not
	// asked.
	shrunk *shrunk
}

// schedule decides a batch, pod by pod in queue order.
func (s *Scheduler) schedule(ctx context.Context, pods []*queue.Pod) { s.scheduleAll(ctx, pods, nil) }

// scheduleAll decides attempts that have their answers, and then a batch.
func (s *Scheduler) scheduleAll(ctx context.Context, pods []*queue.Pod, resumed []*attempt) {
	s.answers.SetDeciding(true)
	defer s.answers.SetDeciding(false)
	now := s.cfg.Now()
	s.popTime = now
	s.tally.deciding.start(now)
	s.tally.working.start(now)
	s.tracing = s.cfg.Tracer.Begin(len(pods) + len(resumed))
	attempts, err := s.prepareAll(pods, resumed...)
	defer s.leaveBehind()
	if err == nil {
		err = s.ask(ctx, attempts)
	}
	if err != nil {
		s.giveBack(ctx, attempts, err)
		return
	}
	begun := s.cfg.Now()
	for i := range attempts {
		// A pod that an event has brought before this one is to be decided first: the rest
		// of the batch waits for that.
		a := &attempts[i]
		if a.answer == nil && !s.queue.Turn(a.pod) || !s.decide(ctx, a) {
			s.giveBack(ctx, attempts[i:], nil)
			break
		}
		if s.size.invalid {
			s.giveBack(ctx, attempts[i+1:], nil)
			break
		}
		if next := i + 1; s.budget.over(s.cfg.Now().Sub(begun), decideTime) && next < len(attempts) && attempts[next].answer == nil {
			s.cut(attempts, next)
			break
		}
	}
	s.size.end()
	s.dispatch()
	s.metrics.batch(len(attempts), s.cfg.Now().Sub(now))
	s.metrics.engine(s.answers.Work())
	s.metrics.sizes(s.queue, s.cache.Cache, s.bindings.underWay(), s.journal.lag())
}

// leaveBehind gives back the pods that were popped and are not of the batch any more, once it is decided.
func (s *Scheduler) leaveBehind() {
	for _, p := range s.behind {
		s.queue.GiveBack(p)
	}
	s.behind = s.behind[:0]
}

// prepareAll compiles the pods of a batch. Their affinity terms are made known first: one
// that is placed may repel another behind it, as may one that is nominated. A pod with more of them than
// a batch may bring is the last of its batch.
func (s *Scheduler) prepareAll(pods []*queue.Pod, resumed ...*attempt) ([]attempt, error) {
	s.batches++
	attempts := make([]attempt, 0, len(pods)+len(resumed))
	endObserving := s.cache.beginObserving()
	full := func() bool { return len(attempts) > 0 && attempts[len(attempts)-1].unobserved }
	for i, r := range resumed {
		if full() {
			s.resumed = append(s.resumed, resumed[i:]...)
			break
		}
		if a, ok := s.readmit(r); ok {
			attempts = append(attempts, a)
		}
	}
	for _, p := range pods {
		if full() {
			s.behind = append(s.behind, p)
		} else if a, ok := s.admit(p); ok {
			attempts = append(attempts, a)
		}
	}
	s.observeNominated()
	endObserving()
	begin := s.cfg.Now()
	now := begin
	for i := range attempts {
		a, before := &attempts[i], now
		s.compile(a)
		now = s.cfg.Now()
		s.charge(a, a.observing+now.Sub(before), now)
		if next := i + 1; s.budget.over(now.Sub(begin), prepareTime) && next < len(attempts) && attempts[next].answer == nil {
			for i := range attempts[next:] {
				s.behind = append(s.behind, attempts[next+i].pod)
				attempts[next+i].trace.Finish(tracing.GivenBack, nil)
			}
			attempts = attempts[:next]
			s.size.cut(next)
			break
		}
	}
	s.metrics.prepared(attempts, now.Sub(begin))
	err := s.cache.settle()
	s.chargeSettling(attempts, s.cfg.Now().Sub(now))
	return s.setAside(attempts), err
}

// observeNominated makes known what the pods carry that others have to find room beside. It holds until nominations or
// what is known of volumes change; what is in quarantine does not.
func (s *Scheduler) observeNominated() {
	w := s.cache
	if w.nominations == s.queue.Nominations() && w.storage == w.volumes.Version() && len(s.quarantine) == 0 {
		return
	}
	others, before := w.observed, w.nominated
	w.observed = nil
	for _, node := range s.queue.NominatedNodes() {
		for _, p := range s.queue.Nominated(node) {
			s.observe(p.Obj, math.MaxInt)
		}
	}
	w.nominated, w.observed = w.observed, others
	w.nominations, w.storage = s.queue.Nominations(), w.volumes.Version()
	if len(s.quarantine) > 0 {
		w.nominations = 0
	}
	for _, c := range before {
		w.counters.Release(c)
	}
}

// admit opens an attempt; false where there is nothing to decide for the pod.
func (s *Scheduler) admit(p *queue.Pod) (attempt, bool) {
	a, ok := s.admitWith(p, nil)
	if ok {
		a.begun, a.trace = s.popTime, s.tracing.Attempt(p.Obj, p.Attempts, p.Timestamp)
	}
	return a, ok
}

// admitWith is admit with a trace that was begun.
func (s *Scheduler) admitWith(p *queue.Pod, trace *tracing.Attempt) (attempt, bool) {
	prof := s.cfg.Profiles[p.Obj.Spec.SchedulerName]
	_, node, _ := s.cache.Pod(p.Obj.UID)
	if prof == nil || p.Obj.DeletionTimestamp != nil || node != "" {
		if prof != nil && node == "" {
			s.cfg.Reporter.Skipped(p.Obj)
		}
		s.queue.Done(p.Obj.UID)
		return attempt{}, false
	}
	delete(s.failing, p.Obj.UID)
	a := attempt{pod: p, prof: prof, trace: trace}
	if p.Obj.Spec.Affinity == nil { // there is nothing to be made known but volumes
		a.unobserved = !s.observe(p.Obj, s.cache.mayBring)
		return a, true
	}
	begin := s.cfg.Now()
	a.unobserved = !s.observe(p.Obj, s.cache.mayBring)
	a.observing = s.cfg.Now().Sub(begin)
	return a, true
}

// compile gives an attempt its class.
func (s *Scheduler) compile(a *attempt) {
	a.trace.Begin(tracing.Compile)
	defer a.trace.End(tracing.Compile)
	a.class, a.failed = s.classOf(a.pod.Obj, a.prof)
	a.storage = s.cache.volumes.Version()
	if a.class != nil {
		a.volatile = a.class.Volatile
	} else {
		a.volatile = storage.HasClaims(a.pod.Obj)
	}
}

// renew compiles a pod with claims anew where a placement before it has changed the
// storage: the claim may have got its volume, or a volume may be taken. Its class, if it is
// another one then, is asked for by itself.
func (s *Scheduler) renew(a *attempt) error {
	if !a.volatile || a.storage == s.cache.volumes.Version() {
		return nil
	}
	s.compile(a)
	return s.cache.settle()
}

// ask gets answers for the classes of a batch, but for those whose answer still serves: in one
// round, unless the answers may be too long for that.
func (s *Scheduler) ask(ctx context.Context, attempts []attempt) error {
	nodes := s.cache.Nodes()
	batch := s.answers.Begin(len(attempts))
	if nodes == 0 {
		return nil
	}
	for i := range attempts {
		if a := &attempts[i]; a.failed == nil && a.class.Rejected == nil {
			if a.failed = s.quarantined(a.class); a.failed == nil {
				batch.Join(a.class)
			}
		}
	}
	var profiles []string // of the needs' first pods
	for i := range attempts {
		a := &attempts[i]
		if a.failed != nil || a.class.Rejected != nil {
			continue
		}
		var class uint64
		var need int
		if a.failed = s.looking(a.class, func() {
			q := s.question(a)
			if a.class.Base != nil && q.Node == "" && !q.Alone { // else the pod shares no answer in any case
				q.Nominees = forEngine(s.nominees(a.pod.Obj, a.class))
			}
			class, need = batch.Want(q)
		}); a.failed != nil {
			continue
		}
		if need < 0 {
			s.metrics.held(a.pod.Obj.Spec.SchedulerName)
			a.trace.Held(class)
			continue
		}
		if need == len(profiles) {
			profiles = append(profiles, a.pod.Obj.Spec.SchedulerName)
		}
		a.trace.Asks(class)
	}
	needs := batch.Needs()
	s.size.asked(len(attempts), len(needs))
	for from, to := 0, 0; from < len(needs); from = to {
		to = from + 1
		for all := needs[from].Offers(nodes); to < len(needs); to++ {
			if all += needs[to].Offers(nodes); all > roundCandidates {
				break
			}
		}
		if err := s.fetch(s.tracing.FanOut(ctx), needs[from:to], profiles[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// fetch turns what the engine needs into a fan-out, and hands the answers over. A class that can not be evaluated goes into
// quarantine: where it is the only one that is asked for, by a panic. profiles are those of the pods that wait.
func (s *Scheduler) fetch(ctx context.Context, needs []*answers.Need, profiles []string) error {
	requests := make([]fanout.Request, len(needs))
	s.asking = s.asking[:0]
	evaluate := s.evaluate
	for i, n := range needs {
		requests[i] = fanout.Request{Class: n.Class, Candidates: n.Candidates, Diagnose: n.Diagnose}
		s.asking = append(s.asking, asking{s.metrics.of(profiles[i]), n.Pods})
		if n.Pods == 0 && !n.Here {
			s.tally.requeries++
			s.metrics.requeries.Inc()
		}
		if n.Here {
			evaluate = s.fanout.EvaluateHere
			s.distrust(ctx, n)
		}
	}
	results, err := evaluate(ctx, requests)
	if err != nil {
		return err
	}
	for i, n := range needs {
		switch failed := results[i].Failed; {
		case failed == nil:
			s.answers.Take(n, results[i])
		case n.Alone():
			panic(failed)
		default:
			s.confine(suspect{class: n.Class.ID()}, whileEvaluating, failed)
		}
	}
	return nil
}

// fetchOne is fetch for one pod.
func (s *Scheduler) fetchOne(ctx context.Context, a *attempt, n *answers.Need) error {
	return s.fetch(a.trace.Again(ctx, n.Class.ID()), []*answers.Need{n}, []string{a.pod.Obj.Spec.SchedulerName})
}

// distrust has the workers suspected on whose answers the own tables have to answer.
func (s *Scheduler) distrust(ctx context.Context, n *answers.Need) {
	if n.Why != nil {
		s.fanout.Blame(ctx, n.Liar, n.Why)
	}
	if n.Doubted == nil {
		return
	}
	// The answer is of this very moment, so it can not be right. Who has said what of it is found by holding the workers' next
	// answers against the own tables.
	klog.FromContext(ctx).Info("What workers have answered does not settle, the own tables answer and the workers' next answers are audited",
		"class", n.Class.ID())
	s.metrics.unsettled.Inc()
	s.fanout.Watch(n.Doubted)
}

// question is what a pod asks the decision engine, but for its nominees: to list them takes a look at each promised node.
func (s *Scheduler) question(a *attempt) *answers.Question {
	outside := s.asksOutside(a)
	p := s.outOfTree.of(a.pod.Obj)
	a.question = answers.Question{
		Class: a.class, Node: a.pod.Nomination(),
		Alone: p != nil || outside, Reviewed: outside || p != nil && (p.filters || p.scores),
	}
	return &a.question
}

// passed takes in what the plugins did for a request.
func (s *Scheduler) passed(request int, passes []scan.Pass) {
	for i := range passes {
		s.plugins.record(scorer.PluginName(passes[i].Plugin), scorer.ExtensionPointName(passes[i].Point), passes[i].Took)
	}
	if request < len(s.asking) {
		s.metrics.passed(s.asking[request], passes)
	}
}

// giveBack returns pods that were popped but not decided. They keep their place.
func (s *Scheduler) giveBack(ctx context.Context, attempts []attempt, err error) {
	if ctx.Err() == nil && err != nil {
		s.fail(err)
	}
	for i := range attempts {
		s.queue.GiveBack(attempts[i].pod)
		attempts[i].trace.Finish(tracing.GivenBack, err)
	}
}

// decisionOf begins the decision of an attempt.
func (s *Scheduler) decisionOf(a *attempt) *pb.Decision {
	return &pb.Decision{
		Seq:     s.seq + 1,
		Pod:     a.pod.Obj.Namespace + "/" + a.pod.Obj.Name,
		Uid:     string(a.pod.Obj.UID),
		Profile: a.pod.Obj.Spec.SchedulerName,
		Nodes:   uint32(s.cache.Nodes()),
	}
}

// decideOne is decide once guests can look.
func (s *Scheduler) decideOne(ctx context.Context, a *attempt) bool {
	d := s.decisionOf(a)
	if err := s.renew(a); err != nil {
		if ctx.Err() == nil {
			s.fail(err)
		}
		return false
	}
	if s.size.invalid { // a row was made anew, of which held answers know nothing
		return false
	}
	if a.volatile && s.waits(a) {
		s.cache.forgetPostponed()
		return true
	}
	var refusedBy []string
	var p *answers.Answer
	switch {
	case d.Nodes == 0:
		a.failed, d.Message = nil, noNodes
	case a.failed != nil:
		d.Message = a.failed.Error()
	case a.class.Rejected != nil:
		d.Message = answers.FitError(int(d.Nodes), nil) + " " + a.class.Rejected.Message + "."
		refusedBy = a.class.Rejected.Plugins
	default:
		q := s.question(a)
		q.Nominees = forEngine(s.nominees(a.pod.Obj, a.class))
		if q.Alone {
			own, err := s.ownAnswer(ctx, a, q)
			if err != nil {
				if ctx.Err() == nil {
					s.fail(err)
				}
				return false
			}
			if end := s.preFilter(ctx, a); end != nil {
				return s.endHosted(ctx, a, own, d, end)
			}
			if s.looks(a) {
				return s.decideLooked(ctx, a, q, own, d)
			}
		}
		c, own, err := s.choose(ctx, a, q)
		if err != nil {
			if ctx.Err() == nil {
				s.fail(err)
			}
			return false
		}
		d.Feasible = uint32(c.Feasible)
		switch p = own; {
		case p != nil:
			if d.Message, refusedBy, err = s.refusal(p, a, answers.Reasons{}); err != nil {
				s.fail(err)
				return false
			}
		case c.Feasible > 1 && a.class.ScoreError != nil:
			// A single node is not scored, so nothing is wrong with it.
			a.failed = a.class.ScoreError
			d.Message = a.failed.Error()
		default:
			a.top = s.spellOut(a, c)
			return s.place(ctx, a, d, c)
		}
	}
	return s.unplaced(ctx, a, p, d, refusedBy)
}

// choose takes the best row for a pod; where there is none, it gives the answer that has the reasons.
func (s *Scheduler) choose(ctx context.Context, a *attempt, q *answers.Question) (answers.Choice, *answers.Answer, error) {
	a.trace.Begin(tracing.Merge)
	defer a.trace.End(tracing.Merge)
	for {
		c, found, need := s.answers.Best(q)
		switch {
		case found:
			return c, nil, nil
		case need == nil:
			p, _ := s.answers.Own(q)
			return c, p, nil
		}
		if err := s.fetchOne(ctx, a, need); err != nil {
			return c, nil, err
		}
	}
}

// ownAnswer is the answer of a pod's own class, for reviewers.
func (s *Scheduler) ownAnswer(ctx context.Context, a *attempt, q *answers.Question) (*answers.Answer, error) {
	p, need := s.answers.Own(q)
	if need == nil {
		return p, nil
	}
	if err := s.fetchOne(ctx, a, need); err != nil {
		return nil, err
	}
	p, _ = s.answers.Own(q)
	return p, nil
}

// place promises the chosen row to a pod and queues its bind.
func (s *Scheduler) place(ctx context.Context, a *attempt, d *pb.Decision, c answers.Choice) bool {
	s.promising = true
	if a.plugins != nil {
		return s.placeHosted(ctx, a, d, c)
	}
	a.trace.Begin(tracing.Assume)
	table := s.cache.Table(int(c.Row.Shard))
	d.Node, d.Score = table.Name(c.Row.Index), c.Score
	pod := a.pod.Obj
	var work *volumes.Work
	var err error
	if a.prof.BindsVolumes() && storage.HasClaims(pod) {
		if work, err = s.reserve(pod, d.Node); err != nil {
			s.metrics.assumeErrors.Inc()
			err = fmt.Errorf("running Reserve plugin %q: %w", rules.VolumeBinding, err)
		}
	}
	if err == nil {
		if err = s.assume(a, d); err != nil {
			for _, pv := range s.cache.volumes.Unreserve(work) {
				s.queue.Move(queue.VolumeUpdated(pv, pv))
			}
		}
	}
	if err != nil {
		a.failed = err
		d.Node, d.Score, d.Feasible, d.Message = "", 0, 0, a.failed.Error()
		s.record(a, d, true)
		s.refuse(ctx, a, d, nil, nil)
		return true
	}
	a.trace.End(tracing.Assume)
	a.trace.Decided(d)
	s.record(a, d, false, work.Assumed()...)
	s.binding[pod.UID] = &promise{}
	s.queue.Done(pod.UID)
	job := bindJob{
		pod: a.pod, binding: objects.Binding{Pod: pod, Node: d.Node}, decision: d,
		extender: extender.Binder(s.extenders.list, pod),
		work:     work, patience: a.prof.BindTimeout(), popped: a.begun, trace: a.trace,
	}
	if s.cfg.Binder == nil || s.cfg.VolumeWriter == nil {
		for _, obj := range s.cache.volumes.Complete(work) {
			s.cfg.Recorder.Change(obj, false, true)
			s.clusterSet(obj)
		}
		if err := s.cache.settle(); err != nil {
			s.fail(err)
			return false
		}
		job.work = nil
	}
	if log := klog.FromContext(ctx).V(4); log.Enabled() { // else the arguments alone are allocations
		log.Info("Placed", "pod", klog.KObj(pod), "node", d.Node, "score", d.Score, "feasible", d.Feasible)
	}
	if s.cfg.Binder != nil {
		if job.work.PreBindNeeded() {
			s.cfg.Reporter.Expected(pod, d.Node)
		}
		s.ready = append(s.ready, job)
		return true
	}
	// There is nowhere to write to: it is as good as there.
	s.bound([]bindJob{job}, []error{nil})
	return s.err == nil
}

// record numbers a decision, keeps and logs it.
func (s *Scheduler) record(a *attempt, d *pb.Decision, failed bool, assumed ...objects.Object) {
	s.seq = d.Seq
	s.remember(a, d)
	s.cfg.Decisions.write(d)
	s.cfg.Recorder.Decision(d, failed, assumed)
	s.metrics.decided.Inc()
}

var _ fanout.Shards = (*state)(nil)
