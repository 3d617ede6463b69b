package answers

import "github.com/shardsched/shardsched/coordinator/compile"

// Begin begins a batch of so many pods: answers that do not serve any more are dropped.
func (e *Engine) Begin(pods int) *Batch {
	e.shared.dropReaders(e.log.columns)
	e.held.evict(pods)
	e.shared.evict(e.held.of)
	return &Batch{engine: e, pods: pods, asked: map[uint64]int{}}
}

// Batch collects what a batch of pods needs.
type Batch struct {
	engine   *Engine
	pods     int
	needs    []*Need
	asked    map[uint64]int // places in needs, by class
	every    []bool         // by place in needs: the answer has to name all feasible rows
	order    []*compile.Class
	ahead    bool // the pods are decided after so many others
	before   int
	position int // of the pod at hand, in the batch
}

// At says which pod of the batch asks next.
func (b *Batch) At(position int) { b.position = position }

// Join makes a class known before the batch's needs are collected. Classes that differ only in what they count share an
// answer.
func (b *Batch) Join(c *compile.Class) { b.engine.shared.join(c) }

// Want takes in the question of a pod of the batch. It returns the class that the answer has to be about, and the place of its
// need; below 0: an answer is held.
func (b *Batch) Want(q *Question) (class uint64, need int) {
	e := b.engine
	e.restrict(q)
	c := q.Class
	if base := e.shared.baseOf(c); base != nil && !e.refused(c.ID()) && !q.alone() {
		if c.ID() != base.ID() && e.held.of[c.ID()] != nil { // the class was asked by itself for a while
			e.held.drop(c.ID())
		}
		c = base
	}
	id := c.Scorer.ID()
	if a := e.held.of[id]; a != nil {
		a.idle = 0
		return id, -1
	}
	if _, asked := b.asked[id]; !asked {
		if rows, few := e.fewRows(q); few {
			e.openHere(c.Scorer, rows, false)
			return id, -1
		}
	}
	i := b.add(c)
	b.every[i] = b.every[i] || q.Reviewed
	return id, i
}

// add counts a pod for the need of a class.
func (b *Batch) add(c *compile.Class) (need int) {
	id := c.Scorer.ID()
	i, asked := b.asked[id]
	if !asked {
		i = len(b.needs)
		b.asked[id], b.order = i, append(b.order, c)
		b.needs, b.every = append(b.needs, &Need{behind: b.before + b.position}), append(b.every, false)
	}
	b.needs[i].Pods++
	return i
}

// Needs are the batch's, in the order of their first pods.
func (b *Batch) Needs() []*Need {
	e, pods := b.engine, b.pods+b.before
	for i, n := range b.needs {
		c := b.order[i]
		id := c.Scorer.ID()
		n.Class, n.shared = e.Pinned(c.Scorer), e.shared.of[id] != nil
		before := e.held.repaired[id]
		if n.shared { // every new shared answer has all views begin anew: ask for a long one
			before = heldRowsMax
		}
		classes := len(b.needs) + len(e.held.of)
		again := e.held.askedSince(id, heldFor(c.Query, pods, classes, before))
		if !b.ahead {
			e.held.note(id)
		}
		switch once := !again && n.Pods == 1 && b.pods > 1; {
		case once && !n.shared && !n.Class.HasGroups():
			n.brief, n.Candidates = true, candidatesOnce(n.behind)
		case once:
			n.Candidates = candidatesOnce(pods)
		default:
			n.Candidates = candidates(c.Query, pods, classes, before)
		}
		if b.every[i] {
			n.Candidates = everyRow(e.tables.Nodes(), n.Candidates)
		}
	}
	return b.needs
}
