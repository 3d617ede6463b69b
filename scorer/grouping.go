package scorer

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// keyCodes are the keys of a table's rows as numbers that stand in the order of the
// keys. They are built up digit by digit, a column of the key each; a digit's base is as
// small as the rows allow.
type keyCodes struct {
	rows  []uint32
	codes []uint64
	// size is above every code.
	size   uint64
	digits []uint64 // scratch
	sorted []uint64 // scratch
	direct []int32  // code → group + 1
	hashed []int32  // slot → group + 1
}

// begin takes the rows in a set.
func (k *keyCodes) begin(rows bitmap) {
	k.rows = k.rows[:0]
	for w, word := range rows {
		for ; word != 0; word &= word - 1 {
			k.rows = append(k.rows, uint32(w*wordRows+bits.TrailingZeros64(word)))
		}
	}
	k.codes = scratch(k.codes, len(k.rows))
	clear(k.codes)
	k.size = 1
}

// addRanks appends a column of numbers below size.
func (k *keyCodes) addRanks(column []uint32, size int) {
	if size <= 1 {
		return
	}
	if hi, _ := bits.Mul64(k.size, uint64(size)); hi == 0 {
		k.size *= uint64(size)
		for i, row := range k.rows {
			k.codes[i] = k.codes[i]*uint64(size) + uint64(column[row])
		}
		return
	}
	k.digits = scratch(k.digits, len(k.rows))
	for i, row := range k.rows {
		k.digits[i] = uint64(column[row])
	}
	k.addDigits(uint64(size))
}

// addNumbers appends a column of numbers, of which NoLabel is the smallest, and returns
// the largest.
func (k *keyCodes) addNumbers(column []int64) (most int64) {
	least, most, lacking := int64(math.MaxInt64), int64(math.MinInt64), uint64(0)
	for _, row := range k.rows {
		n := column[row]
		if n == NoLabel {
			lacking = 1
			continue
		}
		least, most = min(least, n), max(most, n)
	}
	if least > most || least == most && lacking == 0 {
		return most // all the same
	}
	base := uint64(least) - lacking
	size := uint64(most) - base + 1
	if hi, _ := bits.Mul64(k.size, size); hi == 0 && size != 0 && lacking == 0 {
		k.size *= size
		for i, row := range k.rows {
			k.codes[i] = k.codes[i]*size + uint64(column[row]) - base
		}
		return most
	}
	k.digits = scratch(k.digits, len(k.rows))
	for i, row := range k.rows {
		if n := column[row]; n != NoLabel {
			k.digits[i] = uint64(n) - base
		} else {
			k.digits[i] = 0
		}
	}
	k.addDigits(size)
	return most
}

// addDigits appends k.digits, which are below size; 0 stands for 2⁶⁴.
func (k *keyCodes) addDigits(size uint64) {
	if hi, _ := bits.Mul64(k.size, size); hi != 0 || size == 0 {
		size = k.compress(k.digits)
		if hi, _ := bits.Mul64(k.size, size); hi != 0 {
			k.size = k.compress(k.codes)
		}
	}
	k.size *= size
	for i, d := range k.digits {
		k.codes[i] = k.codes[i]*size + d
	}
}

// compress replaces numbers by their ranks and returns how many there are: as many as rows
// at the most, so that two such numbers fit into one.
func (k *keyCodes) compress(list []uint64) uint64 {
	k.sorted = append(k.sorted[:0], list...)
	slices.Sort(k.sorted)
	k.sorted = slices.Compact(k.sorted)
	for i, v := range list {
		rank, _ := slices.BinarySearch(k.sorted, v)
		list[i] = uint64(rank)
	}
	return uint64(len(k.sorted))
}

// groupByKey puts the rows in e.rows, with their keys and local scores, into e.part, which
// gets all of its measures.
func (e *Evaluator) groupByKey(t *Table, c *Class, o Options) {
	for i := range c.group.measures {
		e.measure(t, c, i)
	}
	if e.part.Feasible == 0 {
		return
	}
	k := &e.codes
	k.begin(e.rows)
	for i := range c.keyLen {
		if column := e.keys.whole(i, e.rows); column != nil {
			e.part.Extrema[i] = max(0, k.addNumbers(column))
		}
	}
	for i := range c.group.domains {
		l := e.label(t, c, i)
		k.addRanks(l.of, len(l.values)+1)
	}
	for i := range c.group.values {
		k.addNumbers(e.value(t, c, i))
	}
	if e.columns.marking {
		k.addRanks(e.columns.markOf, len(e.columns.marks)+1)
	}
	e.deal(t, c, o.Candidates)
	e.moveGroups(t, c)
}

// deal gives each row to the group of its code.
func (e *Evaluator) deal(t *Table, c *Class, limit int) {
	k, g := &e.codes, &e.groups
	g.reset(t, limit)
	direct := k.size <= uint64(max(4096, 2*len(k.rows)))
	if direct {
		k.direct = scratch(k.direct, int(k.size))
		clear(k.direct)
	} else {
		k.hashed = scratch(k.hashed, nextPower(2*len(k.rows)))
		clear(k.hashed)
	}
	e.whole = e.local.all(e.rows, e.whole)
	scores := e.whole
	last, into := uint64(math.MaxUint64), (*groupRows)(nil)
	for i, code := range k.codes {
		row := k.rows[i]
		if code != last || into == nil {
			into = e.groupOf(c, code, row, direct)
			last = code
		}
		into.rows++
		if tie := t.derived.ties[row]; into.bar.passes(scores[row], tie) {
			g.offer(into, scoredRow{scores[row], tie, row})
		}
	}
}

// groupOf finds or opens the group of a code; row is the first one of a new group.
func (e *Evaluator) groupOf(c *Class, code uint64, row uint32, direct bool) *groupRows {
	k, g := &e.codes, &e.groups
	var slot *int32
	if direct {
		slot = &k.direct[code]
	} else {
		mask := uint64(len(k.hashed) - 1)
		at := code * 0x9E3779B97F4A7C15 >> 32 & mask
		for k.hashed[at] != 0 && g.groups[k.hashed[at]-1].code != code {
			at = (at + 1) & mask
		}
		slot = &k.hashed[at]
	}
	if *slot != 0 {
		return &g.groups[*slot-1]
	}
	into := g.open()
	into.code, into.row = code, row
	if e.closed(c, row) {
		into.bar.score = math.MaxInt64
	}
	*slot = int32(len(g.groups))
	return into
}

// closed tells whether the rows with a row's key can not be feasible, whatever the rest
// of the cluster is like.
func (e *Evaluator) closed(c *Class, row uint32) bool {
	x := &e.columns
	if x.marking && x.markOf[row] != 0 {
		return !c.fails(x.marks[x.markOf[row]-1])
	}
	for i := range c.group.values {
		if c.group.values[i].forbids && x.values[i].shown[row] > 0 {
			return true
		}
	}
	return false
}

// moveGroups moves the groups into e.part, in order.
func (e *Evaluator) moveGroups(t *Table, c *Class) {
	g := &e.groups
	slices.SortFunc(g.groups, func(a, b groupRows) int { return cmp.Compare(a.code, b.code) })
	for i := range g.groups {
		x := &g.groups[i]
		into := e.part.openGroup()
		into.Rows = x.rows
		e.key(c, x.row, &into.Key)
		g.settle(x)
		into.Candidates = x.best(t, into.Candidates)
	}
	g.table = nil
}

// key is the key of a row, from the columns.
func (e *Evaluator) key(c *Class, row uint32, into *Key) {
	x := &e.columns
	into.Raw = e.keys.of(row)
	for i := range c.group.domains {
		l := &x.labels[i].shown
		if rank := l.of[row]; rank > 0 {
			into.Domains = append(into.Domains, l.values[rank-1])
		} else {
			into.Domains = append(into.Domains, "")
			into.Missing.add(i)
		}
	}
	for i := range c.group.values {
		into.Values = append(into.Values, x.values[i].shown[row])
	}
	if x.marking && x.markOf[row] != 0 {
		m := x.marks[x.markOf[row]-1]
		into.LateFilter, into.LateReasons = m.filter, m.reasons
	}
}
