package volumes

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// pin is a label that a node must have for a volume: what a local volume's node affinity
// comes down to. Empty: there is no such label.
type pin struct{ key, value string }

// pinOf finds a label without which the volume's node affinity does not match. It need
// not be all of the affinity.
func pinOf(pv *v1.PersistentVolume) pin {
	a := pv.Spec.NodeAffinity
	if a == nil || a.Required == nil || len(a.Required.NodeSelectorTerms) != 1 {
		return pin{}
	}
	for i := range a.Required.NodeSelectorTerms[0].MatchExpressions {
		e := &a.Required.NodeSelectorTerms[0].MatchExpressions[i]
		if e.Operator == v1.NodeSelectorOpIn && len(e.Values) == 1 && e.Key != "" {
			return pin{e.Key, e.Values[0]}
		}
	}
	return pin{}
}

// shelf holds the volumes of one storage class that an unbound claim may take.
type shelf struct {
	all ordered
	// pinned are the same volumes by pin: a node finds its own without a walk.
	pinned map[pin]*ordered
	// keys counts the pins of each key.
	keys map[string]int
}

func (s *shelf) insert(v *volume) {
	s.all.insert(v)
	at := s.pinned[v.pin]
	if at == nil {
		at = &ordered{}
		s.pinned[v.pin] = at
		s.keys[v.pin.key]++
	}
	at.insert(v)
}

func (s *shelf) remove(v *volume) {
	s.all.remove(v)
	at := s.pinned[v.pin]
	at.remove(v)
	if len(at.list) > 0 {
		return
	}
	delete(s.pinned, v.pin)
	if s.keys[v.pin.key]--; s.keys[v.pin.key] == 0 {
		delete(s.keys, v.pin.key)
	}
}

// smallest finds the first volume, from a size on, that suits a node.
func (s *shelf) smallest(node *v1.Node, size *resource.Quantity, suits func(*volume) bool) *volume {
	var best *volume
	for key := range s.keys {
		value, labelled := node.Labels[key]
		if key != "" && !labelled {
			continue
		}
		list := s.pinned[pin{key, value}]
		if key == "" {
			list = s.pinned[pin{}]
		}
		if list == nil {
			continue
		}
		for _, v := range list.from(size) {
			if best != nil && compareVolumes(best, v) < 0 {
				break
			}
			if suits(v) {
				best = v
				break
			}
		}
	}
	return best
}

// ordered is a list of volumes, smallest first. Until it is first read it is filled
// without being sorted, so that loading a cluster costs one sort.
type ordered struct {
	list []*volume
	read bool // sorted from then on
}

// compareVolumes is the order in which volumes are tried.
//
// Differs from upstream: of volumes of one size upstream takes any, we the first by name.
func compareVolumes(a, b *volume) int {
	if c := a.size.Cmp(b.size); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}

func (o *ordered) sort() {
	if !o.read {
		slices.SortFunc(o.list, compareVolumes)
		o.read = true
	}
}

func (o *ordered) insert(v *volume) {
	if !o.read {
		o.list = append(o.list, v)
		return
	}
	i, _ := slices.BinarySearchFunc(o.list, v, compareVolumes)
	o.list = slices.Insert(o.list, i, v)
}

func (o *ordered) remove(v *volume) {
	o.sort()
	if i, found := slices.BinarySearchFunc(o.list, v, compareVolumes); found {
		o.list = slices.Delete(o.list, i, i+1)
	}
}

// from is the part of the list that has the size or more.
func (o *ordered) from(size *resource.Quantity) []*volume {
	o.sort()
	i, _ := slices.BinarySearchFunc(o.list, size, func(v *volume, size *resource.Quantity) int {
		if v.size.Cmp(*size) < 0 {
			return -1
		}
		return 1
	})
	return o.list[i:]
}
