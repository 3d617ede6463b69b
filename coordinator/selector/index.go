package selector

import (
	"encoding/binary"
	"slices"
)

// Index files values of any kind under selectors, and finds those whose selector
// matches. It is owned by one goroutine. The zero Index is empty.
type Index[T comparable] struct {
	size    int
	byLabel map[label][]filed[T]
	byKey   map[string][]filed[T]
	rest    []filed[T]
	keys    map[string]*key
	// numbers counts what keys and values were ever numbered: a number is not given twice.
	numbers uint32
	scratch []uint32
}

type label struct{ key, value string }

// filed is a value under its selector.
type filed[T comparable] struct {
	selector *Selector
	value    T
}

// key is a label key that selectors name.
type key struct {
	uses   int
	other  uint32 // stands for a value that no selector names
	values map[string]*value
}

type value struct {
	uses   int
	number uint32
}

// Len tells how many values there are.
func (x *Index[T]) Len() int { return x.size }

// Add files a value. One whose selector is Nothing is never found, and not filed.
func (x *Index[T]) Add(s *Selector, v T) {
	if s.nothing {
		return
	}
	if x.keys == nil {
		x.byLabel, x.byKey, x.keys = map[label][]filed[T]{}, map[string][]filed[T]{}, map[string]*key{}
	}
	x.size++
	x.name(s)
	f := filed[T]{s, v}
	switch r := x.anchor(s); {
	case r == nil:
		x.rest = append(x.rest, f)
	case r.op == exists:
		x.byKey[r.key] = append(x.byKey[r.key], f)
	default:
		for _, v := range r.values {
			l := label{r.key, v}
			x.byLabel[l] = append(x.byLabel[l], f)
		}
	}
}

// anchor is the requirement of a selector to file it under: one under whose labels there
// is the least already. nil: it demands nothing to be there.
func (x *Index[T]) anchor(s *Selector) (best *requirement) {
	least := 0
	for i := range s.requirements {
		r := &s.requirements[i]
		n := 0
		switch r.op {
		case in:
			for _, v := range r.values {
				n = max(n, len(x.byLabel[label{r.key, v}]))
			}
		case exists:
			n = len(x.byKey[r.key]) + 1 // a value is rarer than its key
		default:
			continue
		}
		if best == nil || n < least {
			best, least = r, n
		}
	}
	return best
}

// Remove takes out a value that was added with the selector.
func (x *Index[T]) Remove(s *Selector, v T) {
	if s.nothing {
		return
	}
	found := false
	for i := range s.requirements {
		switch r := &s.requirements[i]; r.op {
		case in:
			for _, val := range r.values {
				l := label{r.key, val}
				found = take(x.byLabel, l, s, v) || found
			}
		case exists:
			found = take(x.byKey, r.key, s, v) || found
		}
	}
	if i := position(x.rest, s, v); !found && i >= 0 {
		x.rest, found = slices.Delete(x.rest, i, i+1), true
	}
	if found {
		x.size--
		x.unname(s)
	}
}

// take removes a value from a bucket, if it is in it.
func take[K comparable, T comparable](buckets map[K][]filed[T], k K, s *Selector, v T) bool {
	bucket := buckets[k]
	i := position(bucket, s, v)
	if i < 0 {
		return false
	}
	if len(bucket) == 1 {
		delete(buckets, k)
	} else {
		buckets[k] = slices.Delete(bucket, i, i+1)
	}
	return true
}

func position[T comparable](list []filed[T], s *Selector, v T) int {
	return slices.IndexFunc(list, func(f filed[T]) bool { return f.value == v && f.selector.text == s.text })
}

// Matching calls f for each value whose selector matches, in no order.
func (x *Index[T]) Matching(labels map[string]string, f func(T)) {
	if x.size == 0 {
		return
	}
	matching(x.rest, labels, f)
	for k, v := range labels {
		matching(x.byLabel[label{k, v}], labels, f)
		if len(x.byKey) > 0 {
			matching(x.byKey[k], labels, f)
		}
	}
}

func matching[T comparable](bucket []filed[T], labels map[string]string, f func(T)) {
	for i := range bucket {
		if bucket[i].selector.Matches(labels) {
			f(bucket[i].value)
		}
	}
}

// name counts the keys and values that a selector names.
func (x *Index[T]) name(s *Selector) {
	for i := range s.requirements {
		r := &s.requirements[i]
		k := x.keys[r.key]
		if k == nil {
			k = &key{other: x.number(), values: map[string]*value{}}
			x.keys[r.key] = k
		}
		k.uses++
		for _, v := range r.values {
			if k.values[v] == nil {
				k.values[v] = &value{number: x.number()}
			}
			k.values[v].uses++
		}
	}
}

func (x *Index[T]) number() uint32 {
	x.numbers++
	return x.numbers
}

// unname takes name back.
func (x *Index[T]) unname(s *Selector) {
	for i := range s.requirements {
		r := &s.requirements[i]
		k := x.keys[r.key]
		for _, v := range r.values {
			if k.values[v].uses--; k.values[v].uses == 0 {
				delete(k.values, v)
			}
		}
		if k.uses--; k.uses == 0 {
			delete(x.keys, r.key)
		}
	}
}

// Sight appends what the selectors see of labels: equal sights are matched by the same
// selectors until the next Add or Remove. It ends itself: what follows can not be taken
// for a part of it.
func (x *Index[T]) Sight(labels map[string]string, into []byte) []byte {
	seen := x.scratch[:0]
	if len(x.keys) > 0 {
		for name, v := range labels {
			k := x.keys[name]
			if k == nil {
				continue
			}
			if known := k.values[v]; known != nil {
				seen = append(seen, known.number)
			} else {
				seen = append(seen, k.other)
			}
		}
		slices.Sort(seen)
		x.scratch = seen
	}
	for _, n := range seen {
		into = binary.AppendUvarint(into, uint64(n))
	}
	return append(into, 0) // no number is 0
}
