package answers

import (
	"slices"

	"github.com/shardsched/shardsched/scorer"
)

// maxSpareRows bounds the memory that dropped answers keep for later answers: so many repaired rows, of some 300 bytes each.
const maxSpareRows = 1 << 18

// maxHeld bounds the answers that are held from batch to batch. With more, all answers are dropped.
const maxHeld = 1024

// These bound the memory of classes, which tenants may make large. maxHeldBytes is for the classes of all held answers: beyond
// it some answers are dropped. The answer of a class larger than hugeClass is dropped with its batch. A base class larger than
// largeClass gets no shared answer.
const maxHeldBytes, hugeClass, largeClass = 32 << 20, 256 << 10, 64 << 10

// heldSweeps is for how many sweeps an unused answer is held: a minute of 5 s sweeps.
const heldSweeps = 12

// maxKnown bounds how many classes the engine remembers to have asked for, and how many rows of their answers were repaired.
const maxKnown = 1 << 16

// held are the answers that are kept from batch to batch, as long as the change log can repair them and a repair costs less
// than another answer.
type held struct {
	engine *Engine
	of     map[uint64]*Answer
	// repaired is how many rows the last answer of a class had repaired when it was dropped. asked are the classes that were
	// asked for, each with the number of the change before which that was.
	repaired map[uint64]int
	asked    map[uint64]uint64
	// spare are dropped answers, kept for their memory: rows is how many repaired rows it can hold. least is the smallest
	// length of spare since the last sweep.
	spare []*Answer
	rows  int
	least int
}

func newHeld(e *Engine) held {
	return held{engine: e, of: map[uint64]*Answer{}, repaired: map[uint64]int{}, asked: map[uint64]uint64{}}
}

// dropAll begins anew.
func (h *held) dropAll() {
	for id := range h.of {
		h.drop(id)
	}
}

// drop forgets the answer of a class. The workers' result is not read any more.
func (h *held) drop(id uint64) {
	a := h.of[id]
	delete(h.of, id)
	if len(h.repaired) >= maxKnown {
		clear(h.repaired)
	}
	if a.until == 0 {
		h.repaired[id] = len(a.repaired)
	}
	h.engine.recycle(a.result)
	a.result, a.class, a.copies = nil, nil, nil
	a.standing.Release()
	a.among.Release()
	a.scratch.standing.Release()
	if n := h.rows + cap(a.repaired); n <= maxSpareRows && len(h.spare) < maxHeld {
		h.spare, h.rows = append(h.spare, a), n
	}
}

// age drops the answers that no pod has used for long, and the spare answers that were not needed since its last call.
func (h *held) age() {
	for _, a := range h.spare[:h.least] {
		h.rows -= cap(a.repaired)
	}
	h.spare = append([]*Answer(nil), h.spare[h.least:]...)
	h.least = len(h.spare)
	for id, a := range h.of {
		if a.idle++; a.idle > heldSweeps {
			h.drop(id)
		}
	}
}

// evict drops the answers that do not serve a batch of so many pods any more.
func (h *held) evict(pods int) {
	log := &h.engine.log
	nodes, rows := h.engine.tables.Nodes(), heldBy(len(h.of))
	if log.lost || len(h.of) > maxHeld {
		h.dropAll()
	}
	log.trim()
	h.engine.voidAhead()
	bytes, shared := int64(0), 0
	for id, a := range h.of {
		if a.shared {
			shared += len(a.repaired)
		}
		if bytes += a.class.MemoryBytes(); bytes > maxHeldBytes || shared > h.engine.limits.allSharedRows(nodes) ||
			a.class.MemoryBytes() > hugeClass || a.oneBatch || a.synced < log.first || a.repinned() || a.outlived() ||
			!a.serves(pods, 256+nodes/10, rows) || slices.ContainsFunc(log.columns, a.reads) {
			h.drop(id)
		}
	}
	log.columns = log.columns[:0]
	oldest := log.end()
	for _, a := range h.of {
		oldest = min(oldest, a.synced, a.copiesFrom(log))
	}
	for _, n := range h.engine.ahead {
		oldest = min(oldest, n.from)
	}
	log.forget(oldest)
	if log.reads = len(h.of)+len(h.engine.ahead) > 0; !log.reads {
		log.reset()
	}
}

// open gives a class an empty answer.
func (h *held) open(class *scorer.Class) *Answer {
	var a *Answer
	if last := len(h.spare) - 1; last >= 0 {
		a, h.spare = h.spare[last], h.spare[:last]
		h.least = min(h.least, last)
		h.rows -= cap(a.repaired)
	} else {
		a = &Answer{engine: h.engine}
	}
	a.class, a.shared, a.until, a.idle = class, false, 0, 0
	h.of[class.ID()] = a
	h.engine.log.reads = true
	return a
}

// askedSince tells whether a class was asked for before, no longer than so many changes ago.
func (h *held) askedSince(class uint64, changes int) bool {
	last, known := h.asked[class]
	return known && h.engine.log.end()-last <= uint64(changes)
}

// note remembers that a class is asked for now.
func (h *held) note(class uint64) {
	if len(h.asked) >= maxKnown {
		clear(h.asked)
	}
	h.asked[class] = h.engine.log.end()
}
