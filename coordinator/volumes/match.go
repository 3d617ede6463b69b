package volumes

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/shardsched/shardsched/coordinator/storage"
)

// delayed tells whether a claim is bound when its first pod is placed.
func (c *Cache) delayed(pvc *v1.PersistentVolumeClaim) (bool, error) {
	name := storage.ClassOf(pvc)
	class := c.classes[name]
	if name == "" || class == nil {
		return false, nil
	}
	return storage.BindsLate(class)
}

// match finds the volume that a claim takes on a node: the one that is meant for it, else
// the smallest that suits. nil: there is none.
func (c *Cache) match(pvc *v1.PersistentVolumeClaim, m *storage.Matcher, node *v1.Node, taken set[*volume]) *volume {
	class := storage.ClassOf(pvc)
	var meant *volume
	for _, v := range c.reserved[keyOf(pvc)] {
		_, used := taken[v]
		if v.offered && !used && v.class == class && m.Fits(v.latest()) && (meant == nil || compareVolumes(v, meant) < 0) {
			meant = v
		}
	}
	if meant != nil {
		if !reaches(meant.latest(), node) {
			return nil
		}
		return meant
	}
	volumes := c.byClass[class]
	if volumes == nil {
		return nil
	}
	size := storage.RequestOf(pvc)
	return volumes.smallest(node, &size, func(v *volume) bool {
		pv := v.latest()
		_, used := taken[v]
		return !used && pv.Spec.ClaimRef == nil && m.Fits(pv) && m.Selects(pv) && reaches(pv, node)
	})
}

// reaches tells whether a volume's node affinity lets it be used on a node. As upstream,
// only the node's labels are looked at.
func reaches(pv *v1.PersistentVolume, node *v1.Node) bool {
	return unreachable(pv, node) == nil
}

func unreachable(pv *v1.PersistentVolume, node *v1.Node) error {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	labelled := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: node.Labels}}
	ok, err := corev1.MatchNodeSelectorTerms(labelled, pv.Spec.NodeAffinity.Required)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("no matching NodeSelectorTerms")
	}
	return nil
}

// provisionable tells why no volume can be made for a claim on a node: the reason, as
// upstream's filter words it, or an error.
func (c *Cache) provisionable(pvc *v1.PersistentVolumeClaim, node *v1.Node) error {
	name := storage.ClassOf(pvc)
	class := c.classes[name]
	switch {
	case name == "":
		return fmt.Errorf("no class for claim %q", keyOf(pvc))
	case class == nil:
		return fmt.Errorf("failed to find storage class %q", name) // upstream's text
	case !storage.Provisions(class) || !inTopology(class.AllowedTopologies, node):
		return errNoVolume
	case !c.roomFor(pvc, class, node):
		return errNoSpace
	}
	return nil
}

// inTopology tells whether a node is in one of a storage class's topologies; where there
// are none, it is.
func inTopology(terms []v1.TopologySelectorTerm, node *v1.Node) bool {
	for i := range terms {
		matched := len(terms[i].MatchLabelExpressions) > 0
		for _, e := range terms[i].MatchLabelExpressions {
			r, err := labels.NewRequirement(e.Key, selection.In, e.Values)
			matched = matched && err == nil && r.Matches(labels.Set(node.Labels))
		}
		if matched {
			return true
		}
	}
	return len(terms) == 0
}

// roomFor tells whether the provisioner has room for a claim within the node's reach, as
// far as its driver tells.
func (c *Cache) roomFor(pvc *v1.PersistentVolumeClaim, class *storagev1.StorageClass, node *v1.Node) bool {
	size, ok := pvc.Spec.Resources.Requests[v1.ResourceStorage]
	if !ok || !storage.TellsCapacity(c.csiDrivers[class.Provisioner]) {
		return true
	}
	for _, capacity := range c.capacities[class.Name] {
		if storage.HasRoom(capacity.CSIStorageCapacity, &size) && capacity.segment.Matches(labels.Set(node.Labels)) {
			return true
		}
	}
	return false
}
