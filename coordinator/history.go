package coordinator

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/tracing"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// scoredNodes is how many nodes' scores are remembered of a decision.
const scoredNodes = 3

// finish ends an attempt's trace, and keeps in mind where there is one.
func (s *Scheduler) finish(trace *tracing.Attempt, d *pb.Decision, r tracing.Result, err error) {
	if !trace.Finish(r, err) {
		return
	}
	s.history.Traced(types.UID(d.Uid), d.Seq, trace.TraceID())
}

// spellOut scores the best nodes of a decision plugin by plugin, where that is afforded: the
// chosen one, and those that came next. A normalised answer is not taken apart.
func (s *Scheduler) spellOut(a *attempt, c answers.Choice) []*pb.ScoredNode {
	if c.Normalised() || !s.history.AffordScores(s.popTime) {
		return nil
	}
	began := s.cfg.Now()
	defer func() { s.history.ScoresTook(s.cfg.Now().Sub(began)) }()
	list, result, standing := c.Top(scoredNodes)
	if len(list) == 0 {
		return nil
	}
	out := make([]*pb.ScoredNode, 0, len(list))
	for i := range list {
		node := s.cache.Table(int(list[i].Shard)).Name(list[i].Row)
		x := s.scored(a.class, result, standing, &list[i], node)
		x.Chosen = cache.Row{Shard: list[i].Shard, Index: list[i].Row} == c.Row
		out = append(out, x)
	}
	return out
}
