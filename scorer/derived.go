package scorer

import "math"

// derived are columns that follow from a row's others. They are kept so that no pass over all
// rows computes them again: what changes a row renews it.
type derived struct {
	// ties is the tie rule as far as one number tells (tieOf): the row with the smaller one is
	// chosen first, rows with equal ones are told apart by their columns.
	ties []uint64
	// full are the rows without room for one more pod.
	full bitmap
	// odd are the rows of which cpu or memory is none, or more than maxExact, or that have more in use
	// than maxUsual.
	odd bitmap
	// evenness is how even the shares of cpu and memory in use are: 50 to 100.
	evenness []uint8
	// free is what is left of cpu and memory.
	free [2]leastFree
}

// maxExact bounds the amounts of which a hundred times as much is exact in a float64.
const maxExact = 1 << 53 / maxNodeScore

// maxUsual bounds amounts of which two add up to no more than an int64 holds.
const maxUsual = 1 << 61

// leastFree is, for each word of rows, the least amount of a resource that a node among them has
// left: where that is enough for a pod, no row of the word lacks the resource.
type leastFree struct {
	amount []int64
	row    []uint8 // which of the word's rows that is
}

// tieOf orders rows as the tie rule does, but for some that it leaves equal: those with hashes
// that differ in the last bit only, and those of the same decision.
func tieOf(decision, hash uint64) uint64 {
	const decided = 1 << 63
	if decision == 0 {
		return hash >> 1
	}
	return decided | min(decision, decided-1)
}

func (d *derived) grow(capacity int) {
	n := words(capacity)
	d.ties = lengthened(d.ties, capacity)
	d.full, d.odd = lengthened(d.full, n), lengthened(d.odd, n)
	d.evenness = lengthened(d.evenness, capacity)
	for i := range d.free {
		f := &d.free[i]
		for have := len(f.amount); have < n; have++ {
			f.amount, f.row = append(f.amount, math.MaxInt64), append(f.row, 0)
		}
	}
}

// renew follows a change of a row.
func (t *Table) renew(row uint32) {
	d := &t.derived
	a, b := t.fixed[cpu], t.fixed[memory]
	allA, allB := a.allocatable.dense[row], b.allocatable.dense[row]
	d.ties[row] = tieOf(t.lastDecision[row], t.hashes[row])
	d.full.put(row, full(t.pods[row], t.allowedPods[row]))
	used := max(a.requested.dense[row], b.requested.dense[row], t.nonZero[cpu].dense[row], t.nonZero[memory].dense[row])
	d.odd.put(row, !exact(allA) || !exact(allB) || used > maxUsual)
	d.evenness[row] = uint8(evenness(deviationOf(a.requested.dense[row], allA, b.requested.dense[row], allB)))
	t.renewFree(row, a)
	t.renewFree(row, b)
}

// exact tells whether an amount is more than none and at most maxExact.
func exact(amount int64) bool { return uint64(amount-1) < maxExact }

// renewFree follows a change of cpu or memory.
func (t *Table) renewFree(row uint32, r *resource) {
	f, w := &t.derived.free[r.index], row/wordRows
	if t.live.has(row) && r.left(row) <= f.amount[w] {
		f.amount[w], f.row[w] = r.left(row), uint8(row%wordRows)
		return
	}
	if uint32(f.row[w]) != row%wordRows {
		return
	}
	f.amount[w] = math.MaxInt64
	for row := range t.live[w : w+1].all {
		if left := r.left(w*wordRows + row); left <= f.amount[w] {
			f.amount[w], f.row[w] = left, uint8(row)
		}
	}
}

// left is what a row's pods leave of one of the fixed resources.
func (r *resource) left(row uint32) int64 { return r.allocatable.dense[row] - r.requested.dense[row] }

func (d *derived) memory() int64 {
	n := int64(8*cap(d.ties) + cap(d.evenness) + 8*(cap(d.full)+cap(d.odd)))
	for i := range d.free {
		n += int64(8*cap(d.free[i].amount) + cap(d.free[i].row))
	}
	return n
}
