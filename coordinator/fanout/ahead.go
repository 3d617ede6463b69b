package fanout

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// Ahead is a round whose caller changes the tables while workers answer:
//
//	EvaluateAhead ──> workers judge the tables of now ─────────────┐
//	      └─ the own tables judge the classes that are audited     v
//	      └─ the caller goes on ───────────> Results: answers are read, checked and merged
//
// Only workers answer, and only if they have the shards: nobody reads the tables meanwhile. What they do not answer is asked for
// again by the caller, with Evaluate.
//
// The next round ahead may begin before this one is answered. A worker gets its request at once, and takes the two in turn:
//
//	caller   EvaluateAhead   EvaluateAhead       Results         Results
//	          │ turn 1        │ turn 2, follows 1   ^               ^
//	          v               v                     │               │
//	worker    judges turn 1 ────────────────────────┴ judges turn 2 ┘
type Ahead struct {
	round  *round
	cancel context.CancelFunc
	// collected is closed by Results: answers may be read. before tells in which decision a row was chosen last when the round
	// began, if it has changed since.
	collected chan struct{}
	before    func(shard, row uint32) (lastDecision uint64, changed bool)
}

// Askable is how many workers may be asked now.
func (f *Fanout) Askable() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if s.well() {
			n++
		}
	}
	return n
}

// MayAskAhead tells whether there are workers that a round ahead may ask.
func (f *Fanout) MayAskAhead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.cfg.Compare && len(f.sessions) > 0
}

// EvaluateAhead begins Evaluate for classes of a later batch; nil: they have to be asked for by Evaluate. The caller may change the
// tables until it calls Results or Drop.
func (f *Fanout) EvaluateAhead(ctx context.Context, requests []Request) *Ahead {
	plan, standby, err := f.plan(ctx)
	here := func(a assignment) bool { return a.session == nil }
	large := func(r Request) bool { return !fits(r.Class) }
	if err != nil || slices.ContainsFunc(plan, here) || slices.ContainsFunc(requests, large) {
		return nil
	}
	ctx, cancel := f.detached(ctx, maxCall)
	asks, refuses := f.asksOf(requests)
	r := f.newRound(ctx, plan, asks, refuses)
	a := &Ahead{round: r, cancel: cancel, collected: make(chan struct{})}
	r.ahead = a
	jobs := r.begin(plan)
	if slices.ContainsFunc(r.parts, func(p *part) bool { return p.snapshots }) || a.audit(ctx) != nil {
		a.Drop()
		return nil
	}
	r.begun = f.cfg.Clock.Now()
	for i, p := range r.parts {
		x := p.primary
		x.previous, x.turn = x.session.last, newTurn(r.number, jobs[i])
		x.session.last = x.turn
		r.start(x, jobs[i])
	}
	f.warm(ctx, standby)
	return a
}

// audit has the own tables answer what Results is to compare.
func (a *Ahead) audit(ctx context.Context) error {
	r := a.round
	for _, p := range r.parts {
		for i := range r.asks {
			if !r.f.audits(p.primary.session) {
				continue
			}
			own := r.f.answers.Take(1)
			if err := r.f.evaluateOwn(ctx, p.shards, []scan.Ask{r.askOf(p, i)}, own); err != nil {
				return err
			}
			if p.primary.audits == nil {
				p.primary.audits = map[int][]scan.Answer{}
			}
			p.primary.audits[i] = own
		}
	}
	return nil
}

// turn is what the session's call in the next round ahead has to know of its call in this one.
type turn struct {
	number  uint64            // the round's
	targets map[uint32]uint64 // by shard: the generation that the worker has once it has answered
	over    chan struct{}     // closed once the call is over
	ended   time.Time         // when the call was over; read once over is closed
	failed  bool              // the worker may never have got the call; read once over is closed
}

func newTurn(number uint64, j *job) *turn {
	t := &turn{number: number, targets: make(map[uint32]uint64, len(j.shards)), over: make(chan struct{})}
	for i := range j.shards {
		t.targets[j.shards[i].shard] = j.shards[i].target
	}
	return t
}

// underWay tells whether there is a call that is not over.
func (t *turn) underWay() bool {
	if t == nil {
		return false
	}
	select {
	case <-t.over:
		return false
	default:
		return true
	}
}

// since is when the worker could begin with a call that was sent at the given time and follows the turn.
func (t *turn) since(sent time.Time) time.Time {
	if t != nil && !t.underWay() && t.ended.After(sent) {
		return t.ended
	}
	return sent
}

// brings is the generation of a shard that the worker has once it has answered; 0: there is no call, or it is not about the shard.
func (t *turn) brings(shard uint32) uint64 {
	if t == nil {
		return 0
	}
	return t.targets[shard]
}

// inTurn runs a session's call. It does not wait for the previous one: the worker takes them in turn. Deltas that the previous call
// brings to the worker are not sent again.
func (a *attempt) inTurn(ctx context.Context, c *call) (err error) {
	defer func() {
		a.turn.ended, a.turn.failed = c.fanout.cfg.Clock.Now(), err != nil
		close(a.turn.over)
	}()
	underWay := a.previous.underWay()
	for i := range c.job.shards {
		s := &c.job.shards[i]
		if g, ok := a.session.generation(s.shard); ok && g > s.base && g <= s.target {
			s.skip(g)
		}
		if g := a.previous.brings(s.shard); underWay && g > s.base && g <= s.target {
			s.skip(g)
		}
	}
	if underWay {
		return c.follow(ctx, a.previous)
	}
	return c.run(ctx)
}

// follow is run for a call that the worker takes after another. It errs with errRoundOver where that one fails: the worker, which may
// never have got it, would wait for it.
func (c *call) follow(ctx context.Context, previous *turn) error {
	c.follows = previous
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	go func() {
		select {
		case <-previous.over:
			if previous.failed {
				giveUp(errRoundOver)
			}
		case <-ctx.Done():
		}
	}()
	err := c.run(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errRoundOver) {
		return errRoundOver
	}
	return err
}

// await waits until answers may be read; false: they never may. A round that was not asked ahead does not wait.
func (a *Ahead) await() bool {
	if a == nil {
		return true
	}
	select {
	case <-a.collected:
		return true
	case <-a.round.ctx.Done():
		return false
	}
}

// Drop ends the round without results.
func (a *Ahead) Drop() { a.round.close(a.cancel) }

// Results are those of Evaluate for the tables when the round began; nil for classes that have to be asked for by Evaluate. before
// tells in which decision a row was chosen last then, if it has changed since. It errs with ErrDeposed.
func (a *Ahead) Results(before func(shard, row uint32) (lastDecision uint64, changed bool)) ([]*scorer.Result, error) {
	r := a.round
	defer a.Drop()
	a.before = before
	close(a.collected)
	results := make([]*scorer.Result, len(r.asks))
	if ok, err := a.collect(); !ok || err != nil {
		return results, err
	}
	r.f.count(&r.tally)
	for i := range r.merged {
		m := &r.merged[i]
		if !a.answers(i) {
			r.f.Recycle(m.result)
			continue
		}
		results[i] = m.result
		r.f.cfg.OnPasses(i, m.passes)
	}
	return results, nil
}

// answers tells whether all workers have answered for a class, and their answers are whole.
func (a *Ahead) answers(class int) bool {
	m := &a.round.merged[class]
	return !m.result.Overflow && m.result.Failed == nil && !slices.ContainsFunc(a.round.parts, func(p *part) bool {
		return slices.ContainsFunc(p.primary.gaps, func(g gap) bool { return g.from <= class && class < g.to })
	})
}

// collect merges what the workers have answered. It is not ok if one has not: what it does wrong is found out by the round that
// asks again, unless it has said what is untrue.
func (a *Ahead) collect() (ok bool, err error) {
	r := a.round
	late := r.f.cfg.Clock.NewTimer(max(r.patience.own-r.f.cfg.Clock.Since(r.begun), 0))
	defer late.Stop()
	for counted := 0; counted < len(r.parts); {
		var x *attempt
		select {
		case x = <-r.outcomes:
			counted++
		case <-late.C():
			if slices.ContainsFunc(r.parts, func(p *part) bool { return !p.primary.replied.Load() }) {
				return false, nil
			}
			continue // answers are being read
		case <-r.ctx.Done():
			return false, nil
		}
		if x.err == nil && x.session.barred() {
			x.err = errQuarantined // for its answer to another round
		}
		switch {
		case isDeposed(x.err):
			return false, r.f.note(x.err)
		case errors.Is(x.err, errRoundOver) || r.ctx.Err() != nil:
			return false, nil
		case x.err != nil:
			r.blame(x)
			return false, nil
		}
		x.session.withHealth(func(h *health) { h.answer() })
		r.count(x)
	}
	r.mergeAll()
	return true, nil
}
