package cache

import (
	"iter"
	"maps"

	"github.com/shardsched/shardsched/coordinator/selector"
)

// maxLabelKeys is how many label keys pods are found by.
const maxLabelKeys = 16

// fewPods, or one of fewPart of all, are so few that they are looked at rather than found by another key.
const fewPods, fewPart = 256, 64

// podsByLabel finds pods by the labels that counters were asked for by: of each of those keys the pods
// with each value.
type podsByLabel map[string]map[string]map[*pod]struct{}

func (x podsByLabel) add(p *pod) {
	for key, values := range x {
		if value, has := p.object.Labels[key]; has {
			set := values[value]
			if set == nil {
				set = map[*pod]struct{}{}
				values[value] = set
			}
			set[p] = struct{}{}
		}
	}
}

func (x podsByLabel) remove(p *pod) {
	for key, values := range x {
		if value, has := p.object.Labels[key]; has {
			if set := values[value]; set != nil {
				if delete(set, p); len(set) == 0 {
					delete(values, value)
				}
			}
		}
	}
}

// demanded are the pods that may have all of some labels, by one of them; nil: they are not found that
// way, or there are no fewer than all that may be looked at. A key that was not asked for before is looked
// up in all pods once, where it is worth that.
func (c *Cache) demanded(list []selector.Demand, all int) iter.Seq[*pod] {
	var best map[string]map[*pod]struct{}
	var values []string
	unknown := -1
	least := all
	for i, d := range list {
		byValue, known := c.labelled[d.Key]
		if !known {
			unknown = i
			continue
		}
		n := 0
		for _, v := range d.Values {
			n += len(byValue[v])
		}
		if n < least {
			best, values, least = byValue, d.Values, n
		}
	}
	if unknown >= 0 && least > max(fewPods, len(c.pods)/fewPart) && len(c.labelled) < maxLabelKeys {
		best, values = c.labelledBy(list[unknown].Key), list[unknown].Values
	}
	if best == nil {
		return nil
	}
	return func(yield func(*pod) bool) {
		for _, v := range values {
			for p := range best[v] {
				// One whose object was changed in place may be left over.
				if c.pods[p.object.UID] == p && !yield(p) {
					return
				}
			}
		}
	}
}

// labelledBy has pods found by a key from now on.
func (c *Cache) labelledBy(key string) map[string]map[*pod]struct{} {
	one := podsByLabel{key: {}}
	for p := range maps.Values(c.pods) {
		one.add(p)
	}
	c.labelled[key] = one[key]
	return one[key]
}
