package scorer

import "math/bits"

// rawKeys are the raw scores of the normalised plugins for the rows of a table. Most rows have 0 of all.
type rawKeys struct {
	// keyed are the rows that may have another score of any plugin. Columns are of these rows alone; an empty one
	// has 0 of all.
	keyed   bitmap
	columns [MaxKey][]int64
	n       int // of the columns
}

// begin forgets the columns, for another table with so many words of rows.
func (k *rawKeys) begin(words int) {
	k.n, k.keyed = 0, scratch(k.keyed, words)
	clear(k.keyed)
}

// add asks a rule for the scores of some rows: the next column.
func (k *rawKeys) add(e *Evaluator, t *Table, r scoreRule, rows bitmap) {
	column := scratch(k.columns[k.n], len(rows)*wordRows)
	some := r.column(e, t, rows, column)
	for w, word := range some {
		keyed := k.keyed[w]
		zeros(column, w, keyed&^word)
		for i := range k.n {
			zeros(k.columns[i], w, word&^keyed)
		}
		k.keyed[w] |= word
	}
	if some == nil {
		column = column[:0]
	}
	k.columns[k.n] = column
	k.n++
}

// zeros writes 0 for the rows of a word.
func zeros(column []int64, w int, rows uint64) {
	for ; rows != 0 && len(column) > 0; rows &= rows - 1 {
		column[w*wordRows+bits.TrailingZeros64(rows)] = 0
	}
}

// of is the scores of a row.
func (k *rawKeys) of(row uint32) (key [MaxKey]int64) {
	if k.keyed.has(row) {
		return k.at(int(row))
	}
	return key
}

// at is the scores of a keyed row.
func (k *rawKeys) at(row int) (key [MaxKey]int64) {
	for i := range k.n {
		if column := k.columns[i]; len(column) > 0 {
			key[i] = column[row]
		}
	}
	return key
}

// is tells whether a keyed row has these scores.
func (k *rawKeys) is(row int, key *[MaxKey]int64) bool {
	for i := range k.n {
		if column := k.columns[i]; len(column) > 0 && column[row] != key[i] || len(column) == 0 && key[i] != 0 {
			return false
		}
	}
	return true
}

// extremum is the largest score of a column, and at least 0.
func (k *rawKeys) extremum(i int) (top int64) {
	if len(k.columns[i]) == 0 {
		return 0
	}
	for row := range k.keyed.all {
		top = max(top, k.columns[i][row])
	}
	return top
}

// whole is a column with the scores of all of the rows; nil where all are 0.
func (k *rawKeys) whole(i int, rows bitmap) []int64 {
	if len(k.columns[i]) == 0 {
		return nil
	}
	for w := range rows {
		zeros(k.columns[i], w, rows[w]&^k.keyed[w])
	}
	return k.columns[i]
}
