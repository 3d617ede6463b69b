package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// filterRule is a plugin's Filter. It is immutable.
type filterRule interface {
	plugin() pb.Plugin
	// reasons lists what the rule can say of a row that it refuses.
	reasons() []Reason
	// narrow takes the rows that the rule refuses from rows.
	narrow(e *Evaluator, t *Table, rows bitmap)
	// passes is narrow for one row.
	passes(v view) bool
	// refusals appends why a row is refused: indexes into reasons, in upstream's
	// order.
	refusals(v view, into []int) []int
}

// scoreRule is a plugin's Score. It is immutable.
type scoreRule interface {
	plugin() pb.Plugin
	// column writes raw scores to into. It returns the rows of which it has written them, which hold until
	// the evaluator's next pass; all others have 0.
	column(e *Evaluator, t *Table, rows bitmap, into []int64) (some bitmap)
	// score is column for one row.
	score(e *Evaluator, v view) int64
}

// usualRules are the rules that nearly every class has, in one piece of memory.
type usualRules struct {
	unschedulable nodeUnschedulable
	name          nodeName
	taints        taintToleration
	fit           nodeResourcesFit
	balanced      balancedAllocation
	images        imageLocality
}

// newFilter makes the rule of a filter plugin. The order of the cases is the one in
// which upstream's default profile runs them; a query names the order of its
// profile. It matters: the first rule that refuses a row gives its reason.
func (u *usualRules) newFilter(p pb.Plugin, q *pb.Query) filterRule {
	switch p {
	case pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE: // a bit a row
		return u.unschedulable.make(q)
	case pb.Plugin_PLUGIN_NODE_NAME: // leaves one row at the most
		return u.name.make(q)
	case pb.Plugin_PLUGIN_TAINT_TOLERATION: // decided once for each list of taints
		return u.taints.make(q)
	case pb.Plugin_PLUGIN_NODE_AFFINITY: // decided once for each value of a label
		return newNodeAffinity(q)
	case pb.Plugin_PLUGIN_NODE_PORTS: // walks the ports of each row
		return newNodePorts(q)
	case pb.Plugin_PLUGIN_NODE_RESOURCES_FIT: // computes on each row
		return u.fit.make(q)
	case pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS: // a counter for each disk of the pod
		return newVolumeRestrictions(q)
	case pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS: // decided once for each trait, then a counter
		return newNodeVolumeLimits(q)
	case pb.Plugin_PLUGIN_VOLUME_BINDING: // finds a volume for each claim on each row
		return newVolumeBinding(q)
	case pb.Plugin_PLUGIN_VOLUME_ZONE: // decided once for each value of a label
		return newVolumeZone(q)
	case pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES: // decided once for each trait
		return newNodeDeclaredFeatures(q)
	}
	return nil
}

// newScore makes the rule of a score plugin, of which the filter's is made, or nil. A raw score is
// either normalised over all feasible rows of the cluster, and then part of the group's key, or it is
// local.
func (u *usualRules) newScore(p pb.Plugin, q *pb.Query, made filterRule) (rule scoreRule, n normalisation) {
	switch p {
	case pb.Plugin_PLUGIN_TAINT_TOLERATION:
		return madeOr(made, u.taints.make, q), normalisedReverse
	case pb.Plugin_PLUGIN_NODE_AFFINITY:
		return madeOr(made, newNodeAffinity, q), normalised
	case pb.Plugin_PLUGIN_NODE_RESOURCES_FIT:
		return madeOr(made, u.fit.make, q), local
	case pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION:
		return u.balanced.make(q), local
	case pb.Plugin_PLUGIN_IMAGE_LOCALITY:
		return u.images.make(q), local
	}
	return nil, local
}

// madeOr is the rule that a plugin's filter has, or one of its own.
func madeOr[R scoreRule](made filterRule, build func(*pb.Query) R, q *pb.Query) R {
	if r, ok := made.(R); ok {
		return r
	}
	return build(q)
}

// Evaluate answers a class for the rows of t and adds the answer to into, which was
// Reset for the class. Scratch memory grows with the largest table, and is kept.
func (e *Evaluator) Evaluate(t *Table, c *Class, o Options, into *Result) {
	e.rows = t.live[:words(t.Rows())].copyOf(e.rows)
	part := &e.part
	part.Reset(c.ID(), o.Candidates)
	part.Rows, part.barred = e.keepWithin(t, c, e.rows, t.nodes), true
	part.grouped = c.HasGroups()
	part.Normalised = o.Normalise && !part.grouped
	for range c.keyLen {
		part.Extrema = append(part.Extrema, 0)
	}
	if part.grouped {
		e.columns.begin(c, len(e.rows)*wordRows, o.Diagnose)
		part.openMeasures(len(c.group.measures))
	}
	if o.Measure {
		for _, i := range c.decisive {
			e.measure(t, c, i)
		}
		if o.Copies {
			e.filter(t, c, false)
			part.Copies = e.countCopies(t, c, o.CopyKeys)
		}
		into.Merge(part)
		return
	}
	part.Feasible = e.filter(t, c, o.Diagnose)
	if o.Copies {
		part.Copies = e.countCopies(t, c, o.CopyKeys)
	}
	switch {
	case part.grouped:
		e.score(t, c)
		e.groupByKey(t, c, o)
	case part.Feasible > 0:
		e.score(t, c)
		e.group(t, c, o, into)
	}
	e.local.end(e.observer, part.Feasible)
	if len(into.Groups) == 0 && !into.Overflow { // then nothing has to be copied
		into.Groups, part.Groups = part.Groups, into.Groups
	}
	into.Merge(part)
}

// filter leaves the rows that belong to a group in e.rows and returns how many there are.
func (e *Evaluator) filter(t *Table, c *Class, diagnose bool) int {
	left := e.part.Rows
	e.aside = e.aside[:0]
	for i := range c.filters {
		f := &c.filters[i]
		before := left
		switch {
		case f.late && f.rule != nil && diagnose:
			left = e.mark(t, f)
		case f.claims != nil:
			left = e.setAside(t, f)
		case f.rule != nil && left > 0 && c.claims != nil:
			left = e.narrowOthers(t, f.rule, left, diagnose)
		case f.rule != nil && left > 0:
			left = e.narrow(t, f.rule, left, diagnose)
		case f.group == nil:
			continue
		}
		if f.group != nil {
			left = e.prepare(t, c, f.reads, left)
		}
		if e.observer != nil && f.plugin != pb.Plugin_PLUGIN_UNSPECIFIED {
			e.observer.Pass(f.plugin, pb.ExtensionPoint_EXTENSION_POINT_FILTER, before, left)
		}
	}
	return e.rest(t, c, left)
}

// narrow runs one filter over the rows that are left.
func (e *Evaluator) narrow(t *Table, rule filterRule, before int, diagnose bool) (left int) {
	if diagnose {
		e.refused = e.rows.copyOf(e.refused)
	}
	rule.narrow(e, t, e.rows)
	left = e.rows.count()
	if diagnose && left < before {
		e.refused.without(e.rows)
		e.countReasons(t, rule, before-left)
	}
	return left
}

// score finds what the score plugins make of the rows in e.rows: e.keys, what e.local adds up, and what else they
// read of the cluster.
func (e *Evaluator) score(t *Table, c *Class) {
	n := e.part.Feasible
	e.local.begin(e, t)
	e.keys.begin(len(e.rows))
	for i := range c.scores {
		s := &c.scores[i]
		switch {
		case s.group != nil:
			e.prepare(t, c, s.reads, n)
		case s.rule == nil || n == 0:
			continue
		case s.key >= 0:
			e.keys.add(e, t, s.rule, e.rows)
		case e.local.add(s, e.rows):
			continue // its pass ends with the last block
		}
		if e.observer != nil {
			e.observer.Pass(s.plugin, pb.ExtensionPoint_EXTENSION_POINT_SCORE, n, n)
		}
	}
	e.local.ready(c.left)
}

// countReasons counts why rule refused the n rows in e.refused.
func (e *Evaluator) countReasons(t *Table, rule filterRule, n int) {
	reasons := rule.reasons()
	if len(reasons) == 1 {
		e.part.addReason(reasons[0], n)
		if reasons[0].Unresolvable {
			e.part.Hopeless += n
		}
		return
	}
	e.counts = scratch(e.counts, len(reasons))
	clear(e.counts)
	for row := range e.refused.all {
		e.why = rule.refusals(view{t: t, row: row, e: e}, e.why[:0])
		unresolvable := false
		for _, i := range e.why {
			e.counts[i]++
			unresolvable = unresolvable || reasons[i].Unresolvable
		}
		if unresolvable {
			e.part.Hopeless++
		}
	}
	for i, n := range e.counts {
		if n > 0 {
			e.part.addReason(reasons[i], n)
		}
	}
}
