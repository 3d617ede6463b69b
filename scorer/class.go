package scorer

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/devices"
	"github.com/shardsched/shardsched/scorer/expression"
)

// Class is a query made ready for evaluation. It is immutable, shared by goroutines,
// and belongs to no table: what it names is looked up in each one.
type Class struct {
	query *pb.Query
	// original is the class that this is a variant of; nil: of none.
	original *Class
	filters  []filterTerm
	scores   []scoreTerm
	*shared
	// within is the label of the rows that are looked at; nil: all are.
	within *pb.Label
	// left is what rows that pass the filters have left of cpu and memory, at least.
	left  [2]int64
	bytes int64
	// claims is the rule of DynamicResources; nil: none filters. failing is the mark of rows that fail the pod.
	claims  *dynamicResources
	failing lateMark
	// usual is memory for the terms and rules of usual classes.
	usual struct {
		filters [5]filterTerm
		scores  [4]scoreTerm
		rules   usualRules
	}
}

// shared is what a class has in common with its variants.
type shared struct {
	keyLen int
	group  groupPart
	// late tells that one of the filters is late.
	late bool
	// byPods tells that an expression makes a row pass, or its key, by what the row's pods add up to.
	byPods bool
	pods   podReads
	// decisive are the measures that filters read, ascending, each once.
	decisive []int
}

// filterTerm is one filter plugin of a class: what each row decides, and what is
// decided for groups.
type filterTerm struct {
	plugin pb.Plugin
	rule   filterRule  // nil: nothing
	group  groupFilter // nil: nothing
	// number is the filter's index in Query.filters, plus one; 0 for the narrowing.
	number uint32
	// late tells that a filter of the group part runs before the rule.
	late bool
	// reads is what the group's filter reads; nil: there is none.
	reads *groupReads
	// claims is the rule where it is that of DynamicResources, which may fail the pod.
	claims *dynamicResources
}

// marks are why the rule refuses a row, for the key.
func (f *filterTerm) marks(v view, into []int) []int {
	if f.claims != nil {
		return f.claims.marks(v, into)
	}
	return f.rule.refusals(v, into)
}

// scoreTerm is one score plugin of a class: rule and group are never both there.
type scoreTerm struct {
	plugin pb.Plugin
	rule   scoreRule
	group  groupScore
	weight int64
	// key is the index of the raw score in Key.Raw; -1 where it is local, or the group's.
	key           int
	normalisation normalisation
	// reads is what the group's score reads; nil: there is none.
	reads *groupReads
}

// NewClass makes a class of a query, which must not be changed afterwards.
func NewClass(q *pb.Query) (*Class, error) { return NewClassWith(q, nil, nil) }

// NewClassWith is NewClass that finds expressions in kept, which may be nil, and has the selectors of devices compiled: a
// query of claims without a compiler is an error.
func NewClassWith(q *pb.Query, kept *expression.Templates, selectors devices.Compiler) (*Class, error) {
	if err := q.Validate(); err != nil {
		return nil, fmt.Errorf("query %d: %w", q.GetClassId(), err)
	}
	c := &Class{query: q, within: q.GetWithin(), shared: &shared{group: newGroupPart(q)}}
	c.filters, c.scores = c.usual.filters[:0], c.usual.scores[:0]
	if q.GetNarrowed() != nil {
		c.filters = append(c.filters, filterTerm{rule: newNarrowed(q.GetNarrowed())})
	}
	grouped := false
	for i, p := range q.GetFilters() {
		f := filterTerm{plugin: p, rule: c.usual.rules.newFilter(p, q), number: uint32(i + 1), late: grouped}
		if p == pb.Plugin_PLUGIN_CEL_FILTER {
			rule, err := newCelFilter(q.GetCel(), kept)
			if err != nil {
				return nil, fmt.Errorf("query %d: %w", q.GetClassId(), err)
			}
			f.rule = rule
			for i := range rule.list {
				c.byPods = c.byPods || readsPods(rule.list[i].residual.Reads())
			}
		}
		if p == pb.Plugin_PLUGIN_DYNAMIC_RESOURCES {
			rule, err := newDynamicResources(q, selectors)
			if err != nil {
				return nil, fmt.Errorf("query %d: %w", q.GetClassId(), err)
			}
			f.rule, f.claims, f.late, grouped = rule, rule, true, true
			c.claims, c.failing = rule, lateMark{f.number, 1 << failsPod}
		}
		if f.group, f.reads = newGroupFilter(p, q); f.group != nil {
			c.decisive = append(c.decisive, f.reads.measures...)
		}
		grouped = grouped || f.group != nil
		c.late = c.late || f.late && f.rule != nil
		c.filters = append(c.filters, f)
	}
	for _, s := range q.GetScores() {
		term := scoreTerm{plugin: s.GetPlugin(), weight: s.GetWeight(), key: -1}
		term.rule, term.normalisation = c.usual.rules.newScore(s.GetPlugin(), q, c.ruleOf(s.GetPlugin()))
		if term.plugin == pb.Plugin_PLUGIN_DYNAMIC_RESOURCES && c.claims != nil {
			term.rule, term.normalisation = c.claims, normalised
		}
		if term.plugin == pb.Plugin_PLUGIN_CEL_SCORE {
			rule, how, err := newCelScore(q.GetCel(), kept)
			if err != nil {
				return nil, fmt.Errorf("query %d: %w", q.GetClassId(), err)
			}
			term.rule, term.normalisation = rule, how
			for i := range rule.list {
				c.byPods = c.byPods || how != local && readsPods(rule.list[i].residual.Reads())
			}
		}
		term.group, term.reads = newGroupScore(s.GetPlugin(), q)
		if term.normalisation != local {
			term.key = c.keyLen
			c.keyLen++
		}
		c.scores = append(c.scores, term)
	}
	if fit, ok := c.ruleOf(pb.Plugin_PLUGIN_NODE_RESOURCES_FIT).(*nodeResourcesFit); ok {
		c.left = fit.left()
	}
	c.orderValues()
	c.countDevices()
	c.pods = newPodReads(c)
	c.bytes = memoryBytes(q)
	slices.Sort(c.decisive)
	c.decisive = slices.Compact(c.decisive)
	return c, nil
}

// orderValues finds the row values that only filters behind DynamicResources read.
func (c *Class) orderValues() {
	at := slices.IndexFunc(c.filters, func(f filterTerm) bool { return f.claims != nil })
	for i := len(c.filters) - 1; i >= 0; i-- {
		if c.filters[i].group == nil {
			continue
		}
		for _, k := range c.filters[i].reads.values {
			c.group.values[k].behindClaims = at >= 0 && at < i
		}
	}
}

// countDevices has scores count the devices that serve extended resources.
func (c *Class) countDevices() {
	if c.claims == nil {
		return
	}
	for i := range c.scores {
		switch rule := c.scores[i].rule.(type) {
		case *nodeResourcesFit:
			c.claims.counted(rule.scored)
		case *balancedAllocation:
			c.claims.counted(rule.scored)
		}
	}
}

// ruleOf is the rule of a filter plugin; nil where it has none.
func (c *Class) ruleOf(p pb.Plugin) filterRule {
	for i := range c.filters {
		if c.filters[i].plugin == p {
			return c.filters[i].rule
		}
	}
	return nil
}

// ID is the query's class_id.
func (c *Class) ID() uint64 { return c.query.GetClassId() }

// MemoryBytes estimates what the class and its query take.
func (c *Class) MemoryBytes() int64 { return c.bytes }

const (
	// textBytes is what a byte of the query's encoding comes to: a value of ten bytes takes some eighty, with
	// its place in the message and in the set that finds it.
	textBytes = 8
	// scalarBytes is what a resource that pods request takes in a variant, beside its name: the message, the request and the reasons.
	scalarBytes = 256
)

// memoryBytes is a guess that grows with all that the query lists.
func memoryBytes(query *pb.Query) int64 {
	const (
		classBytes  = 8 << 10
		volumeBytes = 200 // a candidate, and its entry in the index
		placeBytes  = 8
		// expressionBytes is what a byte of an expression's text comes to once it is ready.
		expressionBytes = 200
		// segmentBytes is a selector of one term, and its entry in the index.
		segmentBytes = 700
	)
	b := query.GetVolumeBinding()
	n := classBytes + textBytes*int64(proto.Size(query)) + volumeBytes*int64(len(b.GetVolumes()))
	for _, x := range b.GetClaims() {
		n += placeBytes*int64(len(x.GetVolumes())) + segmentBytes*int64(len(x.GetCapacities()))
	}
	for _, list := range [][]*pb.CelExpression{query.GetCel().GetFilters(), query.GetCel().GetScores()} {
		for _, e := range list {
			n += expressionBytes * int64(len(e.GetText()))
		}
	}
	return n
}

// Query is what the class was made of.
func (c *Class) Query() *pb.Query { return c.query }

// Vary makes a variant: the class of a query that differs from the class's own only in its id and in what its pods request
// (pb.Query.With). It costs a fraction of NewClass, for the rest is shared, and counted again in MemoryBytes: the variant keeps it. A
// class with claims of devices has no variants: its rules read each other's requests.
func (c *Class) Vary(q *pb.Query) *Class {
	v := new(Class)
	v.query, v.original, v.shared, v.within, v.left, v.bytes = q, c, c.shared, c.within, c.left, c.bytes
	for _, s := range q.GetFit().GetRequests().GetScalars() {
		v.bytes += scalarBytes + textBytes*int64(len(s.GetName()))
	}
	v.filters = append(v.usual.filters[:0], c.filters...)
	v.scores = append(v.usual.scores[:0], c.scores...)
	var fit *nodeResourcesFit
	if q.GetFit() != nil {
		fit = v.usual.rules.fit.make(q)
	}
	for i := range v.filters {
		if f := &v.filters[i]; f.plugin == pb.Plugin_PLUGIN_NODE_RESOURCES_FIT {
			f.rule, v.left = fit, fit.left()
		}
	}
	for i := range v.scores {
		switch s := &v.scores[i]; s.plugin {
		case pb.Plugin_PLUGIN_NODE_RESOURCES_FIT:
			s.rule = fit
		case pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION:
			s.rule = v.usual.rules.balanced.make(q)
		}
	}
	return v
}

// Original is the class that the class is a variant of; nil: of none.
func (c *Class) Original() *Class { return c.original }

// KeyLen is the number of normalised plugins among Query.scores: how much of Key.Raw
// counts.
func (c *Class) KeyLen() int { return c.keyLen }

// Measures is how many measures the class has.
func (c *Class) Measures() int { return len(c.group.measures) }

// HasGroups tells whether the class has a group part: its key holds more than raw scores,
// or it measures the cluster. Then a verdict takes the whole cluster (Settle), and
// there may be any number of groups.
func (c *Class) HasGroups() bool { return c.group.any() || c.claims != nil }

// Claims tells whether the class has claims of devices: then a verdict rests on the devices of the row too, and on shared ones.
func (c *Class) Claims() bool { return c.claims != nil }

// fails tells whether a mark is that of rows which fail the pod.
func (c *Class) fails(m lateMark) bool { return c.claims != nil && m == c.failing }

// FailsPod tells whether a group has rows that fail the pod: an answer without a diagnosis has such groups, too.
func (c *Class) FailsPod(g *pb.Group) bool {
	return c.fails(lateMark{g.LateFilter, g.LateReasons})
}

// Counters are the counters that the query refers to, sorted, each once.
func (c *Class) Counters() []uint32 { return c.group.counters }

// SharesByPods tells whether a row may pass, or be in another group, for having a pod more: otherwise
// only counters do that.
func (c *Class) SharesByPods() bool { return c.byPods }

// Unnarrowed is the class without what a PreFilter narrows the rows to.
func (c *Class) Unnarrowed() *Class {
	if c.query.GetNarrowed() == nil {
		return c
	}
	wide := c.copied()
	wide.original, wide.query = nil, proto.CloneOf(c.query)
	wide.query.Narrowed = nil
	wide.filters = c.filters[1:]
	wide.pods = newPodReads(wide)
	return wide
}

// copied is a copy that may be changed: what it still shares with the class is only read.
func (c *Class) copied() *Class {
	out, own := *c, *c.shared
	out.shared = &own
	return &out
}
