package scorer

import "math"

// derived are columns that follow from a row's other columns. Each change of a row renews them, so that
// a pass over all rows need not compute them.
type derived struct {
	// ties is the tie rule as a number (tieOf): of two rows the one with the smaller number comes first;
	// rows with equal numbers are compared by their columns.
	ties []uint64
	// full holds the rows that have as many pods as they may have.
	full bitmap
	// irregular holds the rows whose amounts the loops of cpuMemory can not compute with: allocatable cpu or
	// memory is 0 or more than maxExact, or more than maxRegular of one of them is in use.
	irregular bitmap
	// balance tells how equal the shares of cpu and memory in use are (balanceOf).
	balance []uint8
	shares  shares
	// free is the unused cpu and memory, by word.
	free [2]leastFree
}

// maxExact is the largest amount whose hundredfold a float64 holds exactly.
const maxExact = 1 << 53 / maxNodeScore

// maxRegular bounds what is in use, and what a pod requests: an int64 holds the sum of two such amounts.
const maxRegular = 1 << 61

// leastFree is, for each word of rows, the least unused amount of a resource among its nodes: where that
// is enough for a pod, every node of the word has enough.
type leastFree struct {
	amount []int64
	row    []uint8 // the row with this amount, within its word
}

// tieOf orders rows as the tie rule does. It gives the same number to rows whose hashes differ in the last
// bit only, and to rows of the same decision.
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
	d.full, d.irregular = lengthened(d.full, n), lengthened(d.irregular, n)
	d.balance = lengthened(d.balance, capacity)
	d.shares.grow(capacity)
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
	d.irregular.put(row, !exact(allA) || !exact(allB) || used > maxRegular)
	d.balance[row] = uint8(balanceOf(deviationOf(a.requested.dense[row], allA, b.requested.dense[row], allB)))
	d.shares.renew(t, row)
	t.renewFree(row, a)
	t.renewFree(row, b)
}

// exact tells whether an amount is from 1 to maxExact.
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

// left is the unused amount of one of the fixed resources of a row.
func (r *resource) left(row uint32) int64 { return r.allocatable.dense[row] - r.requested.dense[row] }

func (d *derived) memory() int64 {
	n := int64(8*cap(d.ties) + cap(d.balance) + 8*(cap(d.full)+cap(d.irregular)))
	for i := range d.free {
		n += int64(8*cap(d.free[i].amount) + cap(d.free[i].row))
	}
	return n + d.shares.memory()
}
