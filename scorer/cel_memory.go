package scorer

import (
	"encoding/binary"

	"github.com/shardsched/shardsched/scorer/expression"
)

// celInputs is what expressions read of a row, and how rows that have the same there are found.
//
//	nothing                  judged once for all rows
//	labels, taints, …        few distinct ones: once for each combination in a table, found by
//	                         the numbers that the table's dictionaries give them
//	amounts, names, …        once for each combination of values, which an Evaluator keeps from
//	                         pass to pass: a row that did not change is not judged again
//	all labels, images, …    each row
type celInputs struct {
	labels, annotations, resources []string
	taints, unschedulable          bool
	name, pods                     bool
	// whole: maps or lists are read as such.
	whole bool
}

func newCelInputs(reads []expression.Read) celInputs {
	var x celInputs
	for _, r := range reads {
		switch r.Field {
		case "labels", "annotations", "allocatable", "requested", "free":
			if !r.Keyed {
				x.whole = true
				continue
			}
			into := map[string]*[]string{"labels": &x.labels, "annotations": &x.annotations}[r.Field]
			if into == nil {
				into = &x.resources
			}
			*into = append(*into, r.Key)
		case "taints":
			x.taints = true
		case "unschedulable":
			x.unschedulable = true
		case "name":
			x.name = true
		case "pods":
			x.pods = true
		default:
			x.whole = true
		}
	}
	return x
}

// numbered tells whether the table's dictionaries know all that is read.
func (x *celInputs) numbered() bool {
	return !x.whole && !x.name && !x.pods && len(x.resources) == 0
}

// What is kept.
const (
	// celCells bounds the combinations that are found by numbers.
	celCells = 1 << 12
	// celKept bounds the judgements that an evaluator keeps.
	celKept = 1 << 17
)

// celMemory is what an evaluator keeps of judgements.
type celMemory struct {
	row   celRow
	key   []byte
	cells []celCell
	dicts []celDict
	// byValue are by plugin, and then by the values that it read.
	byValue map[*celTerms]map[string]int64
	kept    int
}

type celCell struct {
	known   bool
	verdict int64
}

// celDict is a column whose values are numbered: rows have numbers below size.
type celDict struct {
	ids  *ids
	list []uint32
	bits bitmap
	size int
}

func (d *celDict) at(row uint32) int {
	switch {
	case d.ids != nil:
		return int(d.ids.at(row))
	case d.list != nil:
		return int(d.list[row])
	}
	return asInt(d.bits.has(row))
}

// judgeRows tells each of the rows what the expressions come to on it.
func (e *Evaluator) judgeRows(t *Table, x *celTerms, rows bitmap, tell func(row uint32, verdict int64)) {
	m := &e.cel
	m.row.view = view{t: t}
	cells := m.number(t, x)
	for row := range rows.all {
		m.row.row = row
		switch {
		case cells > 0:
			cell := 0
			for i := range m.dicts {
				cell = cell*m.dicts[i].size + m.dicts[i].at(row)
			}
			c := &m.cells[cell]
			if !c.known {
				c.known, c.verdict = true, x.judge(&m.row)
			}
			tell(row, c.verdict)
		case x.whole:
			tell(row, x.judge(&m.row))
		default:
			tell(row, m.recall(x))
		}
	}
	m.row.view = view{}
}

// number lines up the dictionaries of what is read, and returns how many combinations there can
// be; 0: too many, or not all is in dictionaries.
func (m *celMemory) number(t *Table, x *celTerms) int {
	if !x.numbered() {
		return 0
	}
	m.dicts = m.dicts[:0]
	for _, part := range []struct {
		index *labelIndex
		keys  []string
	}{{&t.labels, x.labels}, {&t.annotations, x.annotations}} {
		for _, key := range part.keys {
			if c := part.index.column(key); c != nil {
				m.dicts = append(m.dicts, celDict{ids: &c.rows, size: len(c.values)})
			}
		}
	}
	if x.taints {
		m.dicts = append(m.dicts, celDict{list: t.taints.ofRow, size: len(t.taints.lists.contents)})
	}
	if x.unschedulable {
		m.dicts = append(m.dicts, celDict{bits: t.unschedulable, size: 2})
	}
	cells := 1
	for i := range m.dicts {
		if cells *= m.dicts[i].size; cells > celCells {
			return 0
		}
	}
	m.cells = scratch(m.cells, cells)
	clear(m.cells)
	return cells
}

// recall finds the judgement of m.row by what is read of it, or makes it.
func (m *celMemory) recall(x *celTerms) int64 {
	m.key = x.appendTo(m.key[:0], &m.row)
	kept := m.byValue[x]
	if v, ok := kept[string(m.key)]; ok {
		return v
	}
	v := x.judge(&m.row)
	if m.kept >= celKept || m.byValue == nil {
		m.byValue, m.kept, kept = map[*celTerms]map[string]int64{}, 0, nil
	}
	if kept == nil {
		kept = map[string]int64{}
		m.byValue[x] = kept
	}
	kept[string(m.key)] = v
	m.kept++
	return v
}

// appendTo writes what is read of a row so that only equal inputs look the same.
func (x *celInputs) appendTo(b []byte, r *celRow) []byte {
	text := func(s string, has bool) {
		b = append(b, byte(asInt(has)))
		b = appendText(b, s)
	}
	for _, key := range x.labels {
		text(r.Label(key))
	}
	for _, key := range x.annotations {
		text(r.Annotation(key))
	}
	for _, name := range x.resources {
		allocatable, requested, has := r.amounts(name)
		b = append(b, byte(asInt(has)))
		b = binary.AppendVarint(binary.AppendVarint(b, allocatable), requested)
	}
	if x.taints {
		list := r.t.taints.of(r.row)
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, t := range list {
			b = append(b, byte(t.effect))
			b = appendText(appendText(b, t.key), t.value)
		}
	}
	if x.unschedulable {
		b = append(b, byte(asInt(r.Unschedulable())))
	}
	if x.name {
		b = appendText(b, r.Name())
	}
	if x.pods {
		b = binary.AppendVarint(b, r.Pods())
	}
	return b
}
