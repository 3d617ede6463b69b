package groups

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"
)

// Spec is what a PodGroup says.
type Spec struct {
	Name       types.NamespacedName
	UID        types.UID
	Generation int64
	Object     *v1alpha2.PodGroup // as read, for its conditions and events
	// Gang: the policy is gang, and at least MinCount members start or none; otherwise it is basic.
	Gang     bool
	MinCount int
	// Constrained: there are schedulingConstraints, though they may name no topology.
	Constrained bool
	// TopologyKey is the label of nodes that all members are to have one value of; "": none.
	TopologyKey string
	// Whole: the disruptionMode is PodGroup, so that preemption takes all members or none.
	Whole bool
	// Priority is the PodGroup's own, 0 where it has none. Its pods may have others.
	Priority int32
	Claims   []v1alpha2.PodGroupResourceClaim
	Asks     Asks
}

// SpecOf reads a PodGroup. With an error, which names the annotation, all but the Spec's Asks is set.
func SpecOf(obj *v1alpha2.PodGroup) (*Spec, error) {
	s := &Spec{
		Name: types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}, UID: obj.UID, Generation: obj.Generation, Object: obj,
		Constrained: obj.Spec.SchedulingConstraints != nil, Claims: obj.Spec.ResourceClaims,
	}
	if gang := obj.Spec.SchedulingPolicy.Gang; gang != nil {
		s.Gang, s.MinCount = true, int(gang.MinCount)
	}
	if c := obj.Spec.SchedulingConstraints; c != nil && len(c.Topology) > 0 {
		s.TopologyKey = c.Topology[0].Key
	}
	if mode := obj.Spec.DisruptionMode; mode != nil {
		s.Whole = *mode == v1alpha2.DisruptionModePodGroup
	}
	if p := obj.Spec.Priority; p != nil {
		s.Priority = *p
	}
	asks, err := asksOf(obj.Annotations)
	if err == nil {
		s.Asks = asks
	}
	return s, err
}

// Same tells whether two versions of a PodGroup say the same. Their status plays no part.
func Same(a, b *v1alpha2.PodGroup) bool {
	return a.UID == b.UID && a.Generation == b.Generation && maps.Equal(a.Annotations, b.Annotations)
}

// NameOf is the PodGroup that a pod names; false: none.
func NameOf(p *v1.Pod) (types.NamespacedName, bool) {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil && *g.PodGroupName != "" {
		return types.NamespacedName{Namespace: p.Namespace, Name: *g.PodGroupName}, true
	}
	return types.NamespacedName{}, false
}
