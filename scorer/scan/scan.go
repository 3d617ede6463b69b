package scan

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/scorer"
)

// minParallelRows is the number of row evaluations (rows times classes) from
// which a second core is worth waking: some 50 µs of work.
const minParallelRows = 2048

// Ask is one class to evaluate.
type Ask struct {
	Class   *scorer.Class
	Options scorer.Options
}

// Answer is what one class comes to over all tables of a run.
type Answer struct {
	Result scorer.Result
	// Passes are the plugins' passes in the order in which they ran, summed over
	// the tables.
	Passes []Pass
}

// Reset empties the answer for a class and keeps its memory.
func (a *Answer) Reset(ask *Ask) {
	a.Result.Reset(ask.Class.ID(), ask.Options.Candidates)
	a.Passes = a.Passes[:0]
}

// Pool holds the evaluators of a process. It is safe for concurrent use.
type Pool struct {
	idle     chan *hand
	searches *scorer.Searches
	// Before is called with a class that is about to be evaluated over a table, on any goroutine; nil:
	// nothing is. Tests have it panic.
	Before func(*scorer.Class)
}

// Searches is what searches for devices have found.
func (p *Pool) Searches() *scorer.Searches { return p.searches }

// hand is one evaluator with the memory for what it found in a run.
type hand struct {
	eval    *scorer.Evaluator
	watch   stopwatch
	partial []Answer
}

// recovered gives the hand another evaluator, and is why the evaluation has failed.
func (h *hand) recovered(value any) error {
	if value == scorer.ErrUnfinished {
		h.eval = h.eval.Resumed()
		return scorer.ErrUnfinished
	}
	h.eval = h.eval.Renewed()
	return Recovered(value)
}

// NewPool makes a pool for that many cores; below one it means all of them.
func NewPool(cores int, c clock.PassiveClock) *Pool {
	if cores < 1 {
		cores = runtime.GOMAXPROCS(0)
	}
	p := &Pool{idle: make(chan *hand, cores), searches: scorer.NewSearches(&sync.Mutex{})}
	for range cores {
		h := &hand{watch: stopwatch{clock: c, origin: c.Now()}}
		h.eval = scorer.NewEvaluator(&h.watch)
		h.eval.Share(p.searches)
		p.idle <- h
	}
	return p
}

// Cores is the number of evaluations that run at the same time.
func (p *Pool) Cores() int { return cap(p.idle) }

// run is one call of Pool.Run.
type run struct {
	pool   *Pool
	ctx    context.Context
	tables []*scorer.Table
	asks   []Ask
	left   allowances
	next   atomic.Int64
}

// allowances are how many steps searches for devices may still take, ask by ask.
type allowances []atomic.Int64

func newAllowances[A any](asks []A, steps func(*A) int64) allowances {
	out := make(allowances, len(asks))
	for i := range asks {
		out[i].Store(steps(&asks[i]))
	}
	return out
}

// allow has an evaluator share what an ask allows; 0: any number.
func (a allowances) allow(e *scorer.Evaluator, ask int, steps int64) {
	if steps == 0 {
		e.Allow(nil)
	} else {
		e.Allow(&a[ask])
	}
}

// Run evaluates every ask over all tables and leaves its answer in the element
// of into with the same index. Nobody may write to the tables meanwhile. It
// errs only when ctx ends; into is then not to be read. A class whose evaluation panics has failed, by
// itself: its Result says so. So has one whose searches for devices would take more steps than it may.
func (p *Pool) Run(ctx context.Context, tables []*scorer.Table, asks []Ask, into []Answer) error {
	var first *hand
	select {
	case first = <-p.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.idle <- first }()
	r := &run{pool: p, ctx: ctx, tables: tables, asks: asks}
	r.left = newAllowances(asks, func(a *Ask) int64 { return a.Options.Steps })
	others := p.recruit(r.usefulHands() - 1)
	var wg sync.WaitGroup
	for _, h := range others {
		wg.Go(func() {
			h.partial = sized(h.partial, len(asks))
			r.work(h, h.partial)
		})
	}
	r.work(first, into)
	wg.Wait()
	for _, h := range others {
		for i := range asks {
			merge(&into[i], &h.partial[i])
		}
		p.idle <- h
	}
	return ctx.Err()
}

// usefulHands is how many hands the run can keep busy.
func (r *run) usefulHands() int {
	rows := 0
	for _, t := range r.tables {
		rows += t.Rows()
	}
	if rows*len(r.asks) < minParallelRows {
		return 1
	}
	return len(r.tables) * len(r.asks)
}

// recruit takes up to n idle hands without waiting.
func (p *Pool) recruit(n int) []*hand {
	var hands []*hand
	for range n {
		select {
		case h := <-p.idle:
			hands = append(hands, h)
		default:
			return hands
		}
	}
	return hands
}

// work takes items until none is left or the run's context ends.
func (r *run) work(h *hand, into []Answer) {
	for i := range r.asks {
		into[i].Reset(&r.asks[i])
	}
	items := int64(len(r.tables) * len(r.asks))
	for r.ctx.Err() == nil {
		item := r.next.Add(1) - 1
		if item >= items {
			return
		}
		if i := int(item) % len(r.asks); into[i].Result.Failed == nil {
			r.left.allow(h.eval, i, r.asks[i].Options.Steps)
			r.evaluate(h, r.tables[int(item)/len(r.asks)], &r.asks[i], &into[i])
		}
	}
}

// evaluate evaluates a class over a table. What a panic leaves of the evaluator and of the answer is
// not used again.
func (r *run) evaluate(h *hand, t *scorer.Table, ask *Ask, into *Answer) {
	defer func() {
		if v := recover(); v != nil {
			*into = Answer{}
			into.Reset(ask)
			into.Result.Failed = h.recovered(v)
		}
	}()
	if r.pool.Before != nil {
		r.pool.Before(ask.Class)
	}
	h.watch.start(&into.Passes)
	h.eval.Evaluate(t, ask.Class, ask.Options, &into.Result)
}

// merge adds what another hand found.
func merge(into, from *Answer) {
	into.Result.Merge(&from.Result)
	for _, p := range from.Passes {
		AddPass(&into.Passes, p)
	}
}

// sized returns s with n elements, keeping the memory of those it has.
func sized(s []Answer, n int) []Answer {
	for len(s) < n {
		s = append(s, Answer{})
	}
	return s[:n]
}
