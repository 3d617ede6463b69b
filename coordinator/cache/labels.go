package cache

import (
	"iter"

	"github.com/shardsched/shardsched/coordinator/selector"
)

// maxLabelKeys is how many label keys pods are found by.
const maxLabelKeys = 16

// fewPods, or one of fewPart of all, are so few that they are looked at rather than found by another key.
const fewPods, fewPart = 256, 64

// podsByLabel finds pods by the labels that counters were asked for by.
type podsByLabel map[string]*labelIndex

// labelIndex is the pods with each value of a label key. It is filled in steps, from the last pod of all
// to the first: pods that come meanwhile are in it from then on, and one that takes the place of a pod that goes is
// in it by then.
type labelIndex struct {
	pods map[string]map[*pod]struct{}
	left int // of all pods, those below this place were not looked at yet; 0: the index is complete
}

func (x podsByLabel) add(p *pod) {
	for key, index := range x {
		index.add(key, p)
	}
}

func (x *labelIndex) add(key string, p *pod) {
	value, has := p.object.Labels[key]
	if !has {
		return
	}
	set := x.pods[value]
	if set == nil {
		set = map[*pod]struct{}{}
		x.pods[value] = set
	}
	set[p] = struct{}{}
}

func (x podsByLabel) remove(p *pod) {
	for key, index := range x {
		if value, has := p.object.Labels[key]; has {
			if set := index.pods[value]; set != nil {
				if delete(set, p); len(set) == 0 {
					delete(index.pods, value)
				}
			}
		}
	}
}

// demanded are the pods that may have all of some labels, by one of them; nil: they are not found that
// way, or not yet, or there are no fewer than all that may be looked at. A key that was not asked for before is
// looked up in all pods once, where it is worth that: in most of them at once, and Index goes on.
func (c *Cache) demanded(list []selector.Demand, all, most int) (found iter.Seq[*pod], steps int) {
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
		n := 0
		for _, v := range d.Values {
			n += len(index.pods[v])
		}
		if n < least {
			best, values, least = index, d.Values, n
		}
	}
	if unknown >= 0 && least > max(fewPods, len(c.pods)/fewPart) && len(c.labelled) < maxLabelKeys {
		key := list[unknown].Key
		index := &labelIndex{pods: map[string]map[*pod]struct{}{}, left: len(c.all)}
		c.labelled[key] = index
		if steps = c.index(key, index, most); index.left == 0 {
			best, values = index, list[unknown].Values
		}
	}
	if best == nil {
		return nil, steps
	}
	return func(yield func(*pod) bool) {
		for _, v := range values {
			for p := range best.pods[v] {
				// One whose object was changed in place may be left over.
				if c.all.has(p, ofAll) && !yield(p) {
					return
				}
			}
		}
	}, steps
}

// index looks at up to most pods more.
func (c *Cache) index(key string, x *labelIndex, most int) (steps int) {
	x.left = min(x.left, len(c.all))
	for ; x.left > 0 && steps < most; steps++ {
		x.left--
		x.add(key, c.all[x.left])
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

// Index looks at up to most pods for the label keys that Indexing tells of.
func (c *Cache) Index(most int) {
	for key, index := range c.labelled {
		most -= c.index(key, index, most)
	}
}
