package fanout

import (
	"context"
	"errors"
	"fmt"
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
	hedge    clock.Timer // nil: nobody to hedge with
	hasty    bool        // hedge comes early, because of those that have answered
	hurried  bool        // it has come
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
	loads          bool // snapshots
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
	dropped bool // its outcome does not count any more
	loads   bool // snapshots, among others
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
	jobs := make([]*job, len(r.parts))
	for i, p := range r.parts {
		s := p.primary.session
		if s == nil {
			continue
		}
		jobs[i] = r.f.newJob(s, p.shards, r.question)
		p.expected, p.loads = s.expect(jobs[i].work()), jobs[i].snapshotRows() > 0
		w := patienceFor(&r.f.cfg, p.expected, jobs[i].snapshotRows())
		r.patience.hedge = max(r.patience.hedge, w.hedge)
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
	if r.f.cfg.Replicas > 1 {
		r.hedgeAfter(r.patience.hedge)
	}
}

// hedgeAfter has the next owners asked so long after the round began.
func (r *round) hedgeAfter(d time.Duration) {
	if r.hedge != nil {
		r.hedge.Stop()
	}
	r.hedge = r.f.cfg.Clock.NewTimer(max(d-r.f.cfg.Clock.Since(r.begun), 0))
}

// hurry brings the hedge forward once others have shown how long this round takes.
func (r *round) hurry() {
	if r.hedge == nil || r.hurried {
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
	} else {
		a.loads = j.snapshotRows() > 0
	}
	r.f.running.Go(func() {
		defer cancel()
		if a.session == nil {
			r.evaluateHere(ctx, a)
		} else {
			r.askSession(ctx, a, j)
		}
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
	c := &call{fanout: r.f, session: a.session, job: j, snap: r.snapshot, record: r.record, backup: a.backup >= 0}
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
	if len(r.dry) > 0 {
		r.preemptHere(ctx, a)
		return
	}
	asks := r.asks[a.part.from:a.part.to]
	start := r.f.cfg.Clock.Now()
	a.answers = r.f.answers.Take(len(asks))
	open := r.reading(func() {
		a.err = r.f.pool.Run(ctx, r.f.tables(a.shards), asks, a.answers)
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
		if p.tracker.primary == running {
			now := r.f.cfg.Clock.Now()
			p.primary.session.withHealth(func(h *health) { h.loseHedge(now) })
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

// hedgeSlow has the next owners asked for every part that is still open and that
// has any. Early it leaves parts alone of which the own tables had to do a share: that can wait.
func (r *round) hedgeSlow() {
	backed := r.f.backed
	if r.hasty {
		backed = r.f.whollyBacked
	}
	for _, p := range r.parts {
		if p.primary.session == nil || !p.tracker.hedge() || !backed(p.primary.session, p.shards) {
			continue
		}
		r.tally.hedges++
		r.startBackups(p)
	}
	if r.hasty {
		r.hasty, r.hurried = false, true
		r.hedgeAfter(r.patience.hedge)
	}
}

// giveUpLate has the own tables answer for every attempt that is still under way.
func (r *round) giveUpLate() {
	for _, p := range r.parts {
		if p.tracker.settled {
			continue
		}
		if p.primary.isLate(p.tracker.primary) {
			r.late(p.primary)
			p.tracker.primary = failed
		}
		for _, b := range p.backups {
			if b.isLate(p.tracker.backups[b.backup]) {
				r.late(b)
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

// late drops an attempt for which the round waited long enough.
func (r *round) late(a *attempt) {
	r.drop(a)
	r.f.metrics.requests.WithLabelValues("late").Inc()
	if a.loads {
		a.session.loadsSlowly.Store(true)
	}
	a.session.failed(r.f.cfg.Clock.Now())
	r.f.suspect(r.ctx, a.session, errLate)
	klog.FromContext(r.ctx).Error(errLate, "A worker is late, its shards are evaluated here", "worker", a.session.member.ID, "shards", a.shards)
}

var errLate = errors.New("no answer before the deadline")

// startLocalBackup has the own tables answer for a whole part.
func (r *round) startLocalBackup(p *part) {
	p.backups = []*attempt{{part: p, backup: 0, shards: p.shards}}
	p.tracker.backups = []standing{running}
	r.start(p.backups[0], nil)
}
