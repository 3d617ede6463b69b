package extenders

import (
	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/extender"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// reviews are what each extender of the question has refused, of the nodes that it was asked about.
func (q *question) reviews(said *extender.Answer) []*pb.Review {
	refusals := make([]answers.Refusals, len(q.list))
	for _, n := range q.nodes {
		if _, kept := said.Kept[n.Name]; kept {
			continue
		}
		switch r, told := said.Refused[n.Name]; {
		case !told:
		case r.Silent:
			refusals[r.By].Add(n.Name)
		default:
			refusals[r.By].Add(n.Name, r.Reason)
		}
	}
	out := make([]*pb.Review, len(q.list))
	for i, e := range q.list {
		out[i] = &pb.Review{Reviewer: "extender " + e.Label()}
		refusals[i].Tell(out[i])
	}
	return out
}

// ByReviewer is what the extenders made of the nodes that they were last asked about, for people: what each refused, and what it added to
// the score of the chosen node; "": none is chosen. One that did neither is left out.
func (r *Review) ByReviewer(chosen string) (out []*pb.Review) {
	if !r.Answered() || r.said.from == nil {
		return nil
	}
	for i, x := range r.said.reviews {
		score := r.said.scoreOf(chosen, i, r.lane.list[i])
		if len(x.Refusals) > 0 || score != nil {
			out = append(out, &pb.Review{Reviewer: x.Reviewer, Score: score, Refusals: x.Refusals, LeftOut: x.LeftOut})
		}
	}
	return out
}

// scoreOf is what an extender added to a node's score; nil: it did not score the node.
func (x *answer) scoreOf(node string, by int, e *extender.Extender) (score *int64) {
	if x.from.Scores == nil {
		return nil
	}
	for _, s := range x.from.Scores[by] {
		if s.Host == node {
			if score == nil {
				score = new(int64)
			}
			*score += e.Weigh(s.Score)
		}
	}
	return score
}
