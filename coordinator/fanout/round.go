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

// round asks one question of all shards. It belongs to the goroutine of Evaluate;
// the attempts' goroutines reach it by outcomes and by reading only.
type round struct {
	f        *Fanout
	ctx      context.Context
	asks     []scan.Ask        // either these
	refuses  []bool            // of asks: a pod may be refused by it
	dry      []scan.PreemptAsk // or these
	question *question
	record   *Record                   // nil: nothing is written
	merged   []merged                  // one of asks
	found    []scorer.PreemptionResult // one of dry
	tally    roundTally

	open     int // parts that are not settled
	parts    []*part
	outcomes chan *attempt
	begun    time.Time   // when workers were asked
	hedge    clock.Timer // nil: nobody has to be hedged any more
	hedgeAt  time.Time   // when it is to come
	hasty    bool        // hedge comes early, because of those that have answered
	hurried  bool        // it has come once, and does not come earlier again
	deadline clock.Timer // nil before the first remote attempt
	patience patience

	// gate lets attempts read the tables until closed; readers are those that do.
	gate    sync.Mutex
	closed  bool
	readers sync.WaitGroup
}

// merged is what one class has come to so far.
type merged struct {
	result *scorer.Result
	passes []scan.Pass
}

// roundTally is what a round adds to Stats.
type roundTally struct {
	localShards, hedges uint64
}

// part is a set of shards whose answer comes from one primary or from its backups.
type part struct {
	shards   []uint32
	from, to int // classes
	tracker  tracker
	primary  *attempt
	backups  []*attempt
	// expected is how long the primary should take, snapshots apart; took is how long it did.
	expected, took time.Duration
	// allowed is how long the primary may take at the most for nobody to blame it, snapshots apart.
	allowed   time.Duration
	loads     bool // snapshots, or many deltas
	snapshots bool
	// overdue are the attempts that others were asked for as well, since hedged; zero: the timer came late, which tells
	// that it is this process that stalls.
	overdue []*attempt
	hedged  time.Time
}

// attempt is one try at some shards. What it found is read once it has come back
// by round.outcomes.
type attempt struct {
	part   *part
	backup int // index among the part's backups; -1: it is the primary
	shards []uint32
	// session is nil for an attempt on the own tables.
	session *session
	cancel  context.CancelFunc
	dropped bool        // its outcome does not count any more
	loads   atomic.Bool // snapshots, among others
	// core is what a core of the own tables took for the attempt, where it is one on the own tables.
	core time.Duration
	// said tells that the session has answered: what the round waits for is that its answer is verified here.
	said atomic.Bool

	err    error
	pieces []piece
	gaps   []gap
	// answers are those of the classes from part.from on, found the same of dry runs; a worker's dry
	// runs stay in the pieces.
	answers []scan.Answer
	found   []scorer.PreemptionResult
}

// run starts an attempt at every part and merges until all parts are settled.
func (r *round) run(plan []assignment) error {
	ctx, cancel := context.WithCancel(r.ctx)
	defer r.close(cancel)
	r.ctx = ctx
	remote := 0
	for i := range plan {
		r.addPart(plan[i].session, plan[i].shards, 0, r.question.len())
		if plan[i].session != nil {
			remote++
		}
	}
	jobs := r.prepare()
	r.startTimers(remote)
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
	return nil
}

// addPart adds a part whose primary is the session, or the own tables.
func (r *round) addPart(s *session, shards []uint32, from, to int) *part {
	p := &part{shards: shards, from: from, to: to}
	p.primary = &attempt{part: p, backup: -1, shards: shards, session: s}
	r.parts = append(r.parts, p)
	r.open++
	return p
}

// prepare makes the jobs of the primaries; nil for the own tables. It also finds
// how patient to be.
func (r *round) prepare() []*job {
	jobs, own := make([]*job, len(r.parts)), r.f.ownPace()
	for i, p := range r.parts {
		s := p.primary.session
		if s == nil {
			continue
		}
		jobs[i] = r.f.newJob(s, p.shards, r.question)
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
func (r *round) startTimers(remote int) {
	if remote == 0 {
		return
	}
	r.begun = r.f.cfg.Clock.Now()
	r.deadline = r.f.cfg.Clock.NewTimer(r.patience.deadline)
	if r.f.cfg.Replicas > 1 && !r.f.cfg.Compare {
		r.hedgeAfter(r.patience.hedge)
	} else {
		r.hedgeAfter(r.patience.own)
	}
}

// hedgeAfter has others asked so long after the round began.
func (r *round) hedgeAfter(d time.Duration) {
	if r.hedge != nil {
		r.hedge.Stop()
	}
	now := r.f.cfg.Clock.Now()
	after := max(d-now.Sub(r.begun), 0)
	r.hedge, r.hedgeAt = r.f.cfg.Clock.NewTimer(after), now.Add(after)
}

// hurry brings the hedge forward once others have shown how long this round takes.
func (r *round) hurry() {
	if r.hedge == nil || r.hurried || r.f.cfg.Replicas < 2 || r.f.cfg.Compare {
		return
	}
	if d, ok := overdue(r.parts); ok && d < r.patience.hedge {
		r.hasty = true
		r.hedgeAfter(d)
	}
}

// close stops what is still under way and waits until nobody reads the tables.
func (r *round) close(cancel context.CancelFunc) {
	cancel()
	for _, t := range []clock.Timer{r.hedge, r.deadline} {
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

// start runs an attempt on a goroutine of its own. j is its job if it has a
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

// contextOf is an attempt's. The round gives up sooner than the deadline, which is for the worker: it may not
// hear of that.
func (r *round) contextOf(a *attempt) (context.Context, context.CancelFunc) {
	if a.session == nil {
		return context.WithCancel(r.ctx)
	}
	return context.WithTimeout(r.ctx, min(2*r.patience.deadline, maxCall))
}

// askSession carries an attempt's job out.
func (r *round) askSession(ctx context.Context, a *attempt, j *job) {
	c := &call{fanout: r.f, session: a.session, job: j, snap: r.snapshot, record: r.record, backup: a.backup >= 0, loads: &a.loads}
	if a.err = c.run(ctx); a.err != nil {
		a.err = r.f.refused(ctx, a.session, a.err)
	}
	a.said.Store(true)
	a.pieces, a.gaps = c.pieces, c.gaps
	if a.err != nil {
		return
	}
	r.f.metrics.requests.WithLabelValues("answered").Inc()
	if !r.reading(func() { r.read(ctx, a) }) {
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
	asks := r.asks[a.part.from:a.part.to]
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

// wait takes in the next thing that happens.
func (r *round) wait() error {
	var hedge, deadline <-chan time.Time
	if r.hedge != nil {
		hedge = r.hedge.C()
	}
	if r.deadline != nil {
		deadline = r.deadline.C()
	}
	select {
	case a := <-r.outcomes:
		return r.outcome(a)
	case <-hedge:
		r.hedge = nil
		return r.afterWhatIsThere(r.hedgeSlow)
	case <-deadline:
		r.deadline = nil
		return r.afterWhatIsThere(r.giveUpLate)
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// afterWhatIsThere runs fn once every attempt that has come back is taken in: it
// is not to count as slow.
func (r *round) afterWhatIsThere(fn func()) error {
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
		a.err = errQuarantined // for what it has said in another attempt
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
		if a.loads.Load() && a.part.took > r.patience.deadline/4 { // patience is generous
			a.session.loadsSlowly.Store(true)
		}
	}
	r.advance(a.part)
	r.hurry()
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

// failure takes in an attempt without an answer: the round is over if the leader
// is, else others try.
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
	r.f.metrics.requests.WithLabelValues("failed").Inc()
	a.session.failed(r.f.cfg.Clock.Now())
	if !r.f.suspect(r.ctx, a.session, a.err) {
		klog.FromContext(r.ctx).Error(a.err, "A worker did not answer, its shards are evaluated elsewhere", "worker", a.session.member.ID, "shards", a.shards)
	}
	a.set(failed)
	if a.backup >= 0 {
		r.replace(a)
	} else {
		r.advance(a.part)
	}
	return nil
}

// replace has the own tables do what a backup did not.
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
		r.drop(p.backups...)
	case useBackups:
		r.settle(p, p.backups...)
		for _, a := range p.overdue {
			if p.tracker.compared || a.isLate(p.tracker.primary) {
				r.outrun(a)
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
		r.merge(a)
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
			j = r.f.newJob(b.session, b.shards, r.question)
		}
		r.start(b, j)
	}
}

// hedgeSlow has the next owners asked for every part that is still open, or the own tables where there are none.
// The own tables do no part before their time, nor one that gets snapshots: that would end the transfer.
func (r *round) hedgeSlow() {
	now := r.f.cfg.Clock.Now()
	early := now.Sub(r.begun) < r.patience.own
	stalled := now.Sub(r.hedgeAt) > r.f.cfg.HedgeAfter // it is this process
	r.hurried = true
	switch {
	case r.hasty:
		r.hasty = false
		r.hedgeAfter(r.patience.hedge)
	case early:
		r.hedgeAfter(r.patience.own)
	case stalled: // next owners may have been asked just now
		r.hedgeAfter(now.Sub(r.begun) + r.patience.own)
	}
	for _, p := range r.parts {
		if p.primary.session == nil {
			continue
		}
		if !p.tracker.hedge() {
			if !early {
				r.replaceLate(p)
			}
			continue
		}
		late := p.waiting()
		loads := p.snapshots || p.tracker.compared && slices.ContainsFunc(late, func(a *attempt) bool { return a.loads.Load() })
		switch {
		case len(late) == 0: // it is here that the answer is looked at
			continue
		case (early || loads) && (p.tracker.compared || !r.f.whollyBacked(p.primary.session, p.shards)):
			continue
		case p.tracker.compared:
			r.decideHere(p)
		default:
			r.startBackups(p)
		}
		if slices.ContainsFunc(p.backups, func(b *attempt) bool { return b.session != nil }) {
			r.tally.hedges++
		}
		p.overdue = late
		if !stalled {
			p.hedged = now
		}
	}
}

// replaceLate has the own tables do what next owners do not answer either, unless they get snapshots.
func (r *round) replaceLate(p *part) {
	if p.tracker.settled || p.tracker.compared || p.snapshots || !p.primary.isLate(p.tracker.primary) {
		return
	}
	now := r.f.cfg.Clock.Now()
	for _, b := range p.backups {
		if b.isLate(p.tracker.backups[b.backup]) && !b.loads.Load() {
			r.drop(b)
			b.session.withHealth(func(h *health) { h.loseHedge(now) })
			r.replace(b)
		}
	}
}

// waiting are the part's attempts that wait for their sessions.
func (p *part) waiting() (out []*attempt) {
	if p.primary.isLate(p.tracker.primary) {
		out = append(out, p.primary)
	}
	for i, b := range p.backups {
		if b.isLate(p.tracker.backups[i]) {
			out = append(out, b)
		}
	}
	return out
}

// outrun takes in that others had the answer sooner, who began later. That is a session's fault where the own tables had to
// be asked, and it has had as long as anybody may take; else it only is slower than others.
func (r *round) outrun(a *attempt) {
	p, now := a.part, r.f.cfg.Clock.Now()
	ownTables, core := false, time.Duration(0)
	for _, b := range p.backups {
		if b.session == nil {
			ownTables, core = true, core+b.core
		}
	}
	if p.hedged.IsZero() || !ownTables || now.Sub(r.begun) < max(p.allowed, allowed(&r.f.cfg, core)) {
		a.session.withHealth(func(h *health) { h.loseHedge(now) })
		return
	}
	r.late(a, errSlow)
}

// giveUpLate has the own tables answer for every attempt that is still under way.
func (r *round) giveUpLate() {
	for _, p := range r.parts {
		if p.tracker.settled {
			continue
		}
		if p.primary.isLate(p.tracker.primary) {
			r.late(p.primary, errLate)
			p.tracker.primary = failed
		}
		for _, b := range p.backups {
			if b.isLate(p.tracker.backups[b.backup]) {
				r.late(b, errLate)
				r.replace(b)
			}
		}
		if len(p.backups) == 0 && p.primary.session != nil && p.tracker.primary != running {
			r.startLocalBackup(p)
		}
		if p.tracker.compared {
			r.advance(p) // backups that have answered have nobody to agree with
		}
	}
}

// isLate tells whether an attempt still waits for its session.
func (a *attempt) isLate(s standing) bool { return a.session != nil && s == running && !a.said.Load() }

// late drops an attempt for which the round waited long enough. Nobody is to blame for a snapshot that takes long: the
// next ones are loaded beside rounds.
func (r *round) late(a *attempt, why error) {
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
