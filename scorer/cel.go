package scorer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/expression"
)

// celTerm is one expression of a class, over the node alone.
type celTerm struct {
	name     string
	residual *expression.Residual
	weight   int64
	ignore   bool
}

// celTerms are the expressions of one plugin. What they come to is one number a row, which
// rests on what they read of it: rows that have the same there are judged once.
type celTerms struct {
	list []celTerm
	// judge makes the number. It is the same for rows that have the same inputs.
	judge func(row *celRow) int64
	celInputs
}

// newCelTerms makes the expressions of a plugin ready.
func newCelTerms(q *pb.CelQuery, list []*pb.CelExpression, kind expression.Kind, kept *expression.Templates) (*celTerms, error) {
	if got, want := q.GetLanguage(), expression.Fingerprint(); got != want {
		return nil, fmt.Errorf("cel.language: expected %s, got %s: coordinator and worker are of different versions", want, got)
	}
	x := &celTerms{}
	var reads []expression.Read
	for _, e := range list {
		template, err := kept.Compile(e.GetText(), kind)
		if err != nil {
			return nil, fmt.Errorf("cel: expression %q: %w", e.GetName(), err)
		}
		arguments, err := template.Decode(e.GetArguments())
		if err != nil {
			return nil, fmt.Errorf("cel: expression %q: %w", e.GetName(), err)
		}
		residual, err := template.Residual(arguments)
		if err != nil {
			return nil, fmt.Errorf("cel: expression %q: %w", e.GetName(), err)
		}
		x.list = append(x.list, celTerm{e.GetName(), residual, e.GetWeight(), e.GetIgnoreFailure()})
		reads = append(reads, residual.Reads()...)
	}
	x.celInputs = newCelInputs(reads)
	return x, nil
}

// outcome evaluates one expression, within what is left of the plugin's cost.
func (x *celTerms) outcome(i int, row *celRow, left *uint64) expression.Outcome {
	o := x.list[i].residual.Eval(row)
	if o.Cost > *left {
		return expression.Outcome{Failed: "it costs too much with those before it", Costly: true}
	}
	*left -= o.Cost
	return o
}

// celFilter is the plugin CELFilter: every expression has to be true. Each has three reasons:
// that it is not, that it failed, and that it cost too much.
//
// Differs from upstream: it has no such plugin.
type celFilter struct {
	celTerms
	why []Reason
}

const (
	celFalse = iota
	celFailed
	celCostly
	celReasons
)

func newCelFilter(q *pb.CelQuery, kept *expression.Templates) (*celFilter, error) {
	terms, err := newCelTerms(q, q.GetFilters(), expression.Filter, kept)
	if err != nil {
		return nil, err
	}
	r := &celFilter{celTerms: *terms}
	r.judge = r.verdict
	for i, e := range q.GetFilters() {
		plugin, unresolvable := PluginName(r.plugin()), !readsPods(r.list[i].residual.Reads())
		text := e.GetReason()
		if text == "" {
			text = CelReason(e.GetName())
		}
		r.why = append(r.why, Reason{plugin, text, unresolvable},
			Reason{plugin, fmt.Sprintf("node(s) failed CEL expression %q", e.GetName()), unresolvable},
			Reason{plugin, fmt.Sprintf("node(s) exceeded the cost limit of CEL expression %q", e.GetName()), unresolvable})
	}
	return r, nil
}

// CelReason is why a node is refused by an expression that gives no reason of its own.
func CelReason(name string) string {
	return fmt.Sprintf("node(s) didn't match CEL expression %q", name)
}

// readsPods tells whether an expression reads what the pods of a node add up to.
func readsPods(reads []expression.Read) bool {
	return slices.ContainsFunc(reads, func(r expression.Read) bool {
		return r.Field == "requested" || r.Field == "free" || r.Field == "pods"
	})
}

func (r *celFilter) plugin() pb.Plugin { return pb.Plugin_PLUGIN_CEL_FILTER }
func (r *celFilter) reasons() []Reason { return r.why }

// verdict is the reason to refuse a row, -1 for none.
func (r *celFilter) verdict(row *celRow) int64 {
	left := uint64(expression.ClassCost)
	for i := range r.list {
		o := r.outcome(i, row, &left)
		switch {
		case o.Failed != "" && r.list[i].ignore, o.Failed == "" && o.Pass:
			continue
		case o.Costly:
			return int64(celReasons*i + celCostly)
		case o.Failed != "":
			return int64(celReasons*i + celFailed)
		}
		return int64(celReasons*i + celFalse)
	}
	return -1
}

func (r *celFilter) narrow(e *Evaluator, t *Table, rows bitmap) {
	e.judgeRows(t, &r.celTerms, rows, func(row uint32, verdict int64) {
		if verdict >= 0 {
			rows.remove(row)
		}
	})
}

func (r *celFilter) passes(v view) bool { return r.verdict(&celRow{v}) < 0 }

func (r *celFilter) refusals(v view, into []int) []int {
	if why := r.verdict(&celRow{v}); why >= 0 {
		into = append(into, int(why))
	}
	return into
}

// celScore is the plugin CELScore: the weighted mean of its expressions. One that fails counts
// as 0.
//
// Differs from upstream: it has no such plugin.
type celScore struct {
	celTerms
	weights, most int64
}

// maxCelRaw bounds scores that are normalised.
const maxCelRaw = 1_000_000_000

func newCelScore(q *pb.CelQuery, kept *expression.Templates) (*celScore, normalisation, error) {
	terms, err := newCelTerms(q, q.GetScores(), expression.Score, kept)
	if err != nil {
		return nil, local, err
	}
	r := &celScore{celTerms: *terms, most: maxNodeScore}
	r.judge = r.mean
	for i := range r.list {
		r.weights += r.list[i].weight
	}
	how := local
	switch q.GetNormalisation() {
	case pb.CelNormalisation_CEL_NORMALISATION_HIGHEST:
		how, r.most = normalised, maxCelRaw
	case pb.CelNormalisation_CEL_NORMALISATION_LOWEST:
		how, r.most = normalisedReverse, maxCelRaw
	}
	return r, how, nil
}

func (r *celScore) plugin() pb.Plugin { return pb.Plugin_PLUGIN_CEL_SCORE }

// mean is a row's score.
func (r *celScore) mean(row *celRow) int64 {
	left, sum := uint64(expression.ClassCost), int64(0)
	for i := range r.list {
		if o := r.outcome(i, row, &left); o.Failed == "" {
			sum += r.list[i].weight * int64(math.Round(min(max(o.Number, 0), float64(r.most))))
		}
	}
	return sum / r.weights
}

func (r *celScore) column(e *Evaluator, t *Table, rows bitmap, into []int64) (some bitmap) {
	e.judgeRows(t, &r.celTerms, rows, func(row uint32, score int64) { into[row] = score })
	return rows
}

func (r *celScore) score(_ *Evaluator, v view) int64 { return r.mean(&celRow{v}) }

// ExpressionOutcome is what one expression of CELFilter or CELScore comes to on a row.
type ExpressionOutcome struct {
	Plugin, Name string
	// Outcome is a bool or a number, or why there is none.
	Outcome string
	// Saw is what the expression read of the row, such as node.labels["disk"] is "hdd".
	Saw []string
}

// Expressions tells what each expression of the class comes to on a row.
func (e *Evaluator) Expressions(t *Table, row uint32, totals *RowTotals, c *Class) []ExpressionOutcome {
	if !t.HasNode(row) {
		return nil
	}
	var out []ExpressionOutcome
	add := func(p pb.Plugin, x *celTerms) {
		left := uint64(expression.ClassCost)
		for i := range x.list {
			o := x.outcome(i, &celRow{view{t, row, totals, nil}}, &left)
			text := strings.TrimSpace(o.Failed)
			switch {
			case text != "":
				text = "failed: " + text
			case p == pb.Plugin_PLUGIN_CEL_FILTER:
				text = fmt.Sprint(o.Pass)
			default:
				text = fmt.Sprint(o.Number)
			}
			saw := x.list[i].residual.Saw(&celRow{view{t, row, totals, nil}})
			out = append(out, ExpressionOutcome{PluginName(p), x.list[i].name, text, saw})
		}
	}
	for i := range c.filters {
		if r, ok := c.filters[i].rule.(*celFilter); ok {
			add(r.plugin(), &r.celTerms)
		}
	}
	for i := range c.scores {
		if r, ok := c.scores[i].rule.(*celScore); ok {
			add(r.plugin(), &r.celTerms)
		}
	}
	return out
}
