package answers

import (
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Domain is the nodes that have a label: a topology key with a value. The zero value is the whole cluster.
type Domain struct{ Key, Value string }

// Whole tells that the domain is the whole cluster.
func (d Domain) Whole() bool { return d.Key == "" }

// String is such as rack=r7; empty: the whole cluster.
func (d Domain) String() string {
	if d.Whole() {
		return ""
	}
	return d.Key + "=" + d.Value
}

const (
	// firstWithin is the first id of classes in domains. Compilers number classes from 1 on.
	firstWithin = 1 << 63
	// maxWithin is how many classes in domains are known. With more, all get new ids, and are asked for anew.
	maxWithin = 1 << 12
	// rowsHere is up to how many rows of a domain are judged here: some hundred microseconds, as a round to the workers takes.
	rowsHere = 512
)

// within are the classes of domains: the class of a pod that may get only nodes of the domain is another class.
type within struct {
	last    uint64
	classes map[classWithin]*compile.Class
	rows    rowsOfKey
}

// rowsOfKey are the rows of each domain of the key that was asked about last: a pod group is tried in one domain of it after the other.
type rowsOfKey struct {
	key     string
	version uint64 // of the nodes
	of      map[string][]cache.Row
}

// rowsOf are the rows of a domain, in order.
func (e *Engine) rowsOf(d Domain) []cache.Row {
	x := &e.within.rows
	if v := e.tables.NodesVersion(); x.of == nil || x.key != d.Key || x.version != v {
		*x = rowsOfKey{d.Key, v, map[string][]cache.Row{}}
		for shard := range e.tables.NumShards() {
			for row, value := range e.tables.Table(shard).Labelled(d.Key) {
				x.of[value] = append(x.of[value], cache.Row{Shard: uint32(shard), Index: row})
				e.work.Walked++
			}
		}
	}
	return x.of[d.Value]
}

type classWithin struct {
	class uint64
	in    Domain
}

// restrict puts the class of the question's domain in the place of the question's class.
func (e *Engine) restrict(q *Question) {
	if q.Within.Whole() || q.Class.Query == nil || q.Class.Query.GetWithin() != nil {
		return
	}
	x := &e.within
	key := classWithin{q.Class.ID(), q.Within}
	c := x.classes[key]
	if c == nil {
		if len(x.classes) >= maxWithin {
			clear(x.classes)
		}
		c = q.Class.Within(firstWithin+x.last, &pb.Label{Key: q.Within.Key, Value: q.Within.Value})
		x.last++
		x.classes[key] = c
	}
	q.wide, q.Class = q.Class, c
}

// openWithin opens the answer about a domain of few rows, which are judged here; nil: workers are asked. What a class counts in the
// whole cluster is taken from its answer about that, where one is held.
func (e *Engine) openWithin(q *Question) *Answer {
	rows, few := e.rowsWithin(q)
	switch {
	case !few, q.Class.Scorer.Claims():
		return nil
	case !q.Class.Scorer.HasGroups():
		return e.openHere(q.Class.Scorer, rows, true)
	}
	whole := e.held.of[q.wide.ID()]
	if whole == nil {
		return nil
	}
	if whole.repair(); whole.stale {
		return nil
	}
	r := &scorer.Result{}
	r.CopyMeasures(q.Class.ID(), whole.result)
	a := e.held.open(e.Pinned(q.Class.Scorer))
	a.start(r, e.log.end(), true)
	for _, row := range rows {
		x := a.look(row, nil, e.log.end())
		a.countReasons(x.reasons, +1)
		if x.group >= 0 {
			a.result.MoveRows(x.group, +1)
		}
	}
	a.settled = false
	return a
}

// rowsWithin are the rows of a question's domain, where they are so few that they are judged here; false: workers are asked.
func (e *Engine) rowsWithin(q *Question) (rows []cache.Row, few bool) {
	if q.wide == nil || q.Reviewed || e.NodesWithin(q.Within) > rowsHere {
		return nil, false
	}
	return e.rowsOf(q.Within), true
}

// NodesWithin is how many nodes a domain has.
func (e *Engine) NodesWithin(d Domain) int {
	if d.Whole() {
		return e.tables.Nodes()
	}
	n := 0
	for shard := range e.tables.NumShards() {
		n += e.tables.Table(shard).CountLabelled(d.Key, d.Value)
	}
	return n
}
