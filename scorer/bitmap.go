package scorer

import "math/bits"

// wordRows is how many rows a word of a bitmap covers. Every column is as long
// as a whole number of words.
const wordRows = 64

// bitmap is a set of rows.
type bitmap []uint64

func (b bitmap) has(row uint32) bool {
	w := row / wordRows
	return int(w) < len(b) && b[w]>>(row%wordRows)&1 != 0
}

func (b bitmap) add(row uint32)    { b[row/wordRows] |= 1 << (row % wordRows) }
func (b bitmap) remove(row uint32) { b[row/wordRows] &^= 1 << (row % wordRows) }

// put adds or removes row.
func (b bitmap) put(row uint32, in bool) {
	if in {
		b.add(row)
	} else {
		b.remove(row)
	}
}

// count is the number of rows in the set.
func (b bitmap) count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// only leaves row in the set if it is there, and no other.
func (b bitmap) only(row uint32) {
	in := b.has(row)
	clear(b)
	if in {
		b.add(row)
	}
}

// without removes the rows of o, which may be the shorter one.
func (b bitmap) without(o bitmap) {
	for i, w := range o[:min(len(o), len(b))] {
		b[i] &^= w
	}
}

// intersect leaves the rows that o, which may be longer, has too.
func (b bitmap) intersect(o bitmap) {
	for i := range b {
		b[i] &= o[i]
	}
}

// union adds the rows of o, which may be shorter.
func (b bitmap) union(o bitmap) {
	for i, w := range o {
		b[i] |= w
	}
}

// highest is the largest row in the set plus one, 0 for the empty set.
func (b bitmap) highest() int {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0 {
			return i*wordRows + bits.Len64(b[i])
		}
	}
	return 0
}

// words is how many words hold that many rows.
func words(rows int) int { return (rows + wordRows - 1) / wordRows }

// copyOf makes into a copy of b, using into's memory where it suffices.
func (b bitmap) copyOf(into bitmap) bitmap { return append(into[:0], b...) }

// lengthened returns s with n elements, the new ones zero, growing to exactly n.
func lengthened[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	out := make([]T, n)
	copy(out, s)
	return out
}

// scratch returns s with n elements of any content, reusing its memory.
func scratch[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// all yields the rows of the set in order.
func (b bitmap) all(yield func(uint32) bool) {
	for w, word := range b {
		for ; word != 0; word &= word - 1 {
			if !yield(uint32(w*wordRows + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}
