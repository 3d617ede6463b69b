package scorer

import (
	"math"
	"slices"
)

// ids is a column of small numbers: 0, or an index into a dictionary. It takes one,
// two or four bytes a row, as the largest number needs, or a list sorted by row
// while few rows have one.
type ids struct {
	d8  []uint8
	d16 []uint16
	d32 []uint32
	// rows and vals are the list; exactly one of the four forms is in use.
	rows, vals []uint32
	// used is the number of rows with an id.
	used int
}

func (c *ids) dense() bool { return c.d8 != nil || c.d16 != nil || c.d32 != nil }

// at is the row's id.
func (c *ids) at(row uint32) uint32 {
	switch {
	case c.d8 != nil:
		return uint32(c.d8[row])
	case c.d16 != nil:
		return uint32(c.d16[row])
	case c.d32 != nil:
		return c.d32[row]
	}
	if i, ok := slices.BinarySearch(c.rows, row); ok {
		return c.vals[i]
	}
	return 0
}

// set stores the row's id in a table of so many rows and returns the one before.
func (c *ids) set(row, id uint32, capacity int) uint32 {
	before := c.at(row)
	if before == id {
		return before
	}
	c.used += asInt(id != 0) - asInt(before != 0)
	if !c.dense() {
		c.setSparse(row, id)
		if id != 0 && len(c.rows)*sparseFactor > capacity {
			c.makeDense(capacity)
		}
		return before
	}
	c.widen(id)
	switch {
	case c.d8 != nil:
		c.d8[row] = uint8(id)
	case c.d16 != nil:
		c.d16[row] = uint16(id)
	default:
		c.d32[row] = id
	}
	return before
}

func (c *ids) setSparse(row, id uint32) {
	i, found := slices.BinarySearch(c.rows, row)
	switch {
	case id == 0:
		c.rows = slices.Delete(c.rows, i, i+1)
		c.vals = slices.Delete(c.vals, i, i+1)
	case found:
		c.vals[i] = id
	default:
		c.rows = slices.Insert(c.rows, i, row)
		c.vals = slices.Insert(c.vals, i, id)
	}
}

// makeDense turns the list into slots.
func (c *ids) makeDense(capacity int) {
	c.d8 = make([]uint8, capacity)
	rows, vals := c.rows, c.vals
	c.rows, c.vals = nil, nil
	for i, row := range rows {
		c.widen(vals[i])
		switch {
		case c.d8 != nil:
			c.d8[row] = uint8(vals[i])
		case c.d16 != nil:
			c.d16[row] = uint16(vals[i])
		default:
			c.d32[row] = vals[i]
		}
	}
}

// widen makes the slots large enough for id.
func (c *ids) widen(id uint32) {
	if c.d8 != nil && id > math.MaxUint8 {
		c.d16, c.d8 = converted[uint16](c.d8), nil
	}
	if c.d16 != nil && id > math.MaxUint16 {
		c.d32, c.d16 = converted[uint32](c.d16), nil
	}
}

func converted[To, From uint8 | uint16 | uint32](from []From) []To {
	to := make([]To, len(from))
	for i, v := range from {
		to[i] = To(v)
	}
	return to
}

// grow follows the table's capacity.
func (c *ids) grow(capacity int) {
	switch {
	case c.d8 != nil:
		c.d8 = lengthened(c.d8, capacity)
	case c.d16 != nil:
		c.d16 = lengthened(c.d16, capacity)
	case c.d32 != nil:
		c.d32 = lengthened(c.d32, capacity)
	}
}

func (c *ids) memory() int64 {
	return int64(cap(c.d8) + 2*cap(c.d16) + 4*cap(c.d32) + 4*cap(c.rows) + 4*cap(c.vals))
}

// narrow keeps the rows of b whose id has a 1 in keep.
func (c *ids) narrow(keep []uint8, b bitmap) {
	switch {
	case c.d8 != nil:
		narrowDense(c.d8, keep, b)
	case c.d16 != nil:
		narrowDense(c.d16, keep, b)
	case c.d32 != nil:
		narrowDense(c.d32, keep, b)
	default:
		c.narrowSparse(keep, b)
	}
}

func narrowDense[T uint8 | uint16 | uint32](column []T, keep []uint8, b bitmap) {
	for w, word := range b {
		if word == 0 {
			continue
		}
		var kept uint64
		for i, id := range column[w*wordRows : (w+1)*wordRows] {
			kept |= uint64(keep[id]) << (i % wordRows)
		}
		b[w] = word & kept
	}
}

func (c *ids) narrowSparse(keep []uint8, b bitmap) {
	if keep[0] != 0 {
		for i, row := range c.rows {
			if keep[c.vals[i]] == 0 && int(row/wordRows) < len(b) {
				b.remove(row)
			}
		}
		return
	}
	i := 0
	for w := range b {
		var kept uint64
		for ; i < len(c.rows) && int(c.rows[i]/wordRows) == w; i++ {
			kept |= uint64(keep[c.vals[i]]) << (c.rows[i] % wordRows)
		}
		b[w] &= kept
	}
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
