package selector

import "slices"

// Index files values of any kind under selectors, and finds those whose selector
// matches. It is owned by one goroutine. The zero Index is empty.
type Index[T comparable] struct {
	entries map[T]filed[T]
	byLabel map[label][]filed[T]
	byKey   map[string][]filed[T]
	rest    map[string]*denials[T]
	names   names
}

type label struct{ key, value string }

// filed is a value under its selector.
type filed[T comparable] struct {
	selector *Selector
	value    T
	home     *home
}

// home is where a value is filed: under a requirement, nil: with those that demand nothing, and at which
// place of each list that it is in.
type home struct {
	anchor *requirement
	slots  []int
}

// denials are values whose selectors demand nothing to be there, and look at the same keys with the same
// operators.
type denials[T comparable] struct {
	like  *Selector // one of them
	filed []filed[T]
}

// Len tells how many values there are.
func (x *Index[T]) Len() int { return len(x.entries) }

// Add files a value that is not there yet. One whose selector is Nothing is never found, and not filed.
func (x *Index[T]) Add(s *Selector, v T) {
	if s.nothing {
		return
	}
	if x.entries == nil {
		x.entries = map[T]filed[T]{}
		x.byLabel, x.byKey, x.rest = map[label][]filed[T]{}, map[string][]filed[T]{}, map[string]*denials[T]{}
	}
	x.names.add(s)
	f := filed[T]{s, v, &home{anchor: x.anchor(s)}}
	x.entries[v] = f
	switch r := f.home.anchor; {
	case r == nil:
		d := x.denying(s)
		d.filed = f.joins(d.filed)
	case r.byKey():
		x.byKey[r.key] = f.joins(x.byKey[r.key])
	default:
		for _, v := range r.values {
			l := label{r.key, v}
			x.byLabel[l] = f.joins(x.byLabel[l])
		}
	}
}

// byKey tells that a value is filed under the requirement's key, whatever its values are.
func (r *requirement) byKey() bool { return r.op == exists || r.wide() }

// anchor is the requirement of a selector to file it under: one under whose labels there
// is the least already. nil: it demands nothing to be there.
func (x *Index[T]) anchor(s *Selector) (best *requirement) {
	least := 0
	for i := range s.requirements {
		r := &s.requirements[i]
		n := 0
		switch {
		case r.op == notIn || r.op == doesNotExist:
			continue
		case r.byKey():
			n = len(x.byKey[r.key]) + 1 // a value is rarer than its key
		default:
			for _, v := range r.values {
				n = max(n, len(x.byLabel[label{r.key, v}]))
			}
		}
		if best == nil || n < least {
			best, least = r, n
		}
	}
	return best
}

// denying are the values with the same keys and operators as a selector that demands nothing.
func (x *Index[T]) denying(s *Selector) *denials[T] {
	like := s.alike()
	d := x.rest[like]
	if d == nil {
		d = &denials[T]{like: s}
		x.rest[like] = d
	}
	return d
}

// alike is the same for selectors with the same keys and operators.
func (s *Selector) alike() string {
	var out []byte
	for i := range s.requirements {
		out = append(AppendText(out, s.requirements[i].key), byte(s.requirements[i].op))
	}
	return string(out)
}

// Remove takes out a value that was added with the selector.
func (x *Index[T]) Remove(s *Selector, v T) {
	f, ok := x.entries[v]
	if !ok || f.selector.text != s.text {
		return
	}
	delete(x.entries, v)
	x.names.remove(f.selector)
	switch r := f.home.anchor; {
	case r == nil:
		like := f.selector.alike()
		d := x.rest[like]
		if d.filed = f.leaves(d.filed, 0, ""); len(d.filed) == 0 {
			delete(x.rest, like)
		} else if d.like == f.selector {
			d.like = d.filed[0].selector
		}
	case r.byKey():
		replace(x.byKey, r.key, f.leaves(x.byKey[r.key], 0, ""))
	default:
		for i, v := range r.values {
			l := label{r.key, v}
			replace(x.byLabel, l, f.leaves(x.byLabel[l], i, v))
		}
	}
}

func replace[K comparable, T any](lists map[K][]T, k K, list []T) {
	if len(list) == 0 {
		delete(lists, k)
	} else {
		lists[k] = list
	}
}

// joins puts a value at the end of a list.
func (f filed[T]) joins(list []filed[T]) []filed[T] {
	f.home.slots = append(f.home.slots, len(list))
	return append(list, f)
}

// leaves takes a value out of its i-th list, which is that of a value of its label, if it is filed by
// values: the last of the list takes its place.
func (f filed[T]) leaves(list []filed[T], i int, value string) []filed[T] {
	slot, n := f.home.slots[i], len(list)-1
	last := list[n]
	list[slot] = last
	list[n] = filed[T]{}
	at := 0
	if r := last.home.anchor; r != nil && !r.byKey() {
		at, _ = slices.BinarySearch(r.values, value)
	}
	last.home.slots[at] = slot
	return list[:n]
}

// Matching calls f for each value whose selector matches, in no order. It tells how many selectors, requirements and
// labels it has looked at.
func (x *Index[T]) Matching(labels map[string]string, f func(T)) (looks int) {
	return x.MatchingUntil(labels, func(v T) bool {
		f(v)
		return false
	})
}

// MatchingUntil is Matching that ends once f says that it is enough.
func (x *Index[T]) MatchingUntil(labels map[string]string, f func(T) (enough bool)) (looks int) {
	if len(x.entries) == 0 {
		return 0
	}
	for _, d := range x.rest {
		n, enough := d.matching(labels, f)
		if looks += n; enough {
			return looks
		}
	}
	for k, v := range labels {
		n, enough := matching(x.byLabel[label{k, v}], labels, f)
		if looks += 1 + n; enough {
			return looks
		}
		if len(x.byKey) == 0 {
			continue
		}
		n, enough = matching(x.byKey[k], labels, f)
		if looks += n; enough {
			return looks
		}
	}
	return looks
}

func matching[T comparable](list []filed[T], labels map[string]string, f func(T) bool) (looks int, enough bool) {
	for i := range list {
		matches, n := list[i].selector.look(labels)
		if looks += n; matches && f(list[i].value) {
			return looks, true
		}
	}
	return looks, false
}

// matching looks at the selectors only where the labels have a key of theirs with some value or other.
func (d *denials[T]) matching(labels map[string]string, f func(T) bool) (looks int, enough bool) {
	has, denied, looks := d.like.touches(labels)
	switch {
	case denied:
		return looks, false
	case has:
		n, enough := matching(d.filed, labels, f)
		return looks + n, enough
	}
	for i := range d.filed {
		if looks++; f(d.filed[i].value) {
			return looks, true
		}
	}
	return looks, false
}

// touches tells whether labels have a key of a selector that demands nothing to be there, and one that must not be
// there. looks is as of look.
func (s *Selector) touches(labels map[string]string) (has, denied bool, looks int) {
	if !s.long(labels) {
		for i := range s.requirements {
			if _, ok := labels[s.requirements[i].key]; ok {
				if has = true; s.requirements[i].op == doesNotExist {
					return true, true, i + 1
				}
			}
		}
		return has, false, len(s.requirements)
	}
	for k := range labels {
		list := s.on(k)
		looks += 1 + len(list)
		has = has || len(list) > 0
		if slices.ContainsFunc(list, func(r requirement) bool { return r.op == doesNotExist }) {
			return true, true, looks
		}
	}
	return has, false, looks
}

// Sight appends what the selectors see of labels: equal sights are matched by the same
// selectors until the next Add or Remove. It ends itself: what follows can not be taken
// for a part of it.
func (x *Index[T]) Sight(labels map[string]string, into []byte) []byte {
	return x.names.sight(labels, into)
}
