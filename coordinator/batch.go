package coordinator

import (
	"context"
	"fmt"
	"math"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/coordinator/store"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/coordinator/volumes"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// noNodes is upstream's message where the cluster has no node at all.
const noNodes = "no nodes available to schedule pods"

const (
	// spareCandidates is for how many pods of a batch a class is asked again by itself: others may
	// follow, and other classes take from the rows, too.
	spareCandidates = 192
	// heldRows is how many rows all answers that are held may have repaired, of some 300 bytes
	// each, and heldRowsMax how many one of them.
	heldRows, heldRowsMax = 1 << 18, 1 << 14
	// groupedShare is the part of that which a group offers as candidates where rows are grouped by
	// domains: other pods take from all of the groups.
	groupedShare = 4
	// roundCandidates is how many candidates the answers of one round may name: as many as fit in
	// a message.
	roundCandidates = 1 << 17
	// fewGroups and manyGroups are how many large groups a class may have without and with domains.
	fewGroups, manyGroups = 4, 64
)

// heldBy is how many rows the answer of a class may have repaired, of so many classes.
func heldBy(classes int) int { return min(heldRows/max(classes, 1), heldRowsMax) }

// firstHeld is for how many changes the first answer of a class is to be held, and heldGrowth how many
// times longer one is to be held than the one before was: to sort and send candidates that nobody uses
// is most of what an answer takes.
const firstHeld, heldGrowth = 1024, 4

// candidates is how many a group offers in an answer that is to serve a batch of so many pods, and as many
// changes after that as it may be held for, going by how many rows the answer before had repaired.
func candidates(q *pb.Query, all, classes, repaired int) int {
	held := heldBy(classes)
	if len(q.GetDomainKeys()) > 0 {
		held /= groupedShare
	}
	held = min(held, max(firstHeld, heldGrowth*all, heldGrowth*repaired))
	return min(held+all+1, pb.MaxCandidates)
}

// candidatesOnce is candidates of a class that is not known to come again.
func candidatesOnce(all int) int { return min(all+1, pb.MaxCandidates) }

// offers is how many candidates an answer may have in a cluster of so many nodes.
func offers(r *fanout.Request, nodes int) int {
	groups := fewGroups
	if r.Class.HasGroups() {
		groups = manyGroups
	}
	return min(groups*r.Candidates, nodes)
}

// freshness is how long batches are by how many of their classes have no answer. Each of those names
// as many candidates as there are pods in the batch, and looks again at as many rows: where nearly
// every pod has a class of its own, short batches take less.
type freshness struct {
	pods int // of the next batch at the most
}

// freshClasses is how many classes without an answer a batch is to have.
const freshClasses = 32

// seen takes in a batch of so many pods, with so many classes that had no answer.
func (f *freshness) seen(pods, classes, most int) {
	if classes <= freshClasses {
		f.pods = min(2*f.pods, most)
	} else {
		f.pods = min(max(pods*freshClasses/classes, 1), most)
	}
}

// maxAsks bounds the rounds for one pod. The second answer is of this very moment, so a third says that
// workers and coordinator disagree: then the own tables answer.
const maxAsks = 2

// attempt is one popped pod with its class.
type attempt struct {
	pod   *queue.Pod
	prof  *compile.Profile
	class *compile.Class
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
	// hosted is what it has of guests; nil: its profile has none.
	hosted *hosted
	// answer is what those outside the loop have said, where they were asked; nil: they were not.
	answer *outsiders
	// shrunk is what extenders have left of the candidates of its preemption; nil: they were not
	// asked. away says that it was parked for that.
	shrunk *shrunk
	away   bool
}

// schedule decides a batch, pod by pod in queue order.
func (s *Scheduler) schedule(ctx context.Context, pods []*queue.Pod) { s.scheduleAll(ctx, pods, nil) }

// scheduleAll decides attempts that have their answers, and then a batch.
func (s *Scheduler) scheduleAll(ctx context.Context, pods []*queue.Pod, resumed []*attempt) {
	s.touches.deciding = true
	defer func() { s.touches.deciding = false }()
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
		if s.disturbed {
			s.giveBack(ctx, attempts[i+1:], nil)
			break
		}
		if next := i + 1; s.budget.over(s.cfg.Now().Sub(begun), decideTime) && next < len(attempts) && attempts[next].answer == nil {
			s.cut(attempts, next)
			break
		}
	}
	s.recover()
	s.dispatch()
	s.metrics.batch(len(attempts), s.cfg.Now().Sub(now))
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
			attempts, s.fresh.pods = attempts[:next], next
			break
		}
	}
	s.metrics.prepared(attempts, now.Sub(begin))
	err := s.cache.settle()
	s.chargeSettling(attempts, s.cfg.Now().Sub(now))
	return s.setAside(attempts), err
}

// observeNominated makes known what the pods carry that others have to find room beside.
func (s *Scheduler) observeNominated() {
	for _, node := range s.queue.NominatedNodes() {
		for _, p := range s.queue.Nominated(node) {
			s.observe(p.Obj, math.MaxInt)
		}
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
	delete(s.hopeless, p.Obj.UID)
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
func (s *Scheduler) renew(ctx context.Context, a *attempt) error {
	if !a.volatile || a.storage == s.cache.volumes.Version() {
		return nil
	}
	s.compile(a)
	if err := s.cache.settle(); err != nil {
		return err
	}
	if a.failed != nil || a.class.Rejected != nil || s.cache.Nodes() == 0 || s.picks.of[a.class.ID()] != nil || s.cache.awaits(a.class) {
		return nil
	}
	return s.askAlone(ctx, a)
}

// askAlone asks for the class of one pod by itself.
func (s *Scheduler) askAlone(ctx context.Context, a *attempt) error {
	s.asks(a, 1)
	class := s.pinned(a.class.Scorer)
	result, err := s.evaluateOne(a.trace.Again(ctx, a.class.ID()), fanout.Request{Class: class, Candidates: s.candidatesFor(a, candidatesOnce(s.cfg.BatchSize))})
	if err != nil {
		return err
	}
	s.saw(a.class.ID())
	s.picks.open(class, result, &s.touches)
	return nil
}

// saw notes that a class was asked for.
func (s *Scheduler) saw(class uint64) {
	if len(s.classes) >= maxRepairedKnown {
		clear(s.classes)
	}
	s.classes[class] = struct{}{}
}

// pinned is a class with its pinned sums as they are now.
func (s *Scheduler) pinned(class *scorer.Class) *scorer.Class {
	if class.Pins() {
		s.metrics.pinned.Inc()
	}
	return class.Pin(tables{s.cache.Cache}.all)
}

// ask sends the classes of a batch to the workers, but for those whose answer still serves: in one
// round, unless the answers may be too long for that.
func (s *Scheduler) ask(ctx context.Context, attempts []attempt) error {
	nodes := s.cache.Nodes()
	limits := servesTo{behind: 256 + nodes/10, rows: heldBy(len(s.picks.of)), pods: len(attempts)}
	s.families.recount(s.touches.columns)
	s.picks.hold(&s.touches, limits, s.fanout.Recycle)
	s.families.hold(s.picks.of)
	if nodes == 0 {
		return nil
	}
	counts := map[uint64]int{}
	var order []*compile.Class
	var looked map[uint64]*attempt // classes that others than tables have a say in, each by one pod
	var profiles []string          // of order
	for i := range attempts {
		if a := &attempts[i]; a.failed == nil && a.class.Rejected == nil {
			if a.failed = s.quarantined(a.class); a.failed == nil {
				s.families.join(a.class)
			}
		}
	}
	for i := range attempts {
		c := attempts[i].class
		if attempts[i].failed != nil || c.Rejected != nil {
			continue
		}
		id := c.Scorer.ID()
		if base := s.families.baseOf(c); base != nil && !s.picks.refuse(id) && s.mayShare(&attempts[i]) {
			if s.picks.of[id] != nil && id != base.ID() { // it was asked by itself for a while
				s.picks.drop(id, s.fanout.Recycle)
			}
			c, id = base, base.ID()
		}
		if p := s.picks.of[id]; p != nil {
			p.idle = 0
			s.metrics.held(attempts[i].pod.Obj.Spec.SchedulerName)
			attempts[i].trace.Held(id)
			continue
		}
		if rows, few := s.fewRows(&attempts[i]); few && counts[id] == 0 {
			if attempts[i].failed = s.looking(c, func() { s.picks.openHere(c.Scorer, rows, &s.touches, tables{s.cache.Cache}, s.eval) }); attempts[i].failed != nil {
				continue
			}
			s.metrics.held(attempts[i].pod.Obj.Spec.SchedulerName)
			attempts[i].trace.Held(id)
			continue
		}
		if counts[id] == 0 {
			order = append(order, c)
			profiles = append(profiles, attempts[i].pod.Obj.Spec.SchedulerName)
		}
		counts[id]++
		if looked[id] == nil && s.looksAtNodes(&attempts[i]) {
			if looked == nil {
				looked = map[uint64]*attempt{}
			}
			looked[id] = &attempts[i]
		}
		attempts[i].trace.Asks(id)
	}
	requests := make([]fanout.Request, len(order))
	s.asking = s.asking[:0]
	for i, c := range order {
		s.asking = append(s.asking, asking{s.metrics.of(profiles[i]), counts[c.Scorer.ID()]})
		_, known := s.classes[c.Scorer.ID()]
		requests[i] = fanout.Request{Class: s.pinned(c.Scorer), Candidates: candidatesOnce(len(attempts))}
		if known || counts[c.Scorer.ID()] > 1 || len(attempts) == 1 {
			before := s.picks.repaired[c.Scorer.ID()]
			if s.families.of[c.Scorer.ID()] != nil { // with another answer all of its classes begin anew
				before = heldRowsMax
			}
			requests[i].Candidates = candidates(c.Query, len(attempts), len(order)+len(s.picks.of), before)
		}
		if a := looked[c.Scorer.ID()]; a != nil {
			requests[i].Candidates = s.candidatesFor(a, requests[i].Candidates)
		}
		s.saw(c.Scorer.ID())
	}
	s.fresh.seen(len(attempts), len(requests), s.cfg.BatchSize)
	for from, to := 0, 0; from < len(requests); from = to {
		to = from + 1
		for all := offers(&requests[from], nodes); to < len(requests); to++ {
			if all += offers(&requests[to], nodes); all > roundCandidates {
				break
			}
		}
		asking := s.asking
		s.asking = asking[from:to]
		results, err := s.evaluate(s.tracing.FanOut(ctx), requests[from:to])
		s.asking = asking
		if err != nil {
			return err
		}
		for i, r := range requests[from:to] {
			if failed := results[i].Failed; failed != nil {
				s.confine(suspect{class: r.Class.ID()}, whileEvaluating, failed)
				continue
			}
			s.picks.open(r.Class, results[i], &s.touches)
			s.picks.of[r.Class.ID()].shared = s.families.of[r.Class.ID()] != nil
		}
	}
	return nil
}

// fewNodes is how many nodes a PreFilter may leave for them to be looked at here.
const fewNodes = 8

// fewRows are the rows of a pod that may get few nodes only, as that of a DaemonSet, where nothing else
// matters.
func (s *Scheduler) fewRows(a *attempt) (rows []cache.Row, few bool) {
	names := a.class.Query.GetNarrowed().GetNames()
	if a.class.Query.GetNarrowed() == nil || len(names) > fewNodes || a.class.Scorer.HasGroups() || s.looksAtNodes(a) {
		return nil, false
	}
	for _, name := range names {
		if row, ok := s.cache.RowOf(name); ok {
			rows = append(rows, row)
		}
	}
	return rows, true
}

// asks tells for whom the workers are about to be asked.
func (s *Scheduler) asks(a *attempt, pods int) {
	s.asking = append(s.asking[:0], asking{s.metrics.of(a.pod.Obj.Spec.SchedulerName), pods})
}

// passed takes in what the plugins did for a request.
func (s *Scheduler) passed(request int, passes []scan.Pass) {
	for i := range passes {
		s.plugins.record(scorer.PluginName(passes[i].Plugin), scorer.ExtensionPointName(passes[i].Point), passes[i].Took)
	}
	if request < len(s.asking) {
		s.metrics.passed(s.asking[request], passes, s.cache.Nodes())
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
	if err := s.renew(ctx, a); err != nil {
		if ctx.Err() == nil {
			s.fail(err)
		}
		return false
	}
	if s.disturbed { // a row was made anew, of which held answers know nothing
		return false
	}
	if a.volatile && s.waits(a) {
		s.cache.forgetPostponed()
		return true
	}
	var refusedBy []string
	var p *pick
	switch {
	case d.Nodes == 0:
		a.failed, d.Message = nil, noNodes
	case a.failed != nil:
		d.Message = a.failed.Error()
	case a.class.Rejected != nil:
		d.Message = fitError(int(d.Nodes), nil) + " " + a.class.Rejected.Message + "."
		refusedBy = a.class.Rejected.Plugins
	default:
		if p = s.picks.of[a.class.Scorer.ID()]; p == nil {
			c, m, err := s.chooseShared(ctx, a)
			if m != nil {
				d.Feasible = uint32(c.feasible)
				a.top = s.spellOut(m, a, c)
				return s.place(ctx, a, d, c)
			}
			if err == nil {
				err = s.askAlone(ctx, a)
			}
			if err != nil {
				if ctx.Err() == nil {
					s.fail(err)
				}
				return false
			}
			p = s.picks.of[a.class.Scorer.ID()]
		}
		if end := s.preFilter(ctx, a); end != nil {
			return s.endHosted(ctx, a, p, d, end)
		}
		if s.looks(a) {
			return s.decideLooked(ctx, a, p, d)
		}
		c, v, err := s.choose(ctx, p, a)
		if err != nil {
			if ctx.Err() == nil {
				s.fail(err)
			}
			return false
		}
		d.Feasible = uint32(c.feasible)
		switch {
		case v == nowhere:
			of, instead, err := s.ownReasons(p, a)
			if err != nil {
				s.fail(err)
				return false
			}
			p.countReasons(of, -1)
			p.countReasons(instead, +1)
			d.Message, refusedBy = p.message(int(d.Nodes))
			p.countReasons(instead, -1)
			p.countReasons(of, +1)
		case c.feasible > 1 && a.class.ScoreError != nil:
			// A single node is not scored, so nothing is wrong with it.
			a.failed = a.class.ScoreError
			d.Message = a.failed.Error()
		default:
			a.top = s.spellOut(p, a, c)
			return s.place(ctx, a, d, c)
		}
	}
	return s.unplaced(ctx, a, p, d, refusedBy)
}

// choose repairs a class's answer and takes the best row, asking the workers again
// where the answer is used up, or where the reasons are wanted.
func (s *Scheduler) choose(ctx context.Context, p *pick, a *attempt) (choice, verdict, error) {
	a.trace.Begin(tracing.Merge)
	defer a.trace.End(tracing.Merge)
	t := tables{s.cache.Cache}
	nominees := s.nominees(a.pod.Obj, a.class)
	for asks := 0; ; asks++ {
		judged := p.judged
		p.repair(&s.touches, t, s.eval)
		if p.judged != judged {
			s.metrics.repaired.Add(float64(p.judged - judged))
		}
		c, v := choice{}, askAgain
		if !p.stale {
			if !p.veto(nominees, t, s.eval) {
				p.startHere(s.touches.end(), t, s.eval)
				p.veto(nominees, t, s.eval)
			}
			if c, ok := s.ownNode(p, a.pod.Nomination()); ok {
				return c, chosen, nil
			}
			c, v = p.best(t)
		}
		if v == nowhere && p.diagnosed {
			c.feasible = p.feasible()
			return c, v, nil
		}
		request := fanout.Request{
			Class:      p.class,
			Candidates: min(candidates(a.class.Query, spareCandidates, len(s.picks.of), len(p.repaired))+len(nominees), pb.MaxCandidates),
			Diagnose:   v == nowhere,
		}
		if v == chosen && a.class.ScoreError != nil && p.told() {
			if err := s.answerHere(ctx, p, request); err != nil {
				return choice{}, nowhere, err
			}
			continue
		}
		if v == chosen {
			why := p.vouch(&c, t, s.eval)
			if why == nil {
				c.feasible = p.feasible()
				return c, v, nil
			}
			if err := s.distrust(ctx, p, c.row, why, request); err != nil {
				return choice{}, nowhere, err
			}
			continue
		}
		if err := s.askOnce(ctx, p, a, asks, request); err != nil {
			return choice{}, nowhere, err
		}
	}
}

// askOnce asks for another answer, for the nth time for this pod.
func (s *Scheduler) askOnce(ctx context.Context, p *pick, a *attempt, n int, r fanout.Request) error {
	switch {
	case n > maxAsks:
		s.lookAtAll(p, r.Diagnose)
		return nil
	case n == maxAsks:
		s.doubt(ctx, p)
		return s.answerHere(ctx, p, r)
	}
	s.asks(a, 0)
	s.tally.requeries++
	s.metrics.requeries.Inc()
	p.class = s.pinned(p.class)
	r.Class = p.class
	result, err := s.evaluateOne(a.trace.Again(ctx, p.class.ID()), r)
	if err != nil {
		return err
	}
	s.fanout.Recycle(p.result)
	p.start(result, s.touches.end(), r.Diagnose)
	return nil
}

// ownNode is the node that a pod is nominated to, which is tried first and then no other.
func (s *Scheduler) ownNode(p *pick, name string) (choice, bool) {
	if name == "" {
		return choice{}, false
	}
	row, ok := s.cache.RowOf(name)
	if !ok {
		return choice{}, false
	}
	p.row(row, tables{s.cache.Cache}, s.eval)
	at, _ := p.index.find(row)
	score, ok := p.alone(at)
	return choice{row: row, score: score, feasible: 1}, ok
}

// place promises the chosen row to a pod and queues its bind.
func (s *Scheduler) place(ctx context.Context, a *attempt, d *pb.Decision, c choice) bool {
	s.promising = true
	if a.hosted != nil {
		return s.placeHosted(ctx, a, d, c)
	}
	a.trace.Begin(tracing.Assume)
	table := s.cache.Table(int(c.row.Shard))
	d.Node, d.Score = table.Name(c.row.Index), c.score
	pod := a.pod.Obj
	var work *volumes.Work
	var err error
	if a.prof.BindsVolumes() && storage.HasClaims(pod) {
		if work, err = s.reserve(pod, d.Node); err != nil {
			s.metrics.assumeErrors.Inc()
			err = fmt.Errorf("running Reserve plugin %q: %w", "VolumeBinding", err)
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
		pod: a.pod, binding: store.Binding{Pod: pod, Node: d.Node}, decision: d,
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

var _ fanout.Shards = (*picture)(nil)
