package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// round asks one question of all shards. It belongs to the goroutine of Evaluate.
// The attempts' goroutines use only its channel outcomes, and reading.
type round struct {
	f        *Fanout
	number   uint64 // its requests' turn on the wire
	ctx      context.Context
	asks     []scan.Ask        // classes; none where dry is set
	refuses  []bool            // for each of asks: its answer may refuse a pod
	dry      []scan.PreemptAsk // dry runs; none where asks is set
	question *question
	record   *Record                   // nil: nothing is written
	nodes    int                       // of all shards
	merged   []merged                  // one for each of asks
	counted  []*attempt                // whose answers count
	found    []scorer.PreemptionResult // one for each of dry
	tally    roundTally

	open     int // parts that are not settled
	parts    []*part
	outcomes chan *attempt
	begun    time.Time // when the workers were asked

	// hedgeTimer fires when the next owners are asked for the parts that are open; nil: no hedge comes any more.
	hedgeTimer clock.Timer
	hedgeDue   time.Time // when hedgeTimer fires
	hedgeEarly bool      // hedgeTimer was set to fire early, for the other parts have their answers
	hedgeFired bool      // hedgeTimer has fired once, and is not set to fire early again

	deadlineTimer clock.Timer // nil before the first remote attempt
	patience      patience

	// gate lets attempts read the tables until closed; readers counts the attempts that read them now.
	gate    sync.Mutex
	closed  bool
	readers sync.WaitGroup

	// ahead is a round that was asked ahead; nil: it is not.
	ahead *Ahead
}

// merged is the result of one class so far.
type merged struct {
	result *scorer.Result
	passes []scan.Pass
}

// roundTally is what a round adds to Stats.
type roundTally struct {
	localShards, hedges uint64
	chosenShards        uint64 // of localShards, those that no worker was to be asked for
}

// part is a set of shards whose answer comes from one primary or from its backups.
type part struct {
	shards   []uint32
	from, to int // classes
	// candidates are how many a group offers in the answer to each of all classes: the part's share of what is asked for.
	candidates []uint32
	tracker    tracker
	primary    *attempt
	backups    []*attempt
	// expected is how long the primary should take without snapshots; took is how long it did take.
	expected, took time.Duration
	// allowed is the longest time that is no fault of the primary, without snapshots.
	allowed   time.Duration
	loads     bool // the primary gets snapshots, or many deltas
	snapshots bool // the primary gets snapshots
	// hedged are the attempts whose shards the next owners were asked for as well, at hedgedAt. hedgedAt is zero where the
	// timer fired late: then this process stalls, and no worker is slow.
	hedged   []*attempt
	hedgedAt time.Time
}

// attempt is one try to evaluate some shards. The round reads its answer once the attempt
// has come back by round.outcomes.
type attempt struct {
	part   *part
	backup int // index among the part's backups; -1: it is the primary
	shards []uint32
	// session is nil for an attempt on the own tables.
	session *session
	cancel  context.CancelFunc
	dropped bool        // its outcome counts no more
	loads   atomic.Bool // the session gets snapshots, among others
	// core is the time on one core that the attempt took on the own tables; 0: a session was asked.
	core time.Duration
	// replied tells that the session has answered. The round then waits only until the answer is verified here.
	replied atomic.Bool

	err    error
	pieces []piece
	gaps   []gap
	// answers has one answer for each class from part.from on, and found one result for each dry run. The dry runs
	// of a worker stay in pieces.
	answers []scan.Answer
	found   []scorer.PreemptionResult
	// audits are the own tables' answers to classes of a round ahead.
	audits map[int][]scan.Answer
	// turn is this attempt's of a round ahead, and previous the session's in its round ahead before; nil: there was none.
	previous, turn *turn
}

// run starts an attempt at every part and merges until all parts are settled.
func (r *round) run(plan []assignment) error {
	ctx, cancel := context.WithCancel(r.ctx)
	defer r.close(cancel)
	r.ctx = ctx
	jobs := r.begin(plan)
	r.startTimers()
	for i, p := range r.parts {
		r.start(p.primary, jobs[i])
		if r.f.cfg.Compare && p.primary.session != nil {
			p.tracker.compared = true
			r.startBackups(p)
		}
	}
	for r.open > 0 {
		if err := r.wait(); err != nil {
			return err
		}
	}
	r.mergeAll()
	return nil
}

// begin makes the parts, and the jobs of their primaries.
func (r *round) begin(plan []assignment) []*job {
	for i := range plan {
		r.addPart(plan[i].session, plan[i].shards, 0, r.question.len())
		if plan[i].chosen {
			r.tally.chosenShards += uint64(len(plan[i].shards))
		}
	}
	return r.prepare()
}

// addPart adds a part whose primary is the session, or the own tables.
func (r *round) addPart(s *session, shards []uint32, from, to int) *part {
	p := &part{shards: shards, from: from, to: to, candidates: r.offersOf(shards)}
	p.primary = &attempt{part: p, backup: -1, shards: shards, session: s}
	r.parts = append(r.parts, p)
	r.open++
	return p
}

// prepare makes the jobs of the primaries; nil for the own tables. It also sets
// how long the round waits.
func (r *round) prepare() []*job {
	jobs, own := make([]*job, len(r.parts)), r.f.ownPace()
	for i, p := range r.parts {
		s := p.primary.session
		if s == nil {
			continue
		}
		jobs[i] = r.f.newJob(s, p.shards, r.question, p.candidates)
		work := jobs[i].work()
		p.expected, p.loads, p.snapshots = s.expect(work), jobs[i].snapshotRows() > 0, jobs[i].lacksShards()
		w := patienceFor(&r.f.cfg, min(p.expected, own.expect(work)), jobs[i].snapshotRows())
		p.allowed = allowed(&r.f.cfg, own.expect(work))
		r.patience.hedge = max(r.patience.hedge, w.hedge)
		r.patience.own = max(r.patience.own, w.own)
		r.patience.deadline = max(r.patience.deadline, w.deadline)
	}
	return jobs
}

// startTimers starts the clocks before any worker is asked.
func (r *round) startTimers() {
	if !slices.ContainsFunc(r.parts, func(p *part) bool { return p.primary.session != nil }) {
		return
	}
	r.begun = r.f.cfg.Clock.Now()
	r.deadlineTimer = r.f.cfg.Clock.NewTimer(r.patience.deadline)
	if r.f.cfg.Replicas > 1 && !r.f.cfg.Compare {
		r.setHedgeTimer(r.patience.hedge)
	} else {
		r.setHedgeTimer(r.patience.own)
	}
}

// setHedgeTimer has the next owners asked when the round is as old as d.
func (r *round) setHedgeTimer(d time.Duration) {
	if r.hedgeTimer != nil {
		r.hedgeTimer.Stop()
	}
	now := r.f.cfg.Clock.Now()
	after := max(d-now.Sub(r.begun), 0)
	r.hedgeTimer, r.hedgeDue = r.f.cfg.Clock.NewTimer(after), now.Add(after)
}

// hedgeSooner brings the hedge forward once the parts that have answers show how long this round takes.
func (r *round) hedgeSooner() {
	if r.hedgeTimer == nil || r.hedgeFired || r.f.cfg.Replicas < 2 || r.f.cfg.Compare {
		return
	}
	d, ok := earlyHedge(r.parts)
	if d = time.Duration(float64(d) * r.f.hedging.factor()); ok && d < r.patience.hedge {
		r.hedgeEarly = true
		r.setHedgeTimer(d)
	}
}

// close stops the attempts that are still under way and waits until nobody reads the tables.
func (r *round) close(cancel context.CancelFunc) {
	cancel()
	for _, t := range []clock.Timer{r.hedgeTimer, r.deadlineTimer} {
		if t != nil {
			t.Stop()
		}
	}
	r.gate.Lock()
	r.closed = true
	r.gate.Unlock()
	r.readers.Wait()
}

// reading runs fn unless the round is closed. While fn runs the tables do not
// change.
func (r *round) reading(fn func()) bool {
	r.gate.Lock()
	if r.closed {
		r.gate.Unlock()
		return false
	}
	r.readers.Add(1)
	r.gate.Unlock()
	defer r.readers.Done()
	fn()
	return true
}

// start runs an attempt on its own goroutine. j is the job of an attempt with a
// session.
func (r *round) start(a *attempt, j *job) {
	ctx, cancel := r.contextOf(a)
	a.cancel = cancel
	if a.session == nil {
		r.tally.localShards += uint64(len(a.shards))
	}
	r.f.running.Go(func() {
		defer cancel()
		a.err = caught(ctx, func() error {
			if a.session == nil {
				r.evaluateHere(ctx, a)
			} else {
				r.askSession(ctx, a, j)
			}
			return a.err
		})
		select {
		case r.outcomes <- a:
		case <-r.ctx.Done():
		}
	})
}

// contextOf is an attempt's context. Its deadline is for the worker, and is later than the round's: the worker may
// never hear that the round is over.
func (r *round) contextOf(a *attempt) (context.Context, context.CancelFunc) {
	if a.session == nil {
		return context.WithCancel(r.ctx)
	}
	return context.WithTimeout(r.ctx, min(2*r.patience.deadline, maxCall))
}

// askSession asks an attempt's session.
func (r *round) askSession(ctx context.Context, a *attempt, j *job) {
	c := &call{
		fanout: r.f, session: a.session, job: j, snap: r.snapshot, record: r.record, backup: a.backup >= 0, loads: &a.loads,
		ahead: r.ahead != nil, turn: r.number,
	}
	ask := c.run
	if r.ahead != nil {
		ask = func(ctx context.Context) error { return a.inTurn(ctx, c) }
	}
	if a.err = ask(ctx); a.err != nil {
		a.err = r.f.refused(ctx, a.session, a.err)
	}
	a.replied.Store(true)
	a.pieces, a.gaps = c.pieces, c.gaps
	if a.err != nil {
		return
	}
	r.f.metrics.requests.WithLabelValues("answered").Inc()
	if !r.ahead.await() || !r.reading(func() { r.read(ctx, a) }) {
		a.err = errRoundOver
	}
}

// evaluateHere evaluates an attempt's shards on the coordinator's own tables.
func (r *round) evaluateHere(ctx context.Context, a *attempt) {
	begun, hands := r.f.cfg.Clock.Now(), min(r.f.pool.Cores(), len(a.shards)*max(a.part.to-a.part.from, 1))
	defer func() { a.core = time.Duration(hands) * r.f.cfg.Clock.Since(begun) }()
	if len(r.dry) > 0 {
		r.preemptHere(ctx, a)
		return
	}
	asks := r.asksOf(a.part)
	start := r.f.cfg.Clock.Now()
	a.answers = r.f.answers.Take(len(asks))
	open := r.reading(func() {
		a.err = r.f.evaluateOwn(ctx, a.shards, asks, a.answers)
	})
	if !open {
		a.err = errRoundOver
	}
	r.record.evaluatedHere(a, asks, start, r.f.cfg.Clock.Now())
}

// wait takes in the next outcome or timer.
func (r *round) wait() error {
	var hedge, deadline <-chan time.Time
	if r.hedgeTimer != nil {
		hedge = r.hedgeTimer.C()
	}
	if r.deadlineTimer != nil {
		deadline = r.deadlineTimer.C()
	}
	select {
	case a := <-r.outcomes:
		return r.outcome(a)
	case <-hedge:
		r.hedgeTimer = nil
		return r.afterOutcomes(r.onHedgeTimer)
	case <-deadline:
		r.deadlineTimer = nil
		return r.afterOutcomes(r.onDeadline)
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// afterOutcomes runs fn once every attempt that has come back is taken in, so that none of them
// counts as slow.
func (r *round) afterOutcomes(fn func()) error {
	for {
		select {
		case a := <-r.outcomes:
			if err := r.outcome(a); err != nil {
				return err
			}
		default:
			fn()
			return nil
		}
	}
}

// outcome takes in an attempt that has come back.
func (r *round) outcome(a *attempt) error {
	if a.dropped {
		return nil
	}
	if a.err == nil && a.session != nil && a.session.barred() {
		a.err = errQuarantined // for its answer to another attempt
	}
	if a.err != nil {
		return r.failure(a)
	}
	if a.session != nil {
		a.session.withHealth(func(h *health) { h.answer() })
	}
	a.set(answered)
	if a.session != nil && a.backup < 0 {
		a.part.took = r.f.cfg.Clock.Since(r.begun)
		if a.loads.Load() && a.part.took > r.patience.deadline/4 { // a quarter: the deadline is generous
			a.session.loadsSlowly.Store(true)
		}
	}
	r.advance(a.part)
	r.hedgeSooner()
	return nil
}

// set notes how far an attempt is.
func (a *attempt) set(s standing) {
	if a.backup < 0 {
		a.part.tracker.primary = s
	} else {
		a.part.tracker.backups[a.backup] = s
	}
}

// failure takes in an attempt without an answer. The round ends if the leader is deposed; else
// the next owners, or the own tables, evaluate the shards.
func (r *round) failure(a *attempt) error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	if isDeposed(a.err) {
		return a.err
	}
	if a.session == nil {
		return fmt.Errorf("evaluate shards %v here: %w", a.shards, a.err)
	}
	r.blame(a)
	a.set(failed)
	if a.backup >= 0 {
		r.replace(a)
	} else {
		r.advance(a.part)
	}
	return nil
}

// blame notes that a session has not answered.
func (r *round) blame(a *attempt) {
	r.f.metrics.requests.WithLabelValues("failed").Inc()
	a.session.failed(r.f.cfg.Clock.Now())
	if !r.f.suspect(r.ctx, a.session, a.err) {
		klog.FromContext(r.ctx).Error(a.err, "A worker did not answer, its shards are evaluated elsewhere",
			"worker", a.session.member.ID, "shards", a.shards)
	}
}

// replace has the own tables evaluate the shards of a backup.
func (r *round) replace(a *attempt) {
	local := &attempt{part: a.part, backup: a.backup, shards: a.shards}
	a.part.backups[a.backup] = local
	a.part.tracker.backups[a.backup] = running
	r.start(local, nil)
}

// advance does what the part needs next.
func (r *round) advance(p *part) {
	switch p.tracker.next() {
	case startBackups:
		r.startBackups(p)
	case usePrimary:
		r.settle(p, p.primary)
		if len(p.hedged) > 0 && !p.tracker.compared {
			r.f.hedging.inVain()
		}
		r.drop(p.backups...)
	case useBackups:
		r.settle(p, p.backups...)
		if len(p.hedged) > 0 && !p.tracker.compared {
			r.f.hedging.paid()
		}
		for _, a := range p.hedged {
			if p.tracker.compared || a.isOutstanding(p.tracker.primary) {
				r.hedgeLost(a)
			}
		}
		r.drop(p.primary)
	case compare:
		r.compare(p)
	case useOwn:
		r.decideHere(p)
	}
}

// settle merges the attempts that count for the part.
func (r *round) settle(p *part, from ...*attempt) {
	r.open--
	for _, a := range from {
		r.count(a)
		for _, g := range a.gaps {
			r.start(r.addPart(nil, g.shards, g.from, g.to).primary, nil)
		}
	}
}

// drop ends attempts that do not count.
func (r *round) drop(attempts ...*attempt) {
	for _, a := range attempts {
		a.dropped = true
		if a.cancel != nil {
			a.cancel()
		}
	}
}

// startBackups shares a part out among the next owners of its shards.
func (r *round) startBackups(p *part) {
	for _, x := range r.f.nextOwners(p.primary.session, p.shards) {
		b := &attempt{part: p, backup: len(p.backups), shards: x.shards, session: x.session}
		p.backups = append(p.backups, b)
		p.tracker.backups = append(p.tracker.backups, running)
	}
	for _, b := range p.backups {
		var j *job
		if b.session != nil {
			j = r.f.newJob(b.session, b.shards, r.question, p.candidates)
		}
		r.start(b, j)
	}
}

// onHedgeTimer asks the next owners for every part that is still open, or the own tables where there are no next owners.
// The own tables wait until patience.own. They never take a part that gets snapshots, because its transfer would end then.
func (r *round) onHedgeTimer() {
	now := r.f.cfg.Clock.Now()
	beforeOwn := now.Sub(r.begun) < r.patience.own
	stalled := now.Sub(r.hedgeDue) > r.f.cfg.HedgeAfter // this process stalls, not a worker
	r.hedgeFired = true
	switch {
	case r.hedgeEarly:
		r.hedgeEarly = false
		r.setHedgeTimer(r.patience.hedge)
	case beforeOwn:
		r.setHedgeTimer(r.patience.own)
	case stalled: // the next owners may have been asked a moment ago
		r.setHedgeTimer(now.Sub(r.begun) + r.patience.own)
	}
	for _, p := range r.parts {
		if p.primary.session == nil {
			continue
		}
		if !p.tracker.hedge() {
			if !beforeOwn {
				r.replaceOutstanding(p)
			}
			continue
		}
		outstanding := p.outstanding()
		loads := p.snapshots || p.tracker.compared && slices.ContainsFunc(outstanding, func(a *attempt) bool { return a.loads.Load() })
		switch {
		case len(outstanding) == 0: // the answer is here, and is being verified
			continue
		case (beforeOwn || loads) && (p.tracker.compared || !r.f.whollyBacked(p.primary.session, p.shards)):
			continue
		case p.tracker.compared:
			r.decideHere(p)
		default:
			r.startBackups(p)
		}
		if slices.ContainsFunc(p.backups, func(b *attempt) bool { return b.session != nil }) {
			r.tally.hedges++
			p.primary.session.hedged()
		}
		p.hedged = outstanding
		if !stalled {
			p.hedgedAt = now
		}
	}
}

// replaceOutstanding has the own tables evaluate the shards that the next owners do not answer for either, unless these get
// snapshots.
func (r *round) replaceOutstanding(p *part) {
	if p.tracker.settled || p.tracker.compared || p.snapshots || !p.primary.isOutstanding(p.tracker.primary) {
		return
	}
	now := r.f.cfg.Clock.Now()
	for _, b := range p.backups {
		if b.isOutstanding(p.tracker.backups[b.backup]) && !b.loads.Load() {
			r.drop(b)
			b.session.withHealth(func(h *health) { h.loseHedge(now) })
			r.replace(b)
		}
	}
}

// outstanding are the part's attempts whose sessions have not answered.
func (p *part) outstanding() (out []*attempt) {
	if p.primary.isOutstanding(p.tracker.primary) {
		out = append(out, p.primary)
	}
	for i, b := range p.backups {
		if b.isOutstanding(p.tracker.backups[i]) {
			out = append(out, b)
		}
	}
	return out
}

// hedgeLost takes in that the backups of an attempt have answered before its session. The session is at fault where the own
// tables had to be asked and the allowed time is over; else it only is slower than the others.
func (r *round) hedgeLost(a *attempt) {
	p, now := a.part, r.f.cfg.Clock.Now()
	ownTables, core := false, time.Duration(0)
	for _, b := range p.backups {
		if b.session == nil {
			ownTables, core = true, core+b.core
		}
	}
	if p.hedgedAt.IsZero() || !ownTables || now.Sub(r.begun) < max(p.allowed, allowed(&r.f.cfg, core)) {
		a.session.withHealth(func(h *health) { h.loseHedge(now) })
		return
	}
	r.abandon(a, errSlow)
}

// onDeadline has the own tables answer for every attempt that is still under way.
func (r *round) onDeadline() {
	for _, p := range r.parts {
		if p.tracker.settled {
			continue
		}
		if p.primary.isOutstanding(p.tracker.primary) {
			r.abandon(p.primary, errLate)
			p.tracker.primary = failed
		}
		for _, b := range p.backups {
			if b.isOutstanding(p.tracker.backups[b.backup]) {
				r.abandon(b, errLate)
				r.replace(b)
			}
		}
		if len(p.backups) == 0 && p.primary.session != nil && p.tracker.primary != running {
			r.startLocalBackup(p)
		}
		if p.tracker.compared {
			r.advance(p) // the backups' answers have nothing to be compared with
		}
	}
}

// isOutstanding tells whether an attempt's session has not answered yet.
func (a *attempt) isOutstanding(s standing) bool {
	return a.session != nil && s == running && !a.replied.Load()
}

// abandon drops an attempt that has had its time. A slow snapshot is no fault of the session: its next snapshots
// are loaded beside rounds.
func (r *round) abandon(a *attempt, why error) {
	r.drop(a)
	r.f.metrics.requests.WithLabelValues("late").Inc()
	now := r.f.cfg.Clock.Now()
	loads := a.loads.Load()
	klog.FromContext(r.ctx).Error(why, "A worker is late, its shards are evaluated elsewhere",
		"worker", a.session.member.ID, "shards", a.shards, "loads", loads)
	if loads {
		a.session.loadsSlowly.Store(true)
		a.session.withHealth(func(h *health) { h.rest(now) })
		return
	}
	a.session.failed(now)
	r.f.suspect(r.ctx, a.session, why)
}

var (
	errLate = errors.New("no answer before the deadline")
	errSlow = errors.New("others had the answer far sooner")
)

// startLocalBackup has the own tables answer for a whole part.
func (r *round) startLocalBackup(p *part) {
	p.backups = []*attempt{{part: p, backup: 0, shards: p.shards}}
	p.tracker.backups = []standing{running}
	r.start(p.backups[0], nil)
}
