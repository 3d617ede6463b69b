package scorer

import (
	"encoding/binary"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// taint is one taint of a node.
type taint struct {
	key, value string
	effect     pb.TaintEffect
}

// advises tells whether the taint keeps no pod away.
func (t taint) advises() bool { return t.effect == pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE }

// taintSets interns the taint lists of nodes: a cluster has few different ones, and
// whether a pod tolerates a list is decided once for all rows that have it.
type taintSets struct {
	lists interned[[]taint]
	// ofRow is the list of each row. Of the rows in forbidding a list has a taint that keeps pods away, of those in advising
	// one that pods would rather not meet.
	ofRow                []uint32
	forbidding, advising bitmap
	encoded              []byte // scratch
}

func newTaintSets() taintSets { return taintSets{lists: newInterned[[]taint]()} }

// set gives a row its taints, in the order of spec.taints.
func (s *taintSets) set(row uint32, taints []*pb.Taint) {
	s.encoded = s.encoded[:0]
	for _, t := range taints {
		s.encoded = append(s.encoded, byte(t.GetEffect()))
		s.encoded = appendText(s.encoded, t.GetKey())
		s.encoded = appendText(s.encoded, t.GetValue())
	}
	before := s.ofRow[row]
	s.ofRow[row] = s.lists.acquire(s.encoded, func() []taint {
		list := make([]taint, 0, len(taints))
		for _, t := range taints {
			list = append(list, taint{t.GetKey(), t.GetValue(), t.GetEffect()})
		}
		return list
	})
	s.lists.release(before)
	list := s.of(row)
	s.forbidding.put(row, slices.ContainsFunc(list, func(t taint) bool { return !t.advises() }))
	s.advising.put(row, slices.ContainsFunc(list, taint.advises))
}

func (s *taintSets) grow(capacity int) {
	s.ofRow = lengthened(s.ofRow, capacity)
	s.forbidding = lengthened(s.forbidding, words(capacity))
	s.advising = lengthened(s.advising, words(capacity))
}

// of is the row's taints.
func (s *taintSets) of(row uint32) []taint { return s.lists.contents[s.ofRow[row]] }

func (s *taintSets) memory() int64 {
	const perList = 3 * 40 // the list itself: three taints as structs
	return s.lists.memory() + int64(len(s.lists.contents))*perList + int64(4*cap(s.ofRow)+8*cap(s.forbidding)+8*cap(s.advising))
}

// appendText appends a string so that no two lists of strings look the same.
func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}
