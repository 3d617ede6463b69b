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
	// e has memory that rules may use; nil where none is asked.
	e *Evaluator
}

// devices are a row's devices, with what is in use of them.
func (v view) devices() *deviceState {
	switch {
	case v.totals == nil:
		return v.t.deviceState(v.row)
	case v.totals.devices == nil:
		return noDevices
	}
	return v.totals.devices
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

// amounts are what a row has of a resource, and the sum of its pods' real requests.
func (v view) amounts(ref resourceRef) (allocatable, requested int64) {
	x := v.t.resource(ref)
	if x != nil {
		allocatable = x.allocatable.at(v.row)
	}
	switch {
	case v.totals != nil && ref.fixed >= 0:
		requested = v.totals.requested[ref.fixed]
	case v.totals != nil:
		requested = amountOf(v.totals.scalars, ref.name)
	case x != nil:
		requested = x.requested.at(v.row)
	}
	return allocatable, requested
}

// nonZero is the sum of the pods' requests of cpu or memory with defaults.
func (v view) nonZero(fixed int) int64 {
	if v.totals != nil {
		return v.totals.nonZero[fixed]
	}
	return v.t.nonZero[fixed].at(v.row)
}

// Verdict is what a class's local part says about one row. It is used again from row to
// row.
type Verdict struct {
	// Passed tells that the row belongs to the group Key: every filter that the row
	// itself decides lets it through, or it is counted all the same (Row). Without a group
	// part it is then feasible.
	Passed bool
	Key    Key
	// Local is the weighted sum of the plugins that only look at the row.
	Local int64
	// Measured is the row's share of each of Query.measures, passed or not.
	Measured []Measured
}

// Measured is a row's share of a measure.
type Measured struct {
	// Included tells that the row counts.
	Included bool
	// Domain is its own with BREAKDOWN_DOMAIN, unless Missing.
	Missing bool
	Domain  string
	// Value is the weighted sum of its counters.
	Value int64
}

// Row evaluates one row as Evaluate does: with totals as what its pods add up to, or
// with the table's own where totals is nil. A row without a node does not pass. With
// diagnose, a row passes too that a late filter or a forbidding value refuses, as in
// Options.Diagnose.
func (e *Evaluator) Row(t *Table, row uint32, totals *RowTotals, c *Class, diagnose bool, into *Verdict) {
	into.reset(len(c.group.measures))
	if !t.HasNode(row) {
		return
	}
	v := view{t, row, totals, e}
	c.measure(v, into.Measured)
	into.Passed = c.looksAt(t, row) && e.passes(v, c, diagnose, &into.Key) && c.fillKey(v, diagnose, &into.Key)
	if !into.Passed {
		into.Key.reset()
		return
	}
	for i := range c.scores {
		s := &c.scores[i]
		if s.rule == nil {
			continue
		}
		raw := s.rule.score(e, v)
		if s.key >= 0 {
			into.Key.Raw[s.key] = raw
		} else {
			into.Local += s.weight * raw
		}
	}
}

// reset empties the verdict and keeps its memory.
func (v *Verdict) reset(measures int) {
	v.Passed, v.Local = false, 0
	v.Key.reset()
	v.Measured = scratch(v.Measured, measures)
	clear(v.Measured)
}

// passes tells whether the local filters let a row through. A late refusal goes into the
// key of a diagnosis, and that a row fails the pod into any key.
func (e *Evaluator) passes(v view, c *Class, diagnose bool, key *Key) bool {
	for i := range c.filters {
		f := &c.filters[i]
		if f.rule == nil || f.rule.passes(v) {
			continue
		}
		if !diagnose && (f.claims == nil || !f.claims.fails(v)) || !f.late {
			return false
		}
		e.why = f.marks(v, e.why[:0])
		key.LateFilter, key.LateReasons = f.number, reasonBits(e.why)
		return true
	}
	return true
}

// reasonBits are reasons as bits. There is room for 64: NodeResourcesFit may have more for a
// pod that asks for 30 extended resources, and then the first ones are told.
func reasonBits(why []int) uint64 {
	set := uint64(0)
	for _, i := range why {
		if i < 64 {
			set |= 1 << i
		}
	}
	return set
}

// measure fills in a row's share of each measure.
func (c *Class) measure(v view, into []Measured) {
	g := &c.group
	for i := range g.measures {
		m, x := &g.measures[i], &into[i]
		if x.Included = g.inclusions[m.inclusion].includes(v); !x.Included {
			continue
		}
		x.Value = v.weighted(g.sums[m.sum])
		if m.label >= 0 {
			domain, has := v.t.labels.lookup(v.row, g.labels[m.label])
			x.Domain, x.Missing = domain, !has
		}
	}
}

// fillKey fills in a row's domains and values. It tells whether the row can be in a group:
// one with a forbidding value only in a diagnosis, or where it fails the pod before the filter that reads the value.
func (c *Class) fillKey(v view, diagnose bool, key *Key) bool {
	g := &c.group
	for i := range g.values {
		x := &g.values[i]
		n := x.value(v, g.sumOf(x, v), g.inclusions[x.inclusion].includes(v))
		if !diagnose && c.forbids(x, n, key) {
			return false
		}
		key.Values = append(key.Values, n)
	}
	for i, label := range g.domains {
		domain, has := v.t.labels.lookup(v.row, label)
		key.Domains = append(key.Domains, domain)
		if !has {
			key.Missing.add(i)
		}
	}
	return true
}

// forbids tells whether a value keeps a row out of all groups.
func (c *Class) forbids(x *rowValue, n int64, key *Key) bool {
	return x.forbids && n > 0 && !(x.behindClaims && c.fails(key.lateMark()))
}

// refusing is the first of the rules that refuses a row, nil where none does. late tells
// whether the rules of late filters count.
func (c *Class) refusing(v view, late bool) filterRule {
	for i := range c.filters {
		f := &c.filters[i]
		if f.late && !late {
			return nil
		}
		if f.rule != nil && !f.rule.passes(v) {
			return f.rule
		}
	}
	return nil
}

// Reasons tells which plugin refuses a row by itself, and why, in upstream's order. Plugin
// is unspecified where a PreFilter narrowed the row away, and where nothing refuses it
// before the group part of the class comes in (then GroupReasons tells), or the class does not look at it, or it holds no
// node; then there are no reasons either. The reasons hold until the evaluator's next
// use.
func (e *Evaluator) Reasons(t *Table, row uint32, totals *RowTotals, c *Class) (plugin pb.Plugin, reasons []Reason) {
	if !t.HasNode(row) || !c.looksAt(t, row) {
		return pb.Plugin_PLUGIN_UNSPECIFIED, nil
	}
	v := view{t, row, totals, e}
	rule := c.refusing(v, false)
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

// Scores gives the score of every score plugin that looks at the row itself for a row
// that holds a node, feasible or not, in the order of Query.scores; GroupScores gives the
// others'. They hold until the evaluator's next use.
func (e *Evaluator) Scores(t *Table, row uint32, totals *RowTotals, c *Class) []PluginScore {
	e.scores = e.scores[:0]
	if !t.HasNode(row) {
		return e.scores
	}
	v := view{t, row, totals, e}
	for i := range c.scores {
		if s := &c.scores[i]; s.rule != nil {
			e.scores = append(e.scores, PluginScore{s.plugin, s.rule.score(e, v), s.weight})
		}
	}
	return e.scores
}

// Shortfalls tells how much a row lacks that NodeResourcesFit refuses; nothing for
// other rows.
func (e *Evaluator) Shortfalls(t *Table, row uint32, totals *RowTotals, c *Class) []Shortfall {
	if !t.HasNode(row) {
		return nil
	}
	v := view{t, row, totals, e}
	if fit, ok := c.refusing(v, true).(*nodeResourcesFit); ok {
		return fit.shortfalls(v)
	}
	return nil
}
