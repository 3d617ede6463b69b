package coordinator

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Pods that are nominated to a node, usually because victims are leaving it for them,
// keep their room against pods of no higher priority: the node has to take a pod both with
// them and without them (upstream's RunFilterPluginsWithNominatedPods).
//
// Differs from upstream: what nominated pods repel and claim for themselves alone counts
// always, and a spread constraint that selects every pod counts no more of them than of
// others. Upstream's plugins do not see them where they had nothing to do before, and such a
// constraint sees only them. And a pod's own nominated node that its affinity leaves out is
// refused as the other nodes are.

// nominee is a node that waits for pods which come before the one at hand.
type nominee struct {
	row    cache.Row
	usages []*pb.PodUsage
	// volumes is by how much the counters of the node's volumes would differ.
	volumes []*pb.CounterValue
}

// nominees lists the nodes that a pod finds promised to others, sorted by name.
func (s *Scheduler) nominees(p *v1.Pod) []nominee {
	var out []nominee
	for _, node := range s.queue.NominatedNodes() {
		row, ok := s.cache.RowOf(node)
		if !ok {
			continue
		}
		n := nominee{row: row}
		var pods []*v1.Pod
		for _, other := range s.queue.Nominated(node) {
			if other.Obj.UID != p.UID && compile.Priority(other.Obj) >= compile.Priority(p) {
				pods = append(pods, other.Obj)
				n.usages = append(n.usages, s.cache.UsageOf(other.Obj))
			}
		}
		if len(pods) > 0 {
			n.volumes = s.cache.volumes.Joining(node, pods, p)
			out = append(out, n)
		}
	}
	return out
}

// probe is what looking at one row alone needs; its memory is used again.
type probe struct {
	totals   scorer.RowTotals
	verdict  scorer.Verdict
	result   scorer.Result
	standing scorer.Standing
	reasons  []scorer.Reason
}

// refusedWith tells whether a row refuses the class once more pods are on it, and why. The
// reasons are told only in a diagnosis, and hold until the next call.
func (p *pick) refusedWith(at int, n *nominee, tables tables, e *scorer.Evaluator) (refused bool, reasons []scorer.Reason) {
	r, x := &p.repaired[at], &p.probe
	table := tables.Table(int(r.row.Shard))
	table.Totals(r.row.Index, &x.totals)
	for _, u := range n.usages {
		x.totals.AddPod(table, u)
	}
	x.totals.AddCounters(n.volumes, 1)
	e.Row(table, r.row.Index, &x.totals, p.class, p.diagnosed, &x.verdict)
	x.reasons = x.reasons[:0]
	if !x.verdict.Passed {
		_, why := e.Reasons(table, r.row.Index, &x.totals, p.class)
		x.reasons = append(x.reasons, why...)
		return true, x.reasons
	}
	p.move(&r.verdict, -1)
	group := p.move(&x.verdict, +1)
	p.settle()
	refused = !p.standing.Groups[group].Feasible
	if refused {
		_, why := p.class.GroupReasons(p.result, &p.standing, group)
		x.reasons = append(x.reasons, why...)
	}
	p.move(&x.verdict, -1)
	p.move(&r.verdict, +1)
	return refused, x.reasons
}

// veto takes the rows that nominees keep from a pod out of the answer, until liftVetoes. It
// is false where the answer does not serve then: the maxima that it rests on are those of
// all rows.
func (p *pick) veto(list []nominee, tables tables, e *scorer.Evaluator) bool {
	serves := true
	for i := range list {
		n := &list[i]
		p.row(n.row, tables, e)
		at := p.index[n.row]
		refused, reasons := p.refusedWith(at, n, tables, e)
		if !refused {
			continue
		}
		r := &p.repaired[at]
		r.vetoed = true
		serves = serves && !r.extreme
		p.vetoes = append(p.vetoes, at)
		p.countVeto(r, -1)
		if p.diagnosed {
			p.countReasons(r.reasons, -1)
			r.vetoReasons = append(r.vetoReasons[:0], reasons...)
			p.countReasons(r.vetoReasons, +1)
		}
	}
	return serves
}

// countVeto takes a row out of its group, or puts it back; what its pods add to measures
// stays.
func (p *pick) countVeto(r *repairedRow, by int) {
	if r.group >= 0 {
		p.result.Groups[r.group].Rows += by
		p.result.Feasible += by
		p.settled = false
	}
}

// liftVetoes undoes veto.
func (p *pick) liftVetoes() {
	for _, at := range p.vetoes {
		r := &p.repaired[at]
		r.vetoed = false
		p.countVeto(r, +1)
		if p.diagnosed {
			p.countReasons(r.vetoReasons, -1)
			p.countReasons(r.reasons, +1)
		}
	}
	p.vetoes = p.vetoes[:0]
}

// alone tells whether a row is feasible, and what it scores where it is the only one.
func (p *pick) alone(at int) (score int64, ok bool) {
	r, x := &p.repaired[at], &p.probe
	p.settle()
	if r.vetoed || r.group < 0 || !p.standing.Groups[r.group].Feasible {
		return 0, false
	}
	if p.result.Normalised {
		return r.verdict.Local + p.class.GroupScore(r.verdict.Key.Raw[:p.class.KeyLen()], r.verdict.Key.Raw[:p.class.KeyLen()]), true
	}
	x.result.Reset(p.class.ID(), 0)
	x.result.Measures = p.result.Measures
	x.result.Groups = append(x.result.Groups, scorer.Group{Key: r.verdict.Key, Rows: 1})
	p.class.Settle(&x.result, &x.standing)
	score = r.local + x.standing.Groups[0].Score
	x.result.Measures = nil
	return score, true
}
