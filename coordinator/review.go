package coordinator

import (
	"context"
	"slices"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extenders"
	"github.com/shardsched/shardsched/coordinator/outoftree"
)

// reviewer is whoever else than the rules has a say in a pod's node: the out-of-tree plugins of its profile are one, extenders
// another. Tables judge all nodes as for any pod, and reviewers look at the feasible rows:
//
//	wants ──> rows that pass the rules ──> narrow, one reviewer after the other ──> rows left ──> score
//	            (the workers name all)              │                                               │
//	                                                └── none: reasons                               v
//	                            best of L(row) + G(key, over the rows left) + the reviewers' scores, tie rule
//
// Where no reviewer wants the pod it is decided as any other.
type reviewer interface {
	// Wants tells whether the reviewer looks at nodes for the pod, or why it rejects the pod on all of them.
	Wants(ctx context.Context) (wants bool, rejected *compile.Rejection, err error)
	// Takes tells whether it takes the pod's own nominated node, which is tried before all others.
	Takes(ctx context.Context, row answers.Row) bool
	// Narrow leaves those of the rows that it takes. With wait the attempt is to be parked: it is resumed once that is known.
	Narrow(ctx context.Context, rows []answers.Row) (left []answers.Row, wait bool, err error)
	// Score adds its scores to those of the rows, which are all that are left.
	Score(ctx context.Context, rows []answers.Row, totals []int64) error
	// Reasons adds why it has refused rows that pass all else, and names plugins that have refused without a reason.
	Reasons(into answers.Reasons) (by []string)
}

var (
	_ reviewer = (*outoftree.Review)(nil)
	_ reviewer = (*extenders.Review)(nil)
)

// reviewers are those that look at nodes for a pod, once there is an answer of the pod's own class; none: nobody does. Plugins
// come before extenders, as upstream: what plugins refuse needs no call. All are asked where one of them wants the pod.
func (s *Scheduler) reviewers(ctx context.Context, a *attempt, q *answers.Question) (list []reviewer, end *ending, err error) {
	if !q.Alone {
		return nil, nil, nil
	}
	own, err := s.ownAnswer(ctx, a, q)
	if err != nil {
		return nil, nil, err
	}
	if a.plugins != nil {
		list = append(list, a.plugins)
	}
	if a.extenders != nil {
		list = append(list, a.extenders)
	}
	wanted := false
	for _, r := range list {
		wants, rejected, err := r.Wants(ctx)
		switch {
		case err != nil:
			return nil, &ending{failed: err}, nil
		case rejected != nil:
			end := s.rejected(rejected)
			if own.Diagnosed() {
				end.answer = own
			}
			return nil, end, nil
		}
		wanted = wanted || wants
	}
	if !wanted {
		list = nil
	}
	return list, nil, nil
}

// ownAnswer is the answer of a pod's own class.
func (s *Scheduler) ownAnswer(ctx context.Context, a *attempt, q *answers.Question) (*answers.Answer, error) {
	p, need := s.answers.Own(q)
	if need == nil {
		return p, nil
	}
	if err := s.fetchOne(ctx, a, need); err != nil {
		return nil, err
	}
	p, _ = s.answers.Own(q)
	return p, nil
}

// chooseReviewed is choose with reviewers.
func (s *Scheduler) chooseReviewed(ctx context.Context, a *attempt, q *answers.Question, by []reviewer) (answers.Choice, *ending, error) {
	var none answers.Choice
	p, _ := s.answers.Own(q)
	for {
		// First the answer is brought up to now: others may have been placed since, and a part of the loop below asks for another.
		s.answers.Refresh(p, q)
		if c, ok := s.ownNode(ctx, a, p, by); ok {
			return c, nil, nil
		}
		rows, end := s.narrow(ctx, a, s.rowsFor(p, a, q), by)
		if end != nil {
			return none, end, nil
		}
		if len(rows) > 0 {
			c, failed := s.best(ctx, a, p, rows, by)
			if failed != nil {
				return none, &ending{failed: failed}, nil
			}
			liar, why := p.Vouch(&c)
			if why == nil {
				return c, nil, nil
			}
			s.fanout.Blame(ctx, liar, why)
			p.JudgeAll(false)
			continue
		}
		// None is left. The reasons come last, for it takes another answer to know them.
		if p.Diagnosed() {
			return none, s.refusedByReviewers(p, a, by), nil
		}
		if need := s.answers.Diagnose(p, q); need != nil {
			if err := s.fetchOne(ctx, a, need); err != nil {
				return none, nil, err
			}
		}
	}
}

// ownNode tries the node that a pod is nominated to before all others, and then no other. An error there is no reason not to
// try the others.
func (s *Scheduler) ownNode(ctx context.Context, a *attempt, answer *answers.Answer, reviewers []reviewer) (c answers.Choice, ok bool) {
	name := a.pod.Nomination()
	if name == "" {
		return c, false
	}
	rows := s.rowsOf(answer, name)
	if len(rows) == 0 || slices.ContainsFunc(reviewers, func(r reviewer) bool { return !r.Takes(ctx, rows[0]) }) {
		return c, false
	}
	return s.answers.OwnNode(answer, name)
}

// narrow has the reviewers leave the rows that they take, one after the other.
func (s *Scheduler) narrow(ctx context.Context, a *attempt, rows []answers.Row, reviewers []reviewer) ([]answers.Row, *ending) {
	for _, r := range reviewers {
		left, wait, err := r.Narrow(ctx, rows)
		switch {
		case err != nil:
			return nil, &ending{failed: err}
		case wait:
			s.park(a)
			return nil, &ending{parked: true}
		}
		rows = left
	}
	return rows, nil
}

// best is the best of the rows that are left. A single one is not scored, as upstream's is not.
func (s *Scheduler) best(ctx context.Context, a *attempt, answer *answers.Answer, rows []answers.Row,
	by []reviewer) (answers.Choice, error) {
	totals := answer.ScoresAmong(rows)
	if len(rows) > 1 {
		if a.class.ScoreError != nil {
			return answers.Choice{}, a.class.ScoreError
		}
		for _, r := range by {
			if err := r.Score(ctx, rows, totals); err != nil {
				return answers.Choice{}, err
			}
		}
	}
	return answer.Choose(rows, totals), nil
}

// rowsFor are the rows that pass the rules, of the nodes that are left.
func (s *Scheduler) rowsFor(answer *answers.Answer, a *attempt, q *answers.Question) []answers.Row {
	if names, narrowed := a.plugins.Narrowed(); narrowed {
		return s.rowsOf(answer, names...)
	}
	return answer.Rows(q.Nominees)
}

// rowsOf are those of the nodes that pass the rules.
func (s *Scheduler) rowsOf(answer *answers.Answer, names ...string) []answers.Row {
	var rows []cache.Row
	for _, name := range names {
		if row, ok := s.state.RowOf(name); ok {
			rows = append(rows, row)
		}
	}
	return answer.RowsAmong(rows)
}

// nameOf is the name of a row's node.
func (s *Scheduler) nameOf(r cache.Row) string { return s.state.Table(int(r.Shard)).Name(r.Index) }

// refusedByReviewers words why no node takes the pod. Rows that reviewers have refused have passed all else.
func (s *Scheduler) refusedByReviewers(answer *answers.Answer, a *attempt, reviewers []reviewer) *ending {
	more := answers.Reasons{}
	var by []string
	for _, r := range reviewers {
		by = append(by, r.Reasons(more)...)
	}
	var message string
	var plugins []string
	if _, narrowed := a.plugins.Narrowed(); narrowed {
		message, plugins = a.plugins.NarrowedRefusal(answer, more)
	} else {
		message, plugins = s.refusal(answer, a, more)
	}
	by = append(by, plugins...)
	slices.Sort(by)
	return &ending{answer: answer, message: message, by: slices.Compact(by)}
}
