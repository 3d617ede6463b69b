package answers

import (
	"fmt"
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Engine decides: it holds the workers' answers, repairs them, and chooses rows for pods. It asks nobody: if it lacks an answer,
// it returns a Need, and Take gives it the answer. One goroutine uses it.
type Engine struct {
	tables  *cache.Cache
	batch   int
	limits  Limits
	recycle func(*scorer.Result)
	eval    *scorer.Evaluator
	log     ChangeLog
	held    held
	shared  sharing
	within  within
	// ahead are the needs that were asked ahead, and whose results are still to come.
	ahead []*Need
	work  Work
}

// Config is what an engine is made of.
type Config struct {
	// Tables are the own tables. The engine watches them.
	Tables *cache.Cache
	// BatchSize is how many pods a batch has at the most.
	BatchSize int
	Limits    Limits
	// Recycle gets each result that the engine reads no more.
	Recycle func(*scorer.Result)
	// Searches is what searches for devices on the own tables have found; nil: nobody else searches.
	Searches *scorer.Searches
}

// New makes an engine without answers.
func New(cfg Config) *Engine {
	cfg.Limits.setDefaults()
	e := &Engine{tables: cfg.Tables, batch: cfg.BatchSize, limits: cfg.Limits, recycle: cfg.Recycle, eval: scorer.NewEvaluator(nil)}
	e.eval.Share(cfg.Searches)
	e.held, e.shared = newHeld(e), newSharing(e)
	e.within.classes = map[classWithin]*compile.Class{}
	e.log.counters = e.shared.counted
	return e
}

// Log is the change log. The caller has it watch the tables.
func (e *Engine) Log() *ChangeLog { return &e.log }

// Evaluator is the engine's, for others who judge rows on the same goroutine.
func (e *Engine) Evaluator() *scorer.Evaluator { return e.eval }

// Deciding tells whether a batch is being decided. No answer is given up then.
func (e *Engine) Deciding() bool { return e.log.deciding }

// SetDeciding says whether a batch is being decided.
func (e *Engine) SetDeciding(deciding bool) { e.log.deciding = deciding }

// Work counts what an engine has done.
type Work struct {
	// Judged is how many rows were judged here, Repaired how many of them were judged for repairs, and Pinned how often
	// sums were pinned.
	Judged, Repaired, Pinned int
	// Walked is how many rows were looked at for the domains that they are in.
	Walked int
}

// Work is what the engine has done since it was made.
func (e *Engine) Work() Work { return e.work }

// Asked is how many classes were asked for.
func (e *Engine) Asked() int { return len(e.held.asked) }

// Kept counts what an engine keeps in memory.
type Kept struct {
	Answers, Views int
	// Left is how many classes have left their shared answer.
	Left int
	// ForViews is how many moves of rows and owners the answers have room for.
	ForViews int
	// Groups is how many groups the answers have, SharedRows how many rows the shared ones have repaired.
	Groups, SharedRows int
}

// Kept counts what the engine keeps.
func (e *Engine) Kept() Kept {
	x := Kept{Answers: len(e.held.of), Views: len(e.shared.views)}
	for _, s := range e.shared.of {
		x.Left += len(s.left)
	}
	for _, a := range e.held.of {
		x.Groups += len(a.result.Groups)
		x.ForViews += cap(a.moves)
		if a.shared {
			x.SharedRows += len(a.repaired)
		}
		for _, list := range a.owners {
			x.ForViews += cap(list)
		}
	}
	return x
}

// Holds tells whether there is an answer of a class.
func (e *Engine) Holds(class uint64) bool { return e.held.of[class] != nil }

// Ages tells whether anything is kept that Age may drop.
func (e *Engine) Ages() bool { return len(e.held.of)+len(e.held.spare) > 0 }

// Age drops what no pod has used for long; it is called now and then.
func (e *Engine) Age() {
	e.held.age()
	e.shared.evict(e.held.of)
}

// Forget drops all that is kept for a class after a panic, and the evaluator, which the panic may have broken.
func (e *Engine) Forget(c *compile.Class) {
	e.Recovered()
	gone := []uint64{c.ID()}
	if c.Base != nil {
		gone = append(gone, c.Base.ID())
	}
	for _, id := range gone {
		delete(e.held.of, id)
	}
	for _, n := range e.ahead {
		n.void = n.void || slices.Contains(gone, n.Class.ID())
	}
	e.shared.drop(c.ID())
	e.shared.evict(e.held.of)
}

// Recovered makes a new evaluator after a panic, which may have broken the old one.
func (e *Engine) Recovered() { e.eval = e.eval.Renewed() }

// Pinned is a class with its pinned sums as they are now.
func (e *Engine) Pinned(class *scorer.Class) *scorer.Class {
	if class.Pins() {
		e.work.Pinned++
	}
	return class.Pin(e.tables.Tables)
}

// Question is the question of one pod: which row is the best?
type Question struct {
	Class *compile.Class
	// Nominees are the rows to which pods that come before this pod are nominated.
	Nominees []*Nominee
	// Within is the domain whose nodes the pod may get; what the class counts of other pods it counts in the whole cluster. The
	// engine puts the class of this domain in the place of Class.
	Within Domain
	// Node is the node that the pod is nominated to, which is tried before all others; empty: none.
	Node string
	// Alone tells that reviewers take part in the decision besides the class's own plugins. Reviewed tells that they look at all
	// feasible rows (Rows): then the answer has to name all of them.
	Alone, Reviewed bool
	// wide is the class that Class is of a domain.
	wide *compile.Class
	// answers counts the answers that this pod has asked for. sharedAsked tells that it has asked for another shared answer.
	answers     int
	sharedAsked bool
}

// alone tells whether the pod needs an answer of its own class. A shared answer serves only where the class's own plugins decide
// alone.
func (q *Question) alone() bool {
	return q.Alone || q.Class.ScoreError != nil || q.Node != "" || len(q.Nominees) > 0
}

// Need is what the engine lacks to decide: an answer about a class.
type Need struct {
	// Class is the class to ask about, with its pinned sums of now.
	Class *scorer.Class
	// Candidates is how many rows each group has to name. With Diagnose, the answer has to have reasons.
	Candidates int
	Diagnose   bool
	// Pods is how many pods of the batch wait for the answer; 0: it replaces an answer that serves no more.
	Pods int
	// Copies asks for the copies of the class too, over all rows and by the domains of CopyKeys.
	Copies   bool
	CopyKeys []string
	// Here says that the own tables have to answer, not the workers.
	Here bool
	// Liar is the worker (scorer.Witnesses) that has named a row wrongly, and Why is what was wrong; 0: none.
	Liar uint32
	Why  error
	// Doubted is an answer that does not settle though nothing has changed since: the workers that gave it have to be watched;
	// nil: none.
	Doubted *scorer.Result

	answer *Answer // takes the result; nil: a new answer does
	shared bool
	alone  bool
	// behind is how many pods are decided before the first that waits for the answer. brief tells that the answer names just enough
	// rows for these and for the pod itself, because no pod may ask for the class again.
	behind int
	brief  bool

	// ahead tells that the result is of the state before change from. void: what has happened since can't be repaired.
	ahead, void bool
	from        uint64
}

// Alone tells whether the need is for the one pod that is being decided.
func (n *Need) Alone() bool { return n.alone }

// Take takes the result for a need.
func (e *Engine) Take(n *Need, result *scorer.Result) { e.take(n, result, e.log.end()) }

// take takes the result for a need, of the state before change from.
func (e *Engine) take(n *Need, result *scorer.Result, from uint64) {
	a := n.answer
	if a == nil {
		a = e.held.open(n.Class)
		if a.shared = n.shared; n.brief {
			a.until = from + uint64(n.Candidates)
		}
	} else {
		e.recycle(a.result)
		a.class, a.until = n.Class, 0
	}
	a.start(result, from, n.Diagnose)
	for row := range e.log.large {
		if !e.log.changedSince(row, from) { // else the repair finds that it was not judged
			a.at(row)
		}
	}
}

// refused tells whether the held answer of a class has reasons: then it has refused a pod.
func (e *Engine) refused(class uint64) bool {
	a := e.held.of[class]
	return a != nil && a.diagnosed
}

// fewRows are the rows of a pod that a PreFilter limits to a few nodes, as a pod of a DaemonSet; false: workers are asked.
func (e *Engine) fewRows(q *Question) (rows []cache.Row, few bool) {
	narrowed := q.Class.Query.GetNarrowed()
	if narrowed == nil || len(narrowed.GetNames()) > fewNodes || q.Class.Scorer.HasGroups() || q.Reviewed {
		return nil, false
	}
	for _, name := range narrowed.GetNames() {
		if row, ok := e.tables.RowOf(name); ok {
			rows = append(rows, row)
		}
	}
	return rows, true
}

// openHere opens the answer of a class that may get only these rows. They are judged here: they are too few to ask workers.
func (e *Engine) openHere(class *scorer.Class, rows []cache.Row, diagnosed bool) *Answer {
	a := e.held.open(class)
	a.startEmpty(diagnosed)
	a.oneBatch = true
	for _, row := range rows {
		if _, known := a.index.find(row); !known {
			a.add(row)
		}
	}
	return a
}

// Own is the answer of the pod's own class, or what is needed for one.
func (e *Engine) Own(q *Question) (*Answer, *Need) {
	e.restrict(q)
	if a := e.held.of[q.Class.ID()]; a != nil {
		return a, nil
	}
	if a := e.openWithin(q); a != nil {
		return a, nil
	}
	n := &Need{Class: e.Pinned(q.Class.Scorer), Candidates: candidatesOnce(e.batch), Pods: 1, alone: true}
	if q.Reviewed {
		n.Candidates = everyRow(e.tables.Nodes(), n.Candidates)
	}
	e.held.note(q.Class.ID())
	return nil, n
}

// Best is the row for a pod, or the need for an answer to choose one. If it returns neither, the choice says why it is fatal, or
// no row is feasible, and the answer of the pod's own class (Own) has the reasons.
func (e *Engine) Best(q *Question) (c Choice, found bool, need *Need) {
	e.restrict(q)
	if !e.Holds(q.Class.ID()) && !q.alone() {
		if c, found, need = e.bestShared(q); found || need != nil {
			return c, found, need
		}
	}
	a, need := e.Own(q)
	for need == nil {
		a.repair()
		v := used
		if !a.stale {
			if !a.veto(q.Nominees) {
				a.JudgeAll(false)
				a.veto(q.Nominees)
			}
			if c, ok := e.OwnNode(a, q.Node); ok {
				return c, true, nil
			}
			c, v = a.best()
		}
		switch {
		case v == nowhere && a.diagnosed:
			return Choice{Feasible: a.feasible()}, false, nil
		case v == chosen && q.Class.ScoreError != nil && a.witnessed():
			need = e.another(a, q, false)
			need.Here = true
		case v == chosen || v == failing:
			liar, why := a.Vouch(&c)
			if why == nil && v == chosen {
				return c, true, nil
			}
			if why == nil {
				c.Fatal = e.eval.Allocate(e.tables.Table(int(c.Row.Shard)), c.Row.Index, a.class).Fatal
				return c, false, nil
			}
			need = e.another(a, q, false)
			need.accuse(liar, why)
		default:
			need = e.settle(e.another(a, q, v == nowhere), q)
		}
	}
	return Choice{}, false, need
}

// ScoreOf is the whole score of a row for a pod; it does not pass where a filter refuses the row, or pods do that are nominated to it.
// The own answer of the class serves, or the need for one is returned.
func (e *Engine) ScoreOf(q *Question, row cache.Row) (score int64, passes bool, need *Need) {
	a, need := e.Own(q)
	if need != nil {
		return 0, false, need
	}
	if a.repair(); a.stale {
		a.JudgeAll(false)
	}
	if !a.veto(q.Nominees) {
		a.JudgeAll(false)
		a.veto(q.Nominees)
	}
	rows := a.RowsAmong([]cache.Row{row})
	if len(rows) == 0 {
		return 0, false, nil
	}
	return a.Rank(rows[0]).Score, true, nil
}

// bestShared is the best row by the class's view of a shared answer, or the need for another shared answer. If it returns
// neither, the class needs an answer of its own: it leaves the shared answer, or no row is feasible and the reasons are needed.
func (e *Engine) bestShared(q *Question) (c Choice, found bool, need *Need) {
	base := e.shared.baseOf(q.Class)
	if base == nil || !e.Holds(base.ID()) {
		return Choice{}, false, nil
	}
	a := e.held.of[base.ID()]
	a.repair()
	if a.stale && !q.sharedAsked { // a pinned sum has moved
		q.sharedAsked = true
		return Choice{}, false, e.anotherBase(a, base)
	}
	v := e.shared.viewOf(q.Class, a)
	if v == nil {
		e.shared.leave(q.Class)
		return Choice{}, false, nil
	}
	c, outcome := v.best()
	switch {
	case outcome == nowhere:
		return Choice{}, false, nil
	case outcome == chosen:
		liar, why := a.Vouch(&c)
		if why == nil {
			return c, true, nil
		}
		need = e.anotherBase(a, base)
		need.accuse(liar, why)
		return Choice{}, false, need
	case q.sharedAsked: // even a fresh answer names too few rows that are not the view's own
		e.shared.leave(q.Class)
		return Choice{}, false, nil
	}
	q.sharedAsked = true
	return Choice{}, false, e.anotherBase(a, base)
}

// another is the need of another answer for a pod's class, which replaces a.
func (e *Engine) another(a *Answer, q *Question, diagnose bool) *Need {
	n := &Need{Class: e.Pinned(a.class), Diagnose: diagnose, answer: a, alone: true}
	if q.answers++; q.Reviewed {
		n.Candidates = everyRow(e.tables.Nodes(), SparePods)
	} else {
		n.Candidates = min(candidates(q.Class.Query, SparePods, len(e.held.of), len(a.repaired))+len(q.Nominees), pb.MaxCandidates)
	}
	return n
}

// anotherBase is the need of another shared answer, which replaces a.
func (e *Engine) anotherBase(a *Answer, base *compile.Class) *Need {
	return &Need{Class: e.Pinned(a.class), Candidates: candidates(base.Query, SparePods, len(e.held.of), heldRowsMax), answer: a,
		alone: true}
}

// settle ends a series of answers that do not settle. After maxAsks answers of the workers the own tables answer. If their
// answer does not settle either, every row is judged here, which always settles: then settle returns no need.
func (e *Engine) settle(n *Need, q *Question) *Need {
	switch {
	case q.answers > maxAsks+1:
		n.answer.JudgeAll(n.Diagnose)
		return nil
	case q.answers == maxAsks+1:
		n.Here, n.Doubted = true, n.answer.result
	}
	return n
}

// accuse has the own tables answer, because a worker has named a row wrongly.
func (n *Need) accuse(liar uint32, why error) { n.Here, n.Liar, n.Why = true, liar, why }

// OwnNode is the choice of the node that a pod is nominated to. If it is feasible, no other node is tried.
func (e *Engine) OwnNode(a *Answer, name string) (Choice, bool) {
	row, ok := e.tables.RowOf(name)
	if name == "" || !ok {
		return Choice{}, false
	}
	return a.Alone(row)
}

// Refresh repairs the answer of a pod's class, before reviewers look at its rows.
func (e *Engine) Refresh(a *Answer, q *Question) {
	a.liftVetoes()
	a.repair()
	if a.stale || a.result.Normalised || !a.veto(q.Nominees) || q.Class.ScoreError != nil && a.witnessed() {
		a.JudgeAll(false)
		a.veto(q.Nominees)
	}
}

// Repaired is the answer of a class as it is now; nil: none is held.
func (e *Engine) Repaired(c *compile.Class) *Answer {
	a := e.held.of[c.ID()]
	if a == nil {
		return nil
	}
	if a.repair(); a.stale {
		a.JudgeAll(false)
	}
	return a
}

// Diagnose is the need of an answer with reasons, for reviewers; nil: every row was judged here.
func (e *Engine) Diagnose(a *Answer, q *Question) *Need {
	return e.settle(e.another(a, q, true), q)
}

// Vouch checks a choice against the own tables. If they disagree, it returns the worker that has named the row
// (scorer.Witnesses) and what is wrong. A row that was judged here since the answer is not checked. Any other row has not changed
// since the answer, so its score must be the same.
func (a *Answer) Vouch(c *Choice) (liar uint32, why error) {
	if liar = a.result.Witnesses.Of(c.Row.Shard); !c.named || liar == 0 {
		return 0, nil
	}
	e := a.engine
	e.work.Judged++
	table := e.tables.Table(int(c.Row.Shard))
	e.eval.Row(table, c.Row.Index, nil, a.class, a.diagnosed, &a.verdict)
	if !a.verdict.Passed {
		return liar, fmt.Errorf("class %x: node %s does not take the pod", a.class.ID(), table.Name(c.Row.Index))
	}
	key, local := &a.verdict.Key, a.verdict.Local
	if a.result.Normalised {
		local += a.class.GroupScore(key.Raw[:a.class.KeyLen()], a.result.Extrema)
	} else if !key.Equal(&a.result.Groups[c.group].Key) {
		said := &a.result.Groups[c.group].Key
		return liar, fmt.Errorf("class %x: node %s is in the group of %v, not of %v", a.class.ID(), table.Name(c.Row.Index), *key, *said)
	}
	if local != c.local {
		return liar, fmt.Errorf("class %x: node %s scores %d, not %d", a.class.ID(), table.Name(c.Row.Index), local, c.local)
	}
	return 0, nil
}

// witnessed tells whether a worker has a share in the answer. Where a class can not be scored, Vouch does not suffice: the
// attempt fails if more than one row is feasible, and Vouch does not check how many are.
func (a *Answer) witnessed() bool {
	return slices.ContainsFunc(a.result.Witnesses, func(who uint32) bool { return who != 0 })
}
