package scorer

import (
	"maps"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Copies are how many more pods of a class rows take, placed one after the other, while nothing else changes: the sum over all
// rows, and for each key that was asked for the sums by domain.
type Copies struct {
	Total int64
	In    []DomainCopies
}

// DomainCopies are the copies that the domains of a key take. Domains that take none are left out.
type DomainCopies struct {
	Key  string
	Sums map[string]int64
	// Many: more than pb.MaxCopyDomains domains take copies, and there are no sums.
	Many bool
}

// NewCopies are none, of these keys.
func NewCopies(keys []string) *Copies {
	c := &Copies{In: make([]DomainCopies, len(keys))}
	for i, key := range keys {
		c.In[i] = DomainCopies{Key: key, Sums: map[string]int64{}}
	}
	return c
}

// Clone is a copy that shares no memory with c.
func (c *Copies) Clone() *Copies {
	out := &Copies{Total: c.Total, In: slices.Clone(c.In)}
	for i := range out.In {
		out.In[i].Sums = maps.Clone(out.In[i].Sums)
	}
	return out
}

// Of are the sums of a key; nil: it was not asked for.
func (c *Copies) Of(key string) *DomainCopies {
	i := slices.IndexFunc(c.In, func(d DomainCopies) bool { return d.Key == key })
	if i < 0 {
		return nil
	}
	return &c.In[i]
}

// merge adds the copies of other rows, of the same keys.
func (c *Copies) merge(o *Copies) {
	c.Total += o.Total
	if len(c.In) == 0 {
		c.In = NewCopies(o.keys()).In
	}
	for i := range min(len(c.In), len(o.In)) {
		into, from := &c.In[i], &o.In[i]
		if from.Many {
			into.tooMany()
		}
		for domain, n := range from.Sums {
			into.add(domain, n)
		}
	}
}

func (c *Copies) keys() []string {
	out := make([]string, len(c.In))
	for i := range c.In {
		out[i] = c.In[i].Key
	}
	return out
}

// equal tells whether two are the same.
func (c *Copies) equal(o *Copies) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.Total == o.Total && slices.EqualFunc(c.In, o.In, func(a, b DomainCopies) bool {
		return a.Key == b.Key && a.Many == b.Many && maps.Equal(a.Sums, b.Sums)
	})
}

// total is the sum over all rows; 0 where nobody has asked.
func (c *Copies) total() int64 {
	if c == nil {
		return 0
	}
	return c.Total
}

// add counts copies in a domain.
func (d *DomainCopies) add(domain string, n int64) {
	if d.Many || n == 0 {
		return
	}
	if sum := d.Sums[domain] + n; sum == 0 {
		delete(d.Sums, domain)
	} else if d.Sums[domain] = sum; len(d.Sums) > pb.MaxCopyDomains {
		d.tooMany()
	}
}

func (d *DomainCopies) tooMany() { d.Many, d.Sums = true, nil }

// Move counts by how many copies more a row takes than before.
func (c *Copies) Move(t *Table, row uint32, more int64) {
	c.Total += more
	for i := range c.In {
		if domain, has := t.labels.lookup(row, c.In[i].Key); has {
			c.In[i].add(domain, more)
		}
	}
}

// Tied tells why pods of the class can not be counted as copies: a pod of the class changes what rows without it take. Empty: they can,
// and each row takes as many as if it were alone.
func (c *Class) Tied() string {
	q := c.query
	near, v := q.GetInterPodAffinity(), q.GetVolumeRestrictions()
	switch {
	case c.claims != nil:
		return "claims of devices"
	case len(q.GetSpread().GetHard()) > 0:
		return "topology spread constraints"
	case len(near.GetRequired()) > 0:
		return "pod affinity"
	case len(v.GetClaims()) > 0:
		return "ReadWriteOncePod claims"
	case len(c.decisive) > 0, slices.ContainsFunc(near.GetAlone(), c.pinnedAt):
		return "pod anti-affinity in domains of more than a node"
	case len(v.GetDisks()) > 0:
		return "disks that pods may not share"
	case len(q.GetVolumeBinding().GetClaims()) > 0:
		return "claims without a volume"
	case slices.ContainsFunc(q.GetVolumeLimits().GetDrivers(), attachesMore):
		return "volumes that are not attached anywhere"
	case c.expressionsReadPods():
		return "expressions that read a node's pods"
	}
	return ""
}

func (c *Class) pinnedAt(value uint32) bool {
	return len(c.query.GetRowValues()[value].GetPinned()) > 0
}

// attachesMore tells whether it is not known where all of a pod's volumes of a driver are attached. Pods of a class have the same volumes
// where it is: then the first on a row attaches them for all.
func attachesMore(d *pb.DriverVolumes) bool { return int64(len(d.GetShared())) < d.GetVolumes() }

// expressionsReadPods tells whether an expression that filters reads what a row's pods add up to.
func (c *Class) expressionsReadPods() bool {
	r, ok := c.ruleOf(pb.Plugin_PLUGIN_CEL_FILTER).(*celFilter)
	return ok && slices.ContainsFunc(r.list, func(x celTerm) bool { return readsPods(x.residual.Reads()) })
}

// copyLimits is what bounds how many copies a row takes that takes one.
type copyLimits struct {
	fit *nodeResourcesFit // nil: room does not matter
	// one: all rows take one at the most; alone: those with one of these labels do.
	one   bool
	alone []string
}

func (c *Class) copyLimits() copyLimits {
	var l copyLimits
	l.fit, _ = c.ruleOf(pb.Plugin_PLUGIN_NODE_RESOURCES_FIT).(*nodeResourcesFit)
	if ports, ok := c.ruleOf(pb.Plugin_PLUGIN_NODE_PORTS).(*nodePorts); ok {
		l.one = len(ports.wanted) > 0
	}
	if !slices.Contains(c.query.GetFilters(), pb.Plugin_PLUGIN_INTER_POD_AFFINITY) {
		return l
	}
	for _, i := range c.query.GetInterPodAffinity().GetAlone() {
		l.alone = append(l.alone, c.query.GetRowValues()[i].GetTopologyKey())
	}
	return l
}

// copies is how many pods with such requests a row takes, by them and the number of pods; less than 0 where it has more than it may.
func (v view) copies(requests []resourceRequest) int64 {
	n := v.t.allowedPods[v.row] - v.pods()
	for i := range requests {
		r := &requests[i]
		allocatable, requested := v.amounts(r.resourceRef)
		n = min(n, (allocatable-requested)/r.amount)
	}
	return n
}

// CopiesOn is how many copies of a class, which is not Tied, a row takes: with totals as what its pods add up to, or with the table's own
// where totals is nil.
func (e *Evaluator) CopiesOn(t *Table, row uint32, totals *RowTotals, c *Class) int64 {
	if !t.HasNode(row) || !c.looksAt(t, row) {
		return 0
	}
	v := view{t, row, totals, e}
	e.verdict.reset(0)
	if key := &e.verdict.Key; !e.passes(v, c, false, key) || !c.fillKey(v, false, key) {
		return 0
	}
	l := c.copyLimits()
	n := int64(pb.MaxCopies)
	if l.fit != nil {
		n = min(n, v.copies(l.fit.requests))
	}
	for _, key := range l.alone {
		_, has := t.labels.lookup(row, key)
		l.one = l.one || has
	}
	if l.one {
		n = min(n, 1)
	}
	return n
}

// countCopies adds up how many copies of a class the rows in e.rows take, which are all that take one.
func (e *Evaluator) countCopies(t *Table, c *Class, keys []string) *Copies {
	out := NewCopies(keys)
	e.takes = scratch(e.takes, len(e.rows)*wordRows)
	e.fillTakes(t, c.copyLimits())
	for row := range e.rows.all {
		out.Total += e.takes[row]
	}
	for i := range out.In {
		e.sumByDomain(t.labels.column(out.In[i].Key), &out.In[i])
	}
	return out
}

// fillTakes writes into e.takes how many copies each of e.rows takes; what it writes of other rows has no meaning.
func (e *Evaluator) fillTakes(t *Table, l copyLimits) {
	most := int64(pb.MaxCopies)
	if l.one {
		most = 1
	}
	for i := range e.takes {
		e.takes[i] = most
	}
	if l.fit != nil {
		for i := range e.takes {
			e.takes[i] = min(e.takes[i], t.allowedPods[i]-t.pods[i])
		}
		for i := range l.fit.requests {
			r := &l.fit.requests[i]
			r.limit(t.resource(r.resourceRef), e.rows, e.takes)
		}
	}
	for _, key := range l.alone {
		if column := t.labels.column(key); column != nil {
			for row := range e.rows.all {
				if column.rows.at(row) != 0 {
					e.takes[row] = min(e.takes[row], 1)
				}
			}
		}
	}
}

// limit lowers room to how often the rows have what is requested. Rows of the bitmap have some.
func (n *resourceRequest) limit(x *resource, rows bitmap, room []int64) {
	if x == nil {
		return
	}
	share := 1 / float64(n.amount)
	if x.allocatable.dense == nil || x.requested.dense == nil {
		allocatable, requested := cursor{amounts: &x.allocatable}, cursor{amounts: &x.requested}
		for row := range rows.all {
			room[row] = min(room[row], times(allocatable.at(row)-requested.at(row), n.amount, share))
		}
		return
	}
	for w, word := range rows {
		if word == 0 {
			continue
		}
		from, to := w*wordRows, (w+1)*wordRows
		allocatable, requested, room := x.allocatable.dense[from:to], x.requested.dense[from:to], room[from:to]
		for i := range room {
			room[i] = min(room[i], times(allocatable[i]-requested[i], n.amount, share))
		}
	}
}

// times is how often an amount, of which share is the reciprocal, is in free, or pb.MaxCopies or more. A product takes a fraction of a
// division's time: rounded, it is wrong by one at the most as far as pb.MaxCopies goes, and the rest tells by which.
func times(free, amount int64, share float64) int64 {
	n := int64(min(float64(free)*share, pb.MaxCopies))
	rest := free - n*amount
	if rest < 0 {
		n--
	}
	if rest >= amount {
		n++
	}
	return n
}

// sumByDomain adds up e.takes by the values of a label.
func (e *Evaluator) sumByDomain(column *labelColumn, into *DomainCopies) {
	if column == nil {
		return
	}
	e.domainSums = scratch(e.domainSums, len(column.values))
	clear(e.domainSums)
	if column.rows.dense() {
		for row := range e.rows.all {
			e.domainSums[column.rows.at(row)] += e.takes[row]
		}
	} else {
		for i, row := range column.rows.rows {
			if int(row/wordRows) < len(e.rows) && e.rows.has(row) {
				e.domainSums[column.rows.vals[i]] += e.takes[row]
			}
		}
	}
	for id, n := range e.domainSums[1:] {
		into.add(column.values[id+1], n)
	}
}

// proto is the copies as a message.
func (c *Copies) proto() *pb.Copies {
	if c == nil {
		return nil
	}
	out := &pb.Copies{Total: c.Total}
	for i := range c.In {
		x := &pb.DomainCopies{Key: c.In[i].Key, Many: c.In[i].Many, Domains: slices.Sorted(maps.Keys(c.In[i].Sums))}
		for _, domain := range x.Domains {
			x.Sums = append(x.Sums, c.In[i].Sums[domain])
		}
		out.Keys = append(out.Keys, x)
	}
	return out
}

// copiesOf reads a message.
func copiesOf(p *pb.Copies) *Copies {
	if p == nil {
		return nil
	}
	out := &Copies{Total: p.GetTotal()}
	for _, x := range p.GetKeys() {
		d := DomainCopies{Key: x.GetKey(), Many: x.GetMany()}
		if !d.Many {
			d.Sums = make(map[string]int64, len(x.GetDomains()))
		}
		for i, domain := range x.GetDomains()[:min(len(x.GetDomains()), len(x.GetSums()))] {
			d.Sums[domain] = x.GetSums()[i]
		}
		out.In = append(out.In, d)
	}
	return out
}
