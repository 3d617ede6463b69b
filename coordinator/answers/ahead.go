package answers

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/scorer"
)

// An answer may be asked for ahead: workers judge the state of now, pods of other classes are decided meanwhile, and the answer
// is repaired by all changes since the question, as one that was held:
//
//	batch := engine.Ahead(pods, before)
//	batch.WantAhead(class) …                for each pod of a later batch
//	engine.AskedAhead(batch.Needs())        the question is on its way
//	        … pods are decided …
//	engine.Begin(pods) …                    the later batch
//	engine.TakeAhead(need, result)

// Ahead begins to collect what so many pods of a later batch need, where so many others are decided before them.
func (e *Engine) Ahead(pods, before int) *Batch {
	return &Batch{engine: e, pods: pods, before: before, asked: map[uint64]int{}, ahead: true}
}

// WantAhead takes in the class of a pod of a later batch. What only the state of its turn can tell is not asked ahead: whether
// workers are right about sums that make rows feasible, and which devices are free. It returns the place of the class's need; it
// is not ok where there is none.
func (b *Batch) WantAhead(c *compile.Class) (need int, ok bool) {
	e := b.engine
	if c.Rejected != nil || c.ScoreError != nil || c.Query.GetNarrowed() != nil || c.Claims {
		return 0, false
	}
	if base := e.shared.baseOf(c); base != nil && !e.refused(c.ID()) {
		c = base
	}
	id := c.Scorer.ID()
	isAsked := func(n *Need) bool { return n.Class.ID() == id }
	if e.held.of[id] != nil || len(c.Scorer.Decisive()) > 0 || slices.ContainsFunc(e.ahead, isAsked) {
		return 0, false
	}
	return b.add(c), true
}

// AskedAhead says that these needs, of a batch by Ahead, are asked for now.
func (e *Engine) AskedAhead(needs []*Need) {
	for _, n := range needs {
		n.ahead, n.from = true, e.log.end()
	}
	e.ahead = append(e.ahead, needs...)
	e.log.reads = e.log.reads || len(needs) > 0
}

// voidAhead gives up the needs that were asked ahead and whose answers can't be repaired any more.
func (e *Engine) voidAhead() {
	e.ahead = slices.DeleteFunc(e.ahead, func(n *Need) bool {
		n.void = n.void || e.log.lost || n.from < e.log.first ||
			slices.ContainsFunc(e.log.columns, func(counter uint32) bool { return reads(n.Class, counter) })
		return n.void
	})
}

// Before tells of the rows that have changed since needs were asked ahead, together, in which decision they were chosen last as of
// then. It is false where no result serves any more.
func (e *Engine) Before(needs []*Need) (lastDecisions map[cache.Row]uint64, ok bool) {
	if !slices.ContainsFunc(needs, func(n *Need) bool { return !n.void }) {
		return nil, false
	}
	from := needs[0].from
	lastDecisions = make(map[cache.Row]uint64, e.log.end()-from)
	for n := from; n < e.log.end(); n++ {
		entry := e.log.at(n)
		if entry.bare {
			return nil, false
		}
		if _, known := lastDecisions[entry.row]; !known {
			lastDecisions[entry.row] = entry.before.LastDecision()
		}
	}
	return lastDecisions, true
}

// TakeAhead takes the result for a need that was asked ahead; nil: there is none. It is false where the class has to be asked for
// again.
func (e *Engine) TakeAhead(n *Need, result *scorer.Result) (taken bool) {
	e.ahead = slices.DeleteFunc(e.ahead, func(x *Need) bool { return x == n })
	switch {
	case result == nil:
		return false
	case n.void || e.held.of[n.Class.ID()] != nil:
		e.recycle(result)
		return false
	}
	e.held.note(n.Class.ID())
	e.take(n, result, n.from)
	return true
}
