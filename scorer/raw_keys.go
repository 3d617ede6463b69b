package scorer

import "math/bits"

// rawKeys are the raw scores of the normalised plugins for the rows of a table. Most rows have 0 of all.
type rawKeys struct {
	// keyed are the rows that may have another score of any plugin.
	keyed bitmap
	// same tells that all keyed rows have the scores in key: then there are no columns.
	same bool
	key  [MaxKey]int64
	// columns are of the keyed rows alone; an empty one has 0 of all.
	columns [MaxKey][]int64
	n       int // of the columns
}

// level is a score rule that mostly gives 0 to the rows, or one other score.
type level interface {
	// level returns the rows with the other score, which hold until the evaluator's next pass; nil: none. ok is false where
	// column has to be asked.
	level(e *Evaluator, t *Table, rows bitmap) (some bitmap, score int64, ok bool)
}

// begin forgets the scores, for another table with so many words of rows.
func (k *rawKeys) begin(words int) {
	k.n, k.same, k.key, k.keyed = 0, true, [MaxKey]int64{}, scratch(k.keyed, words)
	clear(k.keyed)
}

// add asks a rule for the scores of some rows: the next column.
func (k *rawKeys) add(e *Evaluator, t *Table, r scoreRule, rows bitmap) {
	i := k.n
	k.columns[i] = k.columns[i][:0]
	k.n++
	if l, ok := r.(level); ok {
		some, score, ok := l.level(e, t, rows)
		if ok && some == nil {
			return
		}
		if ok && k.same && k.key == [MaxKey]int64{} {
			copy(k.keyed, some)
			k.key[i] = score
			return
		}
	}
	column := scratch(k.columns[i], len(rows)*wordRows)
	if some := r.column(e, t, rows, column); some != nil {
		k.addColumn(i, some, column)
	}
}

// addColumn takes in a column with scores of some rows.
func (k *rawKeys) addColumn(i int, some bitmap, column []int64) {
	if k.same {
		k.writeOut(len(column))
	}
	for w, word := range some {
		keyed := k.keyed[w]
		write(column, w, keyed&^word, 0)
		for o := range i {
			write(k.columns[o], w, word&^keyed, 0)
		}
		k.keyed[w] |= word
	}
	k.columns[i] = column
}

// writeOut gives all keyed rows, which have the same scores, columns.
func (k *rawKeys) writeOut(rows int) {
	k.same = false
	for i, score := range k.key {
		if score != 0 {
			k.columns[i] = scratch(k.columns[i], rows)
			for w, word := range k.keyed {
				write(k.columns[i], w, word, score)
			}
		}
	}
}

// write writes a score for the rows of a word, unless the column is empty.
func write(column []int64, w int, rows uint64, score int64) {
	for ; rows != 0 && len(column) > 0; rows &= rows - 1 {
		column[w*wordRows+bits.TrailingZeros64(rows)] = score
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
	if k.same {
		return k.key
	}
	for i := range k.n {
		if column := k.columns[i]; len(column) > 0 {
			key[i] = column[row]
		}
	}
	return key
}

// is tells whether a keyed row has these scores. The columns are not all the same.
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
	for row := range k.keyed.all {
		top = max(top, k.at(int(row))[i])
	}
	return top
}

// whole is a column with the scores of all of the rows; nil where all are 0.
func (k *rawKeys) whole(i int, rows bitmap) []int64 {
	if k.same {
		k.writeOut(len(rows) * wordRows)
	}
	if len(k.columns[i]) == 0 {
		return nil
	}
	for w := range rows {
		write(k.columns[i], w, rows[w]&^k.keyed[w], 0)
	}
	return k.columns[i]
}
