package scorer

import (
	"math"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// rowCluster is the cluster as the group filters see it while the pods of one row change:
// the measures, of which the row's own share is another.
type rowCluster struct {
	class *Class
	whole []wholeMeasure // by groupPart.measures

	// was is the row's share and values as they are counted in whole; now those to judge by.
	was, now Verdict
	// totals are those to judge by; nil: the table's own.
	totals *RowTotals
	// sums are the counters' sums behind the row values, domains the measures' over the row's
	// domain.
	sums, domains []int64
	included      []bool // by groupPart.values
}

// wholeMeasure is a measure with what is looked up of it again and again.
type wholeMeasure struct {
	of *MeasureResult
	// least is the smallest sum of a domain, or value of a row; ties have it, second is the
	// smallest that is more.
	least, second int64
	ties          int
	// known is the number of domains, or of rows by value; total the sum over all.
	known, total int64
}

// begin takes in the measures of the whole cluster.
func (x *rowCluster) begin(c *Class, whole *Result) {
	x.class = c
	x.whole = scratch(x.whole, len(c.group.measures))
	for i := range x.whole {
		var of *MeasureResult
		if whole != nil && i < len(whole.Measures) {
			of = &whole.Measures[i]
		}
		x.whole[i] = newWholeMeasure(of, c.group.measures[i].by)
	}
}

func newWholeMeasure(of *MeasureResult, by pb.Breakdown) wholeMeasure {
	m := wholeMeasure{of: of, least: math.MaxInt64, second: math.MaxInt64}
	if of == nil {
		return m
	}
	for i := range of.Cells {
		c := &of.Cells[i]
		m.total += c.Sum
		if c.Rows <= 0 {
			continue
		}
		n, domains := c.Sum, 1
		if by == pb.Breakdown_BREAKDOWN_VALUE {
			n, domains = c.Value, c.Rows
		}
		m.known += int64(domains)
		switch {
		case n < m.least:
			m.least, m.second, m.ties = n, m.least, domains
		case n == m.least:
			m.ties += domains
		case n < m.second:
			m.second = n
		}
	}
	return m
}

// row takes in a row as the table has it.
func (x *rowCluster) row(v view) {
	g := &x.class.group
	x.totals = nil
	x.was.reset(len(g.measures))
	x.class.measure(v, x.was.Measured)
	x.class.fillKey(v, true, &x.was.Key)
	x.sums, x.included = scratch(x.sums, len(g.values)), scratch(x.included, len(g.values))
	for i := range g.values {
		x.sums[i] = g.sumOf(&g.values[i], v)
		x.included[i] = g.inclusions[g.values[i].inclusion].includes(v)
	}
	x.domains = scratch(x.domains, len(g.measures))
	for i := range g.measures {
		x.domains[i] = 0
		if g.measures[i].by != pb.Breakdown_BREAKDOWN_DOMAIN || x.whole[i].of == nil {
			continue
		}
		if domain, has := v.t.labels.lookup(v.row, g.labels[g.measures[i].label]); has {
			x.domains[i] = x.whole[i].of.sumOf(domain)
		}
	}
	x.now.reset(len(g.measures))
	copy(x.now.Measured, x.was.Measured)
	x.now.Key.set(&x.was.Key)
	x.now.Passed = true
}

// sumOf is the sum of a domain, 0 where there is none.
func (m *MeasureResult) sumOf(domain string) int64 {
	i, found := slices.BinarySearchFunc(m.Cells, MeasureCell{Domain: domain}, MeasureCell.compare)
	if !found {
		return 0
	}
	return m.Cells[i].Sum
}

// change judges by other totals of the row's pods from now on.
func (x *rowCluster) change(v view) {
	g := &x.class.group
	x.totals = v.totals
	for i := range g.measures {
		if m := &x.now.Measured[i]; m.Included {
			m.Value = x.was.Measured[i].Value + v.totals.shift(g.sums[g.measures[i].sum])
		}
	}
	for i := range g.values {
		how := &g.values[i]
		x.now.Key.Values[i] = how.value(v, x.sums[i]+g.shiftOf(how, v), x.included[i])
	}
}

// unchanged judges by the table's own totals.
func (x *rowCluster) unchanged() {
	x.totals = nil
	copy(x.now.Measured, x.was.Measured)
	x.now.Key.Values = append(x.now.Key.Values[:0], x.was.Key.Values...)
}

// shift is by how much a weighted sum of counters differs from the table's.
func (r *RowTotals) shift(terms []*pb.CounterTerm) int64 {
	n := int64(0)
	for i := range r.counters {
		for _, t := range terms {
			if t.GetCounter() == r.counters[i].id {
				n += t.GetWeight() * r.counters[i].change
			}
		}
	}
	return n
}

// changeOf is by how much counters differ from the table's, together.
func (r *RowTotals) changeOf(ids []uint32) int64 {
	n := int64(0)
	if r == nil {
		return n
	}
	for i := range r.counters {
		if slices.Contains(ids, r.counters[i].id) {
			n += r.counters[i].change
		}
	}
	return n
}

// beside is what a measure was adjusted by, beside what the row's pods come to.
func (x *rowCluster) beside(measure int) int64 {
	n := x.moved(measure)
	if x.totals != nil {
		n -= x.totals.shift(x.class.group.sums[x.class.group.measures[measure].sum])
	}
	return n
}

// moved is by how much the row's share in a measure differs from what is counted in it.
func (x *rowCluster) moved(measure int) int64 {
	was, now := &x.was.Measured[measure], &x.now.Measured[measure]
	if !was.Included || was.Missing {
		return 0
	}
	return now.Value - was.Value
}

// count is Standing.count for the row.
func (x *rowCluster) count(p *place) (n int64, has bool) {
	if p.domain < 0 {
		n = x.now.Key.Values[p.value]
		return n, n != NoLabel
	}
	if x.now.Key.lacks(uint32(p.domain)) {
		return 0, false
	}
	return x.domains[p.measure] + x.moved(p.measure), true
}

// least is MeasureResult.least with the row as it is now.
func (x *rowCluster) least(measure int) (least, domains int64) {
	m, was := &x.whole[measure], &x.was.Measured[measure]
	least = m.least
	if !was.Included || was.Missing {
		return least, m.known
	}
	own := x.domains[measure]
	if x.class.group.measures[measure].by == pb.Breakdown_BREAKDOWN_VALUE {
		own = was.Value
	}
	if own == m.least && m.ties == 1 {
		least = m.second
	}
	return min(least, own+x.moved(measure)), m.known
}

// total is MeasureResult.total with the row as it is now.
func (x *rowCluster) total(measure int) int64 { return x.whole[measure].total + x.moved(measure) }

// above is Standing.above for the row.
func (x *rowCluster) above(list []place) bool {
	for i := range list {
		if n, has := x.count(&list[i]); has && n > 0 {
			return true
		}
	}
	return false
}

func (r *spreadFilter) refusesRow(x *rowCluster) int {
	for i := range r.hard {
		c := &r.hard[i]
		n, has := x.count(&c.place)
		if !has {
			return domainMissing
		}
		least, domains := x.least(c.measure)
		if domains < c.minDomains {
			least = 0
		}
		if n+c.self-least > c.maxSkew {
			return skewed
		}
	}
	return -1
}

func (r *interPodAffinityFilter) refusesRow(x *rowCluster) int {
	switch {
	case !r.attractedTo(x):
		return affinityUnmet
	case x.above(r.anti):
		return antiAffinityUnmet
	case x.above(r.existing):
		return existingAntiAffinityUnmet
	}
	return -1
}

// attractedTo is attracted for the row.
func (r *interPodAffinityFilter) attractedTo(x *rowCluster) bool {
	met, first := true, r.self
	for i := range r.required {
		n, has := x.count(&r.required[i])
		if !has {
			return false
		}
		met = met && n > 0
		first = first && x.total(r.required[i].measure) == 0
	}
	return met || first
}

// Upstream counts the claims that are in use once each, and takes back a use for each volume of
// a pod that leaves which names one of them, in whatever namespace: with one of two users, or a
// namesake, it takes the claim to be free. Where none is in use, and nothing else to be asked, it
// is not asked at all.
func (r *readWriteOncePod) refusesRow(x *rowCluster) int {
	used, beside := int64(0), int64(0)
	for _, m := range r.claims {
		used += int64(asInt(x.whole[m].total > 0))
		beside += x.beside(int(m))
	}
	if used == 0 && !r.asks || used+beside+x.totals.changeOf(r.named) <= 0 {
		return -1
	}
	return 0
}
