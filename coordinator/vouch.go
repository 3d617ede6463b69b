package coordinator

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/scorer"
)

// A row that a worker has named is judged on the own tables before a pod is promised to it; rows that were
// repaired were judged already. The worker is in quarantine where the two do not agree, and the class is
// evaluated on the own tables. fanout/verify.go has the other checks of what workers say.

// vouch tells whether a choice is what the own tables say of it; an error says in what it is not. A row that
// has not changed since the answer scores what it scored then.
func (p *pick) vouch(c *choice, t tables, e *scorer.Evaluator) error {
	if !c.told || p.result.Witnesses.Of(c.row.Shard) == 0 {
		return nil
	}
	p.judged++
	table := t.Table(int(c.row.Shard))
	e.Row(table, c.row.Index, nil, p.class, p.diagnosed, &p.was)
	if !p.was.Passed {
		return fmt.Errorf("class %x: node %s does not take the pod", p.class.ID(), table.Name(c.row.Index))
	}
	key, local := &p.was.Key, p.was.Local
	if p.result.Normalised {
		local += p.class.GroupScore(key.Raw[:p.class.KeyLen()], p.result.Extrema)
	} else if !key.Equal(&p.result.Groups[c.group].Key) {
		return fmt.Errorf("class %x: node %s is in the group of %v, not of %v", p.class.ID(), table.Name(c.row.Index), *key, p.result.Groups[c.group].Key)
	}
	if local != c.local {
		return fmt.Errorf("class %x: node %s scores %d, not %d", p.class.ID(), table.Name(c.row.Index), local, c.local)
	}
	return nil
}

// told tells whether a worker has a share in the answer. Where a class can not be scored that is not enough: the
// attempt fails if more than one row is feasible, and nobody judges how many there are.
func (p *pick) told() bool {
	return slices.ContainsFunc(p.result.Witnesses, func(who uint32) bool { return who != 0 })
}

// distrust puts the worker that has named a row in quarantine, and has the class evaluated on the own tables.
func (s *Scheduler) distrust(ctx context.Context, p *pick, row cache.Row, why error, r fanout.Request) error {
	s.fanout.Blame(ctx, p.result.Witnesses.Of(row.Shard), why)
	return s.answerHere(ctx, p, r)
}

// answerHere gives a pick an answer of the own tables.
func (s *Scheduler) answerHere(ctx context.Context, p *pick, r fanout.Request) error {
	p.class = s.pinned(p.class)
	r.Class = p.class
	results, err := s.fanout.EvaluateHere(ctx, []fanout.Request{r})
	if err != nil {
		return err
	}
	if results[0].Failed != nil {
		panic(results[0].Failed) // as evaluateOne
	}
	s.fanout.Recycle(p.result)
	p.start(results[0], s.touches.end(), r.Diagnose)
	return nil
}

// doubt has workers watched whose answer does not settle: it is of this very moment, so it can not be
// right. Which of them has said what of it is found by holding their next answers against the own tables.
func (s *Scheduler) doubt(ctx context.Context, p *pick) {
	klog.FromContext(ctx).Info("What workers have answered does not settle, the own tables answer and the workers' next answers are audited", "class", p.class.ID())
	s.metrics.unsettled.Inc()
	s.fanout.Watch(p.result)
}

// lookAtAll judges every row by itself: that takes long, and always settles.
func (s *Scheduler) lookAtAll(p *pick, diagnose bool) {
	p.diagnosed = p.diagnosed || diagnose
	p.class = s.pinned(p.class)
	p.startHere(s.touches.end(), tables{s.cache.Cache}, s.eval)
}

// lied puts the workers in quarantine that have named candidates of a dry run that the own tables do not have so;
// false: there are none. Rows that have changed since were judged here.
func (s *Scheduler) lied(ctx context.Context, w *wave, p *pick, list []*scorer.PreemptionCandidate) bool {
	lied := false
	for _, c := range list {
		who := w.found.Witnesses.Of(c.Shard)
		if who == 0 || w.judged[cache.Row{Shard: c.Shard, Index: c.Row}] != nil {
			continue
		}
		outcome, own, _ := s.eval.PreemptRow(s.cache.Table(int(c.Shard)), c.Row, p.class, w.askedHere(p), nil)
		if outcome != scorer.Preemptable || !own.Same(c) {
			s.fanout.Blame(ctx, who, fmt.Errorf("dry run of class %x: node %s has no such victims", p.class.ID(), c.Name))
			lied = true
		}
	}
	return lied
}
