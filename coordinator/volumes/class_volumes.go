package volumes

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// nodeLabel is a label that a node must have for a volume, as a local volume's node affinity
// requires it. Empty: there is no such label.
type nodeLabel struct{ key, value string }

// requiredLabel finds a label without which the volume's node affinity does not match. It need
// not be all of the affinity.
func requiredLabel(pv *v1.PersistentVolume) nodeLabel {
	a := pv.Spec.NodeAffinity
	if a == nil || a.Required == nil || len(a.Required.NodeSelectorTerms) != 1 {
		return nodeLabel{}
	}
	for i := range a.Required.NodeSelectorTerms[0].MatchExpressions {
		e := &a.Required.NodeSelectorTerms[0].MatchExpressions[i]
		if e.Operator == v1.NodeSelectorOpIn && len(e.Values) == 1 && e.Key != "" {
			return nodeLabel{e.Key, e.Values[0]}
		}
	}
	return nodeLabel{}
}

// classVolumes holds the volumes of one storage class that an unbound claim may take.
type classVolumes struct {
	all ordered
	// byLabel has the same volumes by the label that they require: a node finds its own without a walk.
	byLabel map[nodeLabel]*ordered
	// keys counts the labels in byLabel, by key.
	keys map[string]int
}

func (s *classVolumes) insert(v *volume) {
	s.all.insert(v)
	at := s.byLabel[v.label]
	if at == nil {
		at = &ordered{}
		s.byLabel[v.label] = at
		s.keys[v.label.key]++
	}
	at.insert(v)
}

func (s *classVolumes) remove(v *volume) {
	s.all.remove(v)
	at := s.byLabel[v.label]
	at.remove(v)
	if len(at.list) > 0 {
		return
	}
	delete(s.byLabel, v.label)
	if s.keys[v.label.key]--; s.keys[v.label.key] == 0 {
		delete(s.keys, v.label.key)
	}
}

// smallest finds the first volume, from a size on, that suits a node.
func (s *classVolumes) smallest(node *v1.Node, size *resource.Quantity, suits func(*volume) bool) *volume {
	var best *volume
	for key := range s.keys {
		value, labelled := node.Labels[key]
		if key != "" && !labelled {
			continue
		}
		list := s.byLabel[nodeLabel{key, value}]
		if key == "" {
			list = s.byLabel[nodeLabel{}]
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
