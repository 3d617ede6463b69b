package storage

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ClassOfVolume is the name of the class that a volume belongs to, or "".
func ClassOfVolume(pv *v1.PersistentVolume) string {
	if name, ok := pv.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return pv.Spec.StorageClassName
}

// NamesClaim tells whether a volume's claimRef is a claim's: bound to it, or meant for it.
func NamesClaim(pv *v1.PersistentVolume, c *v1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Name == c.Name && ref.Namespace == c.Namespace && (ref.UID == "" || ref.UID == c.UID)
}

// Matcher tells which volumes are of the kind that a claim asks for. It is made once for the
// claim, which may look at tens of thousands of volumes.
type Matcher struct {
	size       resource.Quantity
	mode       v1.PersistentVolumeMode
	attributes string
	access     []v1.PersistentVolumeAccessMode
	selector   labels.Selector
}

// NewMatcher reads a claim. The error is upstream's, for a selector that is none.
func NewMatcher(c *v1.PersistentVolumeClaim) (*Matcher, error) {
	m := &Matcher{
		size:       RequestOf(c),
		mode:       or(c.Spec.VolumeMode, v1.PersistentVolumeFilesystem),
		attributes: or(c.Spec.VolumeAttributesClassName, ""),
		access:     c.Spec.AccessModes,
		selector:   labels.Everything(),
	}
	if c.Spec.Selector == nil {
		return m, nil
	}
	var err error
	if m.selector, err = metav1.LabelSelectorAsSelector(c.Spec.Selector); err != nil {
		return nil, fmt.Errorf("error creating internal label selector for claim: %s/%s: %w", c.Namespace, c.Name, err)
	}
	return m, nil
}

// Fits is what holds even for a volume that is meant for the claim: it is large enough, and
// of the claim's mode and attributes.
func (m *Matcher) Fits(pv *v1.PersistentVolume) bool {
	size := pv.Spec.Capacity[v1.ResourceStorage]
	return size.Cmp(m.size) >= 0 &&
		or(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem) == m.mode &&
		or(pv.Spec.VolumeAttributesClassName, "") == m.attributes
}

// Selects is what has to hold for the others beside: the claim's selector matches, and the
// volume has all of its access modes.
func (m *Matcher) Selects(pv *v1.PersistentVolume) bool {
	if !m.selector.Matches(labels.Set(pv.Labels)) {
		return false
	}
	for _, mode := range m.access {
		if !slices.Contains(pv.Spec.AccessModes, mode) {
			return false
		}
	}
	return true
}

// Zones are the zones or regions that a volume's label lists, "__" between them: sorted, each
// once; nil where one of them is empty, which upstream can not read.
func Zones(label string) []string {
	out := strings.Split(label, "__")
	for i := range out {
		if out[i] = strings.TrimSpace(out[i]); out[i] == "" {
			return nil
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
