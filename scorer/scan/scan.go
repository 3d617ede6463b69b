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
	idle chan *hand
}

// hand is one evaluator with the memory for what it found in a run.
type hand struct {
	eval    *scorer.Evaluator
	watch   stopwatch
	partial []Answer
}

// NewPool makes a pool for that many cores; below one it means all of them.
func NewPool(cores int, c clock.PassiveClock) *Pool {
	if cores < 1 {
		cores = runtime.GOMAXPROCS(0)
	}
	p := &Pool{idle: make(chan *hand, cores)}
	for range cores {
		h := &hand{watch: stopwatch{clock: c}}
		h.eval = scorer.NewEvaluator(&h.watch)
		p.idle <- h
	}
	return p
}

// Cores is the number of evaluations that run at the same time.
func (p *Pool) Cores() int { return cap(p.idle) }

// run is one call of Pool.Run.
type run struct {
	ctx    context.Context
	tables []*scorer.Table
	asks   []Ask
	next   atomic.Int64
}

// Run evaluates every ask over all tables and leaves its answer in the element
// of into with the same index. Nobody may write to the tables meanwhile. It
// errs only when ctx ends; into is then not to be read.
func (p *Pool) Run(ctx context.Context, tables []*scorer.Table, asks []Ask, into []Answer) error {
	var first *hand
	select {
	case first = <-p.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.idle <- first }()
	r := &run{ctx: ctx, tables: tables, asks: asks}
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
		i := int(item) % len(r.asks)
		h.watch.start(&into[i].Passes)
		h.eval.Evaluate(r.tables[int(item)/len(r.asks)], r.asks[i].Class, r.asks[i].Options, &into[i].Result)
	}
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
