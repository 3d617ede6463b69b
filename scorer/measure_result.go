package scorer

import (
	"cmp"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// MeasureResult is one of Query.measures over the rows of a result, or of a whole
// cluster. Results over disjoint rows add up cell by cell.
type MeasureResult struct {
	// By is unspecified where only messages without a row came in.
	By pb.Breakdown
	// Cells are the included rows: one cell for each domain, or for each value, or for all
	// of them; sorted by domain and value. A cell without rows counts as none.
	Cells []MeasureCell
	// Missing are the included rows that lack the label, with BREAKDOWN_DOMAIN.
	Missing MeasureCell
}

// MeasureCell is the included rows of one domain or value.
type MeasureCell struct {
	Domain string
	Value  int64
	Rows   int
	// Sum is what the rows add up to; with BREAKDOWN_VALUE it stays 0.
	Sum int64
}

func (c MeasureCell) compare(o MeasureCell) int {
	if c.Value != o.Value {
		return cmp.Compare(c.Value, o.Value)
	}
	return strings.Compare(c.Domain, o.Domain)
}

// add counts rows of c's domain or value.
func (c *MeasureCell) add(rows int, sum int64) {
	c.Rows += rows
	c.Sum += sum
}

// reset empties the measure and keeps its memory.
func (m *MeasureResult) reset(by pb.Breakdown) { *m = MeasureResult{By: by, Cells: m.Cells[:0]} }

// cell finds or opens the cell of a domain or value.
func (m *MeasureResult) cell(domain string, value int64) *MeasureCell {
	like := MeasureCell{Domain: domain, Value: value}
	i, found := slices.BinarySearchFunc(m.Cells, like, MeasureCell.compare)
	if !found {
		m.Cells = slices.Insert(m.Cells, i, like)
	}
	return &m.Cells[i]
}

// merge adds a measure over other rows.
func (m *MeasureResult) merge(o *MeasureResult) {
	m.By = max(m.By, o.By)
	m.Missing.add(o.Missing.Rows, o.Missing.Sum)
	i, missing := 0, 0
	for k := range o.Cells {
		c := &o.Cells[k]
		for i < len(m.Cells) && m.Cells[i].compare(*c) < 0 {
			i++
		}
		switch {
		case c.Rows == 0:
		case i < len(m.Cells) && m.Cells[i].compare(*c) == 0:
			m.Cells[i].add(c.Rows, c.Sum)
		default:
			missing++
		}
	}
	if missing > 0 {
		m.insert(o.Cells, missing)
	}
}

// insert takes over the n cells of list that m lacks, from the back, so that each
// cell moves once.
func (m *MeasureResult) insert(list []MeasureCell, n int) {
	i, k := len(m.Cells)-1, len(list)-1
	m.Cells = slices.Grow(m.Cells, n)[:len(m.Cells)+n]
	for at := len(m.Cells) - 1; at > i; {
		c := &list[k]
		switch {
		case c.Rows == 0:
			k--
			continue
		case i < 0 || m.Cells[i].compare(*c) < 0:
			m.Cells[at] = *c
			k--
		case m.Cells[i].compare(*c) == 0:
			k-- // added already
			continue
		default:
			m.Cells[at] = m.Cells[i]
			i--
		}
		at--
	}
}

// move adds a row's share, or takes it with sign -1.
func (m *MeasureResult) move(by pb.Breakdown, x *Measured, sign int) {
	m.By = by
	if !x.Included {
		return
	}
	switch {
	case by == pb.Breakdown_BREAKDOWN_VALUE:
		m.cell("", x.Value).add(sign, 0)
	case x.Missing:
		m.Missing.add(sign, int64(sign)*x.Value)
	default:
		m.cell(x.Domain, 0).add(sign, int64(sign)*x.Value)
	}
}

func (m *MeasureResult) proto() *pb.MeasureResult {
	out := &pb.MeasureResult{MissingRows: uint32(m.Missing.Rows), MissingSum: m.Missing.Sum}
	for i := range m.Cells {
		c := &m.Cells[i]
		if c.Rows == 0 && m.By != pb.Breakdown_BREAKDOWN_TOTAL {
			continue
		}
		out.Rows = append(out.Rows, uint32(c.Rows))
		switch m.By {
		case pb.Breakdown_BREAKDOWN_VALUE:
			out.Values = append(out.Values, c.Value)
		case pb.Breakdown_BREAKDOWN_DOMAIN:
			out.Domains = append(out.Domains, c.Domain)
			fallthrough
		default:
			out.Sums = append(out.Sums, c.Sum)
		}
	}
	if m.By == pb.Breakdown_BREAKDOWN_TOTAL && len(m.Cells) == 0 {
		out.Rows, out.Sums = []uint32{0}, []int64{0}
	}
	return out
}

// setProto reads a message. What it is broken down by is told by its lists, of which
// those that do not fit together are cut.
func (m *MeasureResult) setProto(p *pb.MeasureResult) {
	m.reset(pb.Breakdown_BREAKDOWN_UNSPECIFIED)
	m.Missing.add(int(p.GetMissingRows()), p.GetMissingSum())
	n := len(p.GetRows())
	switch {
	case len(p.GetValues()) > 0:
		m.By = pb.Breakdown_BREAKDOWN_VALUE
		n = min(n, len(p.GetValues()))
	case len(p.GetDomains()) > 0:
		m.By = pb.Breakdown_BREAKDOWN_DOMAIN
		n = min(n, len(p.GetDomains()), len(p.GetSums()))
	case n > 0:
		m.By = pb.Breakdown_BREAKDOWN_TOTAL
		n = min(1, len(p.GetSums()))
	}
	for i := range n {
		c := MeasureCell{Rows: int(p.Rows[i])}
		switch m.By {
		case pb.Breakdown_BREAKDOWN_VALUE:
			c.Value = p.Values[i]
		case pb.Breakdown_BREAKDOWN_DOMAIN:
			c.Domain = p.Domains[i]
			fallthrough
		default:
			c.Sum = p.Sums[i]
		}
		if c.Rows > 0 {
			m.Cells = append(m.Cells, c)
		}
	}
	m.sort()
}

// sort puts cells in order that came otherwise, and adds equal ones.
func (m *MeasureResult) sort() {
	strictly := true
	for i := 1; i < len(m.Cells) && strictly; i++ {
		strictly = m.Cells[i-1].compare(m.Cells[i]) < 0
	}
	if strictly {
		return
	}
	list := slices.Clone(m.Cells)
	m.Cells = m.Cells[:0]
	slices.SortStableFunc(list, MeasureCell.compare)
	for i := range list {
		if n := len(m.Cells); n > 0 && m.Cells[n-1].compare(list[i]) == 0 {
			m.Cells[n-1].add(list[i].Rows, list[i].Sum)
		} else {
			m.Cells = append(m.Cells, list[i])
		}
	}
}
