package selector

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// names are the keys and values that the selectors of an index name.
type names struct {
	keys map[string]*key
	// last counts what keys and values were ever numbered: a number is not given twice.
	last uint32
	// wide is how many keys have a wide requirement.
	wide    int
	numbers []uint32 // scratch
	whole   []whole  // scratch
}

// key is a label key that selectors name.
type key struct {
	uses   int
	other  uint32 // stands for a value that no selector names
	values map[string]*value
	// wide is how many of the uses are wide: their values are not in values.
	wide int
}

type value struct {
	uses   int
	number uint32
}

// whole is a label that is seen with whatever value it has.
type whole struct {
	number uint32
	value  string
}

// add counts the keys and values that a selector names.
func (n *names) add(s *Selector) {
	if n.keys == nil {
		n.keys = map[string]*key{}
	}
	for i := range s.requirements {
		r := &s.requirements[i]
		k := n.keys[r.key]
		if k == nil {
			k = &key{other: n.number(), values: map[string]*value{}}
			n.keys[r.key] = k
		}
		k.uses++
		if r.wide() {
			if k.wide++; k.wide == 1 {
				n.wide++
			}
			continue
		}
		for _, v := range r.values {
			if k.values[v] == nil {
				k.values[v] = &value{number: n.number()}
			}
			k.values[v].uses++
		}
	}
}

func (n *names) number() uint32 {
	n.last++
	return n.last
}

// remove takes add back.
func (n *names) remove(s *Selector) {
	for i := range s.requirements {
		r := &s.requirements[i]
		k := n.keys[r.key]
		if k.uses--; k.uses == 0 {
			delete(n.keys, r.key)
		}
		if r.wide() {
			if k.wide--; k.wide == 0 {
				n.wide--
			}
			continue
		}
		for _, v := range r.values {
			if k.values[v].uses--; k.values[v].uses == 0 {
				delete(k.values, v)
			}
		}
	}
}

// sight appends what selectors see of labels: the numbers of values, the labels that are seen whole, and
// 0, which is no number.
func (n *names) sight(labels map[string]string, into []byte) []byte {
	seen := n.numbers[:0]
	n.whole = n.whole[:0]
	if len(n.keys) > 0 {
		for name, v := range labels {
			k := n.keys[name]
			if k == nil {
				continue
			}
			if k.wide > 0 {
				n.whole = append(n.whole, whole{k.other, v})
			} else if known := k.values[v]; known != nil {
				seen = append(seen, known.number)
			} else {
				seen = append(seen, k.other)
			}
		}
		slices.Sort(seen)
		n.numbers = seen
	}
	for _, number := range seen {
		into = binary.AppendUvarint(into, uint64(number))
	}
	if n.wide > 0 {
		slices.SortFunc(n.whole, func(a, b whole) int { return cmp.Compare(a.number, b.number) })
		for _, w := range n.whole {
			into = AppendText(binary.AppendUvarint(into, uint64(w.number)), w.value)
		}
	}
	return append(into, 0)
}
