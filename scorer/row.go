package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// view is one row that holds a node, with what its pods add up to: as the table has
// it, or as totals say.
type view struct {
	t      *Table
	row    uint32
	totals *RowTotals
}

func (v view) pods() int64 {
	if v.totals != nil {
		return v.totals.pods
	}
	return v.t.pods[v.row]
}

func (v view) ports() []portUse {
	if v.totals != nil {
		return v.totals.ports
	}
	return v.t.ports[v.row]
}

// requested is the sum of the pods' real requests of a resource.
func (v view) requested(r *resource) int64 {
	switch {
	case v.totals == nil:
		return r.requested.at(v.row)
	case r.index < len(v.totals.requested):
		return v.totals.requested[r.index]
	}
	return 0
}

// nonZero is the sum of the pods' requests of cpu or memory with defaults.
func (v view) nonZero(fixed int) int64 {
	if v.totals != nil {
		return v.totals.nonZero[fixed]
	}
	return v.t.nonZero[fixed].at(v.row)
}

// Verdict is a class's answer for one row.
type Verdict struct {
	Feasible bool
	// Key is the key of the row's group; Class.KeyLen numbers count.
	Key [MaxKey]int64
	// Local is the weighted sum of the plugins that are not normalised.
	Local int64
}

// Row evaluates one row as Evaluate does: with totals as what its pods add up to, or
// with the table's own where totals is nil. A row without a node is not feasible.
func (e *Evaluator) Row(t *Table, row uint32, totals *RowTotals, c *Class) Verdict {
	var out Verdict
	if !t.HasNode(row) {
		return out
	}
	v := view{t, row, totals}
	if c.refusing(v) != nil {
		return out
	}
	out.Feasible = true
	for i := range c.scores {
		s := &c.scores[i]
		raw := s.rule.score(e, v)
		if s.key >= 0 {
			out.Key[s.key] = raw
		} else {
			out.Local += s.weight * raw
		}
	}
	return out
}

// refusing is the first rule that refuses a row, nil for a feasible one.
func (c *Class) refusing(v view) filterRule {
	for _, rule := range c.filters {
		if !rule.passes(v) {
			return rule
		}
	}
	return nil
}

// Reasons tells which plugin refuses a row, and why, in upstream's order. Plugin is
// unspecified where a PreFilter narrowed the row away, and where it is feasible or holds
// no node; then there are no reasons either. The reasons hold until the evaluator's
// next use.
func (e *Evaluator) Reasons(t *Table, row uint32, totals *RowTotals, c *Class) (plugin pb.Plugin, reasons []Reason) {
	if !t.HasNode(row) {
		return pb.Plugin_PLUGIN_UNSPECIFIED, nil
	}
	v := view{t, row, totals}
	rule := c.refusing(v)
	if rule == nil {
		return pb.Plugin_PLUGIN_UNSPECIFIED, nil
	}
	e.why = rule.refusals(v, e.why[:0])
	e.reasons = e.reasons[:0]
	for _, i := range e.why {
		e.reasons = append(e.reasons, rule.reasons()[i])
	}
	return rule.plugin(), e.reasons
}

// PluginScore is what one score plugin gives a row.
type PluginScore struct {
	Plugin pb.Plugin
	// Raw is the score before it is normalised (Class.Normalise) and weighted.
	Raw    int64
	Weight int64
}

// Name is the plugin's name.
func (p PluginScore) Name() string { return PluginName(p.Plugin) }

// Scores gives the score of every score plugin for a row that holds a node, feasible or
// not, in the order of Query.scores. They hold until the evaluator's next use.
func (e *Evaluator) Scores(t *Table, row uint32, totals *RowTotals, c *Class) []PluginScore {
	e.scores = e.scores[:0]
	if !t.HasNode(row) {
		return e.scores
	}
	v := view{t, row, totals}
	for i := range c.scores {
		s := &c.scores[i]
		e.scores = append(e.scores, PluginScore{s.rule.plugin(), s.rule.score(e, v), s.weight})
	}
	return e.scores
}

// Shortfalls tells how much a row lacks that NodeResourcesFit refuses; nothing for
// other rows.
func (e *Evaluator) Shortfalls(t *Table, row uint32, totals *RowTotals, c *Class) []Shortfall {
	if !t.HasNode(row) {
		return nil
	}
	v := view{t, row, totals}
	if fit, ok := c.refusing(v).(*nodeResourcesFit); ok {
		return fit.shortfalls(v)
	}
	return nil
}
