package coordinator

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/scorer"
)

// maxSpareRows bounds the memory that picks keep from batch to batch: as many repaired rows,
// of some 300 bytes.
const maxSpareRows = 1 << 18

// maxPicks is how many answers are held from batch to batch at the most: with more, all are asked for
// anew.
const maxPicks = 1024

// maxPickBytes is what the classes of those answers may take: of more, some are given up. Those of larger classes than
// hugeClass are given up with their batch. Families have smaller bases than largeClass.
const maxPickBytes, hugeClass, largeClass = 32 << 20, 256 << 10, 64 << 10

// heldSweeps is for how many sweeps an answer is held that no pod has used.
const heldSweeps = 12

// maxRepairedKnown is of how many classes it is known how long their answers were of use.
const maxRepairedKnown = 1 << 16

// picks are the answers that are held, by class: for as many batches as they can be repaired by the
// log of changes, and as it pays.
type picks struct {
	of map[uint64]*pick
	// repaired is how many rows the last answer of a class had repaired in the end.
	repaired map[uint64]int
	// spare are some of earlier batches, for their memory, which is for that many rows.
	spare []*pick
	rows  int
}

// refuse tells whether a class was refused by the answer that is held, with reasons.
func (s *picks) refuse(id uint64) bool {
	p := s.of[id]
	return p != nil && p.diagnosed
}

// reset begins anew. What the workers have answered is not read any more.
func (s *picks) reset(recycle func(*scorer.Result)) {
	for id := range s.of {
		s.drop(id, recycle)
	}
}

// drop forgets the pick of a class.
func (s *picks) drop(id uint64, recycle func(*scorer.Result)) {
	p := s.of[id]
	delete(s.of, id)
	if s.repaired == nil || len(s.repaired) >= maxRepairedKnown {
		s.repaired = map[uint64]int{}
	}
	s.repaired[id] = len(p.repaired)
	recycle(p.result)
	p.result = nil
	p.class = nil
	p.standing.Release()
	p.left.Release()
	p.probe.standing.Release()
	if n := s.rows + cap(p.repaired); n <= maxSpareRows && len(s.spare) < maxPicks {
		s.spare, s.rows = append(s.spare, p), n
	}
}

// age drops the picks that no pod has used for long.
func (s *picks) age(recycle func(*scorer.Result)) {
	for id, p := range s.of {
		if p.idle++; p.idle > heldSweeps {
			s.drop(id, recycle)
		}
	}
}

// hold drops the picks that the log of changes does not serve any more, and those that nobody has
// used for so long that they do not serve.
func (s *picks) hold(t *touches, limits servesTo, recycle func(*scorer.Result)) {
	if t.lost || len(s.of) > maxPicks {
		s.reset(recycle)
	}
	t.trim()
	bytes := int64(0)
	for id, p := range s.of {
		if bytes += p.class.MemoryBytes(); bytes > maxPickBytes || p.class.MemoryBytes() > hugeClass || p.brief || p.synced < t.first || p.repinned(t) || !p.serves(t.end(), limits) || slices.ContainsFunc(t.columns, p.reads) {
			s.drop(id, recycle)
		}
	}
	t.columns = t.columns[:0]
	oldest := t.end()
	for _, p := range s.of {
		oldest = min(oldest, p.synced)
	}
	t.forget(oldest)
	if t.reads = len(s.of) > 0; !t.reads {
		t.reset()
	}
}

// open starts a class's pick with an answer, of the state before a change.
func (s *picks) open(class *scorer.Class, result *scorer.Result, t *touches) {
	p := s.take(class)
	t.reads = true
	p.start(result, t.end(), false)
	s.of[class.ID()] = p
}

// openHere starts a class's pick with the rows that it may get at all, as they are: workers are not
// asked for so few.
func (s *picks) openHere(class *scorer.Class, rows []cache.Row, t *touches, tables tables, e *scorer.Evaluator) {
	p := s.take(class)
	t.reads = true
	p.startEmpty(t.end(), false)
	p.brief = true
	for _, row := range rows {
		if _, known := p.index.find(row); !known {
			p.take(row, t.end(), tables, e)
		}
	}
	s.of[class.ID()] = p
}

// take gives a pick without an answer.
func (s *picks) take(class *scorer.Class) *pick {
	p := newPick(class)
	if last := len(s.spare) - 1; last >= 0 {
		p, s.spare = s.spare[last], s.spare[:last]
		p.class = class
		s.rows -= cap(p.repaired)
	}
	p.shared, p.idle = false, 0
	return p
}
