package scorer

import (
	"errors"

	"github.com/shardsched/shardsched/scorer/devices"
)

// ErrUnfinished is what an evaluation panics with whose searches for devices would take more steps than it may (Allow). It has
// no result, and nothing of it is used but what its searches have found: the evaluator is replaced (Renewed), and the same
// evaluation gets further the next time. One search has to be within what is allowed: devices.DefaultBudget.
var ErrUnfinished = errors.New("searching for devices takes more steps than an evaluation may")

// sumSteps is what it takes, in steps, to encode a device without the attributes that a class does not look at.
const sumSteps = 4

// Allowance counts down the steps that searches for devices may take. *atomic.Int64 is one for evaluators on several goroutines.
type Allowance interface {
	Load() int64
	Add(steps int64) int64
}

// Searches is what the searches for devices of a process have found: for all its evaluators, and whatever becomes of an
// evaluation.
//
// What claims ask is a question of its own, whichever class asks: classes that differ in other things find the same.
// The question that was asked longest ago is forgotten first, and the one at hand last, so that its verdicts on all states of
// a cluster come together, however many evaluations that takes.
type Searches struct {
	lock locker // taken for each use
	of   map[digest]*searched
	most int // entries
	kept int
	uses uint64
}

type locker interface {
	Lock()
	Unlock()
}

type unlocked struct{}

func (unlocked) Lock()   {}
func (unlocked) Unlock() {}

// searched is what was found for one question of claims.
type searched struct {
	verdicts map[deviceQuestion]deviceVerdict
	sums     map[digest]digest // of inventories
	used     uint64
}

const (
	// maxSearches is how many verdicts and sums are remembered, of 130 bytes each at the most.
	maxSearches = 1 << 18
	// maxSearched is of how many questions of claims.
	maxSearched = 1 << 10
)

// NewSearches makes one that knows nothing. The lock is for evaluators on several goroutines.
func NewSearches(lock locker) *Searches {
	return &Searches{lock: lock, of: map[digest]*searched{}, most: maxSearches}
}

// Share has an evaluator use what the evaluators of the same Searches have found.
func (e *Evaluator) Share(s *Searches) { e.devices.searches = s }

// Allow bounds the steps that searches for devices may take from now on, together with those of all evaluators that have the
// same counter: an evaluation beyond that panics with ErrUnfinished. nil: any number.
func (e *Evaluator) Allow(left Allowance) { e.devices.left = left }

// Afford makes sure that the devices of a row can be searched for once more (Allocate) within what is allowed, and counts the
// steps: else it panics with ErrUnfinished.
func (e *Evaluator) Afford(t *Table, row uint32, c *Class) {
	left := e.devices.left
	if left == nil || c.claims == nil || !t.HasNode(row) {
		return
	}
	steps := int64(c.claims.judge(view{t: t, row: row, e: e}).steps)
	if steps > left.Load() {
		panic(ErrUnfinished)
	}
	left.Add(-steps)
}

// budget is what the next search may take.
func (m *deviceMemory) budget() int64 {
	if m.left == nil {
		return devices.DefaultBudget
	}
	left := m.left.Load()
	if left <= 0 {
		panic(ErrUnfinished)
	}
	return min(left, devices.DefaultBudget)
}

// spend counts steps that were taken.
func (m *deviceMemory) spend(steps int64) {
	if m.left != nil {
		m.left.Add(-steps)
	}
}

// entry finds what is known for a question, or opens it. The caller holds s.lock.
func (s *Searches) entry(asks digest) *searched {
	s.uses++
	x := s.of[asks]
	if x == nil {
		if len(s.of) >= maxSearched {
			s.forget(nil)
		}
		x = &searched{verdicts: map[deviceQuestion]deviceVerdict{}, sums: map[digest]digest{}}
		s.of[asks] = x
	}
	x.used = s.uses
	return x
}

// add makes room for one more entry of a question. The caller holds s.lock.
func (s *Searches) add(to *searched) {
	for s.kept >= s.most && s.forget(to) {
	}
	if s.kept >= s.most {
		clear(to.verdicts)
		clear(to.sums)
		s.kept = 0
	}
	s.kept++
}

// forget forgets the question that was asked longest ago, but not this one; false: there is no other.
func (s *Searches) forget(but *searched) bool {
	var oldest digest
	var found *searched
	for asks, x := range s.of {
		if x != but && (found == nil || x.used < found.used) {
			oldest, found = asks, x
		}
	}
	if found == nil {
		return false
	}
	s.kept -= len(found.verdicts) + len(found.sums)
	delete(s.of, oldest)
	return true
}

func (s *Searches) verdict(asks digest, q deviceQuestion) (v deviceVerdict, known bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	v, known = s.entry(asks).verdicts[q]
	return v, known
}

func (s *Searches) keep(asks digest, q deviceQuestion, v deviceVerdict) {
	s.lock.Lock()
	defer s.lock.Unlock()
	x := s.entry(asks)
	if _, known := x.verdicts[q]; !known { // another evaluator may have searched meanwhile
		s.add(x)
	}
	x.verdicts[q] = v
}

func (s *Searches) sum(asks, inventory digest) (sum digest, known bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	sum, known = s.entry(asks).sums[inventory]
	return sum, known
}

func (s *Searches) keepSum(asks, inventory, sum digest) {
	s.lock.Lock()
	defer s.lock.Unlock()
	x := s.entry(asks)
	if _, known := x.sums[inventory]; !known {
		s.add(x)
	}
	x.sums[inventory] = sum
}
