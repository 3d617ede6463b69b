package answers

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
)

// rowIndex finds the place of a row in a list. It is a hash table with linear probing, because it is used for
// every class and change.
type rowIndex struct {
	// keys are rows as one number, plus one; 0: the slot is free. Their length is a power of two,
	// or 0.
	keys []uint64
	at   []int32
	rows int
}

func rowKey(row cache.Row) uint64 { return uint64(row.Shard)<<32 | uint64(row.Index) + 1 }

// slot is the slot that a row has, or would get.
func (x *rowIndex) slot(key uint64) int {
	mask := uint64(len(x.keys) - 1)
	at := key * 0x9E3779B97F4A7C15 >> 32 & mask
	for x.keys[at] != 0 && x.keys[at] != key {
		at = (at + 1) & mask
	}
	return int(at)
}

func (x *rowIndex) find(row cache.Row) (at int, ok bool) {
	if x.rows == 0 {
		return 0, false
	}
	key := rowKey(row)
	i := x.slot(key)
	return int(x.at[i]), x.keys[i] == key
}

// put adds a row that is not in the index.
func (x *rowIndex) put(row cache.Row, at int) {
	if 2*(x.rows+1) > len(x.keys) {
		x.grow()
	}
	key := rowKey(row)
	i := x.slot(key)
	x.keys[i], x.at[i] = key, int32(at)
	x.rows++
}

// undo removes the row that was put last.
func (x *rowIndex) undo(row cache.Row) {
	x.keys[x.slot(rowKey(row))] = 0
	x.rows--
}

func (x *rowIndex) grow() {
	keys, at := x.keys, x.at
	x.keys, x.at = make([]uint64, max(64, 4*len(keys))), make([]int32, max(64, 4*len(keys)))
	for k, key := range keys {
		if key != 0 {
			i := x.slot(key)
			x.keys[i], x.at[i] = key, at[k]
		}
	}
}

// reset empties the index and keeps its memory.
func (x *rowIndex) reset() {
	if x.rows > 0 {
		clear(x.keys)
		x.rows = 0
	}
}

// double makes room in a list for another item. A full list gets twice as long, because append makes a long list only a quarter longer.
func double[T any](list []T) []T {
	if len(list) < cap(list) {
		return list
	}
	return slices.Grow(list, max(len(list), 1))
}
