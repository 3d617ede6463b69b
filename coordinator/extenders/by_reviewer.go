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

// added is what each extender adds to the scores of nodes; nil: it scored none.
func (q *question) added(said *extender.Answer) []map[string]int64 {
	out := make([]map[string]int64, len(q.list))
	if said.Scores == nil {
		return out
	}
	for i, e := range q.list {
		if len(said.Scores[i]) == 0 {
			continue
		}
		out[i] = make(map[string]int64, len(said.Scores[i]))
		for _, s := range said.Scores[i] {
			out[i][s.Host] += e.Weigh(s.Score)
		}
	}
	return out
}

// ByReviewer is what the extenders made of the nodes that they were last asked about, for people: what each refused, and what it added to
// the score of the chosen node; "": none is chosen. One that did neither is left out.
func (r *Review) ByReviewer(chosen string) (out []*pb.Review) {
	if !r.Answered() {
		return nil
	}
	for i, x := range r.said.reviews {
		var score *int64
		if added, scored := r.said.added[i][chosen]; scored {
			score = &added
		}
		if len(x.Refusals) > 0 || score != nil {
			out = append(out, &pb.Review{Reviewer: x.Reviewer, Score: score, Refusals: x.Refusals, LeftOut: x.LeftOut})
		}
	}
	return out
}
