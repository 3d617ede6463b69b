package choice

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
func (c *Chooser) reviewers(ctx context.Context, t *Try, q *answers.Question) (list []reviewer, end *Ending, err error) {
	if !q.Alone {
		return nil, nil, nil
	}
	own, err := c.ownAnswer(ctx, t, q)
	if err != nil {
		return nil, nil, err
	}
	if t.Plugins != nil {
		list = append(list, t.Plugins)
	}
	if t.Extenders != nil {
		list = append(list, t.Extenders)
	}
	wanted := false
	for _, r := range list {
		wants, rejected, err := r.Wants(ctx)
		switch {
		case err != nil:
			return nil, &Ending{Failed: err}, nil
		case rejected != nil:
			end := c.Rejected(rejected, t.Within)
			if own.Diagnosed() {
				end.Answer = own
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
func (c *Chooser) ownAnswer(ctx context.Context, t *Try, q *answers.Question) (*answers.Answer, error) {
	p, need := c.Engine.Own(q)
	if need == nil {
		return p, nil
	}
	if err := c.Fetch(ctx, t, need); err != nil {
		return nil, err
	}
	p, _ = c.Engine.Own(q)
	return p, nil
}

// chooseReviewed is choose with reviewers.
func (c *Chooser) chooseReviewed(ctx context.Context, t *Try, q *answers.Question, by []reviewer) (answers.Choice, *Ending, error) {
	var none answers.Choice
	p, _ := c.Engine.Own(q)
	for {
		// First the answer is brought up to now: others may have been placed since, and a part of the loop below asks for another.
		c.Engine.Refresh(p, q)
		if own, ok := c.ownNode(ctx, t, p, by); ok {
			return own, nil, nil
		}
		rows, end := c.narrow(ctx, t, c.rowsFor(p, t, q), by)
		if end != nil {
			return none, end, nil
		}
		if len(rows) > 0 {
			best, failed := c.best(ctx, t, p, rows, by)
			if failed != nil {
				return none, &Ending{Failed: failed}, nil
			}
			liar, why := p.Vouch(&best)
			if why == nil {
				return best, nil, nil
			}
			c.Workers.Blame(ctx, liar, why)
			p.JudgeAll(false)
			continue
		}
		// None is left. The reasons come last, for it takes another answer to know them.
		if p.Diagnosed() {
			return none, c.refusedByReviewers(p, t, by), nil
		}
		if need := c.Engine.Diagnose(p, q); need != nil {
			if err := c.Fetch(ctx, t, need); err != nil {
				return none, nil, err
			}
		}
	}
}

// ownNode tries the node that a pod is nominated to before all others, and then no other. An error there is no reason not to
// try the others.
func (c *Chooser) ownNode(ctx context.Context, t *Try, answer *answers.Answer, reviewers []reviewer) (own answers.Choice, ok bool) {
	name := t.Pod.Nomination()
	if name == "" {
		return own, false
	}
	rows := c.rowsOf(answer, name)
	if len(rows) == 0 || slices.ContainsFunc(reviewers, func(r reviewer) bool { return !r.Takes(ctx, rows[0]) }) {
		return own, false
	}
	return c.Engine.OwnNode(answer, name)
}

// narrow has the reviewers leave the rows that they take, one after the other.
func (c *Chooser) narrow(ctx context.Context, t *Try, rows []answers.Row, reviewers []reviewer) ([]answers.Row, *Ending) {
	for _, r := range reviewers {
		left, wait, err := r.Narrow(ctx, rows)
		switch {
		case err != nil:
			return nil, &Ending{Failed: err}
		case wait:
			return nil, &Ending{Parked: true}
		}
		rows = left
	}
	return rows, nil
}

// best is the best of the rows that are left. A single one is not scored, as upstream's is not.
func (c *Chooser) best(ctx context.Context, t *Try, answer *answers.Answer, rows []answers.Row,
	by []reviewer) (answers.Choice, error) {
	totals := answer.ScoresAmong(rows)
	if len(rows) > 1 {
		if t.Class.ScoreError != nil {
			return answers.Choice{}, t.Class.ScoreError
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
func (c *Chooser) rowsFor(answer *answers.Answer, t *Try, q *answers.Question) []answers.Row {
	if names, narrowed := t.Plugins.Narrowed(); narrowed {
		return c.rowsOf(answer, names...)
	}
	return answer.Rows(q.Nominees)
}

// rowsOf are those of the nodes that pass the rules.
func (c *Chooser) rowsOf(answer *answers.Answer, names ...string) []answers.Row {
	var rows []cache.Row
	for _, name := range names {
		if row, ok := c.State.RowOf(name); ok {
			rows = append(rows, row)
		}
	}
	return answer.RowsAmong(rows)
}

// refusedByReviewers words why no node takes the pod. Rows that reviewers have refused have passed all else.
func (c *Chooser) refusedByReviewers(answer *answers.Answer, t *Try, reviewers []reviewer) *Ending {
	more := answers.Reasons{}
	var by []string
	for _, r := range reviewers {
		by = append(by, r.Reasons(more)...)
	}
	var message string
	var plugins []string
	if _, narrowed := t.Plugins.Narrowed(); narrowed {
		message, plugins = t.Plugins.NarrowedRefusal(answer, more)
	} else {
		message, plugins = c.refusal(answer, t, more)
	}
	by = append(by, plugins...)
	slices.Sort(by)
	return &Ending{Answer: answer, Message: message, By: slices.Compact(by)}
}
