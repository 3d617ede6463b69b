package cache

import "github.com/shardsched/shardsched/coordinator/selector"

// maxLabelKeys is how many label keys pods are found by.
const maxLabelKeys = 16

// fewPods, or one of fewPart of all, are so few that they are looked at rather than found by another key.
const fewPods, fewPart = 256, 64

// byLabel finds kinds of pods by the labels that counters were asked for by.
type byLabel map[string]*labelIndex

// labelIndex is the kinds of pods with each value of a label key. It is filled in steps, from the last kind of all
// to the first: kinds that come meanwhile are in it from then on, and one that takes the place of a kind that goes is
// in it by then.
type labelIndex struct {
	key    string
	number int // of those before it
	with   map[string]*labelled
	left   int // of all kinds, those below this place were not looked at yet; 0: the index is complete
}

// labelled are the kinds with a value, and how many pods they have.
type labelled struct {
	index *labelIndex
	value string
	kinds map[*kind]struct{}
	pods  int
}

// add takes in a kind, unless it is there.
func (x *labelIndex) add(k *kind) {
	value, has := k.pods[0].object.Labels[x.key]
	if !has || x.number < len(k.found) && k.found[x.number] != nil {
		return
	}
	l := x.with[value]
	if l == nil {
		l = &labelled{index: x, value: value, kinds: map[*kind]struct{}{}}
		x.with[value] = l
	}
	for len(k.found) <= x.number {
		k.found = append(k.found, nil)
	}
	k.found[x.number] = l
	l.kinds[k] = struct{}{}
	l.pods += len(k.pods)
}

// count counts pods that have joined a kind or left it, and takes the kind out where none is left.
func (k *kind) count(pods int) {
	for _, l := range k.found {
		if l == nil {
			continue
		}
		l.pods += pods
		if len(k.pods) == 0 {
			delete(l.kinds, k)
		}
		if len(l.kinds) == 0 {
			delete(l.index.with, l.value)
		}
	}
}

// demanded are the kinds of the pods that may have all of some labels, by one of them. It is false where they are not found
// that way, or not yet, or are no fewer than all that may be looked at. A key that was not asked for before is
// looked up in all kinds once, where it is worth that: in most of them at once, and Index goes on.
func (c *Cache) demanded(list []selector.Demand, all, most int) (found []*kind, pods, steps int, by bool) {
	var best *labelIndex
	var values []string
	unknown := -1
	least := all
	for i, d := range list {
		index := c.labelled[d.Key]
		if index == nil {
			unknown = i
			continue
		}
		if index.left > 0 {
			continue
		}
		if n := index.count(d.Values); n < least {
			best, values, least = index, d.Values, n
		}
	}
	if unknown >= 0 && least > max(fewPods, len(c.pods)/fewPart) && len(c.labelled) < maxLabelKeys {
		index := c.newIndex(list[unknown].Key)
		if steps = c.index(index, most); index.left == 0 {
			best, values = index, list[unknown].Values
		}
	}
	if best == nil {
		return nil, 0, steps, false
	}
	for _, v := range values {
		if l := best.with[v]; l != nil {
			for k := range l.kinds {
				found = append(found, k)
			}
		}
	}
	return found, best.count(values), steps, true
}

// count is how many pods have one of some values.
func (x *labelIndex) count(values []string) (n int) {
	for _, v := range values {
		if l := x.with[v]; l != nil {
			n += l.pods
		}
	}
	return n
}

// newIndex begins to find kinds by a label key.
func (c *Cache) newIndex(key string) *labelIndex {
	x := &labelIndex{key: key, number: len(c.labelled), with: map[string]*labelled{}, left: len(c.kinds.all)}
	c.labelled[key] = x
	return x
}

// index looks at up to most kinds more.
func (c *Cache) index(x *labelIndex, most int) (steps int) {
	x.left = min(x.left, len(c.kinds.all))
	for ; x.left > 0 && steps < most; steps++ {
		x.left--
		x.add(c.kinds.all[x.left])
	}
	return steps
}

// Indexing tells whether there are label keys that not all pods are found by yet.
func (c *Cache) Indexing() bool {
	for _, index := range c.labelled {
		if index.left > 0 {
			return true
		}
	}
	return false
}

// Index looks at up to most kinds of pods for the label keys that Indexing tells of.
func (c *Cache) Index(most int) {
	for _, index := range c.labelled {
		most -= c.index(index, most)
	}
}
