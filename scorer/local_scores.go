package scorer

import (
	"math/bits"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// blockWords is how many words are scored at a time: their scores stay in the processor's first cache until
// they are compared.
const blockWords = 8

// localScores adds up what the plugins that look at nothing but the row make of the rows of a table, some words
// at a time.
type localScores struct {
	table *Table
	eval  *Evaluator
	// pair scores cpu and memory by its loop. least and balance are its rules, which score irregular rows; nil: the class
	// does not have it, or not for cpu and memory alone.
	pair           cpuMemory
	least, balance scoreRule
	images         []imageScore
	// column is the sum of all other rules; nil: there are none.
	column []int64
	// byWords are the plugins whose rules are scored by words.
	byWords []pb.Plugin
	// rough tells that a first look at the rows need not be exact.
	rough bool
}

// blockRule is a score rule that can be scored by words, for most classes.
type blockRule interface {
	// addTo adds the rule, with its weight; false where column has to be asked.
	addTo(into *localScores, weight int64) bool
}

// begin forgets the rules, for another table.
func (l *localScores) begin(e *Evaluator, t *Table) {
	l.table, l.eval = t, e
	l.pair.lookUp(t)
	l.least, l.balance, l.images, l.column, l.byWords, l.rough = nil, nil, l.images[:0], nil, l.byWords[:0], false
}

// end lets go of the table, and tells an observer, nil for none, that the n rows are scored.
func (l *localScores) end(o Observer, n int) {
	if o != nil {
		for _, p := range l.byWords {
			o.Pass(p, pb.ExtensionPoint_EXTENSION_POINT_SCORE, n, n)
		}
	}
	clear(l.images)
	*l = localScores{images: l.images[:0], byWords: l.byWords[:0]}
}

// add adds a rule, and tells whether it is scored by words. One that has to be asked for a column is asked now, for all
// of the rows.
func (l *localScores) add(s *scoreTerm, rows bitmap) (byWords bool) {
	if r, ok := s.rule.(blockRule); ok && r.addTo(l, s.weight) {
		l.byWords = append(l.byWords, s.plugin)
		return true
	}
	e := l.eval
	e.raw = scratch(e.raw, len(rows)*wordRows)
	some := s.rule.column(e, l.table, rows, e.raw)
	if some != nil && l.column == nil {
		e.others = scratch(e.others, len(e.raw))
		clear(e.others)
		l.column = e.others
	}
	for row := range some.all {
		l.column[row] += s.weight * e.raw[row]
	}
	return false
}

// ready ends the adding of rules. left is what all rows have left of cpu and memory, at least.
func (l *localScores) ready(left [2]int64) {
	l.rough = (l.least != nil || l.balance != nil) && l.pair.makeReady(left)
}

// block writes the scores of the rows in some words, of which from is the first, or at least the scores: into is exact
// where ceilings is false. rows and into are of these words.
func (l *localScores) block(rows bitmap, from int, ceilings bool, into []int64) {
	if l.least == nil && l.balance == nil {
		clear(into)
	} else {
		l.scorePair(rows, from, ceilings, into)
	}
	for i := range l.images {
		l.images[i].addTo(into, from, rows)
	}
	if l.column != nil {
		for i, score := range l.column[from*wordRows:][:len(into)] {
			into[i] += score
		}
	}
}

// scorePair scores cpu and memory: by a loop, but for words with an irregular row, and for those without any row.
func (l *localScores) scorePair(rows bitmap, from int, ceilings bool, into []int64) {
	irregular := l.table.derived.irregular[from : from+len(rows)]
	for w := 0; w < len(rows); {
		if rows[w]&irregular[w] != 0 {
			for row := range rows[w : w+1].all {
				i := w*wordRows + int(row)
				into[i] = l.irregular(uint32(from*wordRows + i))
			}
		}
		to := w
		for to < len(rows) && rows[to] != 0 && rows[to]&irregular[to] == 0 {
			to++
		}
		if ceilings {
			l.pair.ceilings(rows[w:to], from+w, into[w*wordRows:])
		} else {
			l.pair.scores(rows[w:to], from+w, into[w*wordRows:])
		}
		w = max(to, w+1)
	}
}

// irregular is what the rules for cpu and memory make of a row whose amounts their loop can not compute with.
func (l *localScores) irregular(row uint32) (sum int64) {
	v := view{t: l.table, row: row, e: l.eval}
	if l.least != nil {
		sum += l.pair.leastWeight * l.least.score(l.eval, v)
	}
	if l.balance != nil {
		sum += l.pair.balanceWeight * l.balance.score(l.eval, v)
	}
	return sum
}

// at is the score of one row.
func (l *localScores) at(row uint32) (sum int64) {
	switch {
	case l.table.derived.irregular.has(row):
		sum = l.irregular(row)
	case l.least != nil || l.balance != nil:
		sum = l.pair.score(int(row))
	}
	return sum + l.rest(row)
}

// rest is what the rules make of a row that do not score cpu and memory by a loop.
func (l *localScores) rest(row uint32) (sum int64) {
	for i := range l.images {
		if l.images[i].image.has(row) {
			sum += l.images[i].score
		}
	}
	if l.column != nil {
		sum += l.column[row]
	}
	return sum
}

// all writes the scores of all rows, in words, of a table.
func (l *localScores) all(rows bitmap, into []int64) []int64 {
	into = scratch(into, len(rows)*wordRows)
	l.block(rows, 0, false, into)
	return into
}

// fewRows are the columns that pair reads of some rows alone, with room for their scores.
type fewRows struct {
	all, nonZero, requested [2][wordRows]int64
	balance                 [wordRows]uint8
	scores                  [wordRows]int64
}

// of is the scores of some rows, a word of them at the most. It holds until the next call.
func (l *localScores) of(rows []uint32) []int64 {
	x, pair := &l.eval.few, l.pair
	for r := range pair.all {
		pair.all[r] = gather(x.all[r][:0], pair.all[r], rows)
		pair.nonZero[r] = gather(x.nonZero[r][:0], pair.nonZero[r], rows)
		pair.requested[r] = gather(x.requested[r][:0], pair.requested[r], rows)
	}
	pair.balance = gather(x.balance[:0], pair.balance, rows)
	word := bitmap{1<<(len(rows)-1)<<1 - 1}
	clear(x.scores[:])
	if l.least != nil || l.balance != nil {
		pair.scores(word, 0, x.scores[:])
	}
	for i, row := range rows {
		if l.table.derived.irregular.has(row) {
			x.scores[i] = l.irregular(row)
		}
		x.scores[i] += l.rest(row)
	}
	return x.scores[:len(rows)]
}

// gather writes what a column has of some rows.
func gather[T any](into, column []T, rows []uint32) []T {
	for _, row := range rows {
		into = append(into, column[row])
	}
	return into[:wordRows]
}

// imageScore is an image with the weighted score of the rows that have it.
type imageScore struct {
	image *image
	score int64
	// next is the index in image.list from which on the next words are: they ascend.
	next int
}

// addTo adds the score to the rows that have the image, in words of which from is the first.
func (x *imageScore) addTo(into []int64, from int, rows bitmap) {
	list, first := x.image.list, from*wordRows
	for ; x.next < len(list) && int(list[x.next]) < first+len(into); x.next++ {
		if row := int(list[x.next]) - first; row >= 0 {
			into[row] += x.score
		}
	}
	for w, word := range x.image.bits[min(from, len(x.image.bits)):min(from+len(rows), len(x.image.bits))] {
		for word &= rows[w]; word != 0; word &= word - 1 {
			into[w*wordRows+bits.TrailingZeros64(word)] += x.score
		}
	}
}
