package build

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Member makes the pod a member of a pod group of its namespace.
func (b *PodBuilder) Member(group string) *PodBuilder {
	b.pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	return b
}

// PodGroupBuilder makes a pod group.
type PodGroupBuilder struct {
	group *schedulingv1alpha2.PodGroup
}

// PodGroup starts a pod group of the basic policy in the default namespace. Its UID is its name.
func PodGroup(name string) *PodGroupBuilder {
	return &PodGroupBuilder{&schedulingv1alpha2.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, UID: types.UID(name), Generation: 1},
		Spec: schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{
			Basic: &schedulingv1alpha2.BasicSchedulingPolicy{},
		}},
	}}
}

// Gang starts a pod group of which so many members or none are placed.
func Gang(name string, minCount int32) *PodGroupBuilder {
	b := PodGroup(name)
	b.group.Spec.SchedulingPolicy = schedulingv1alpha2.PodGroupSchedulingPolicy{
		Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: minCount},
	}
	return b
}

// Namespace sets the namespace.
func (b *PodGroupBuilder) Namespace(name string) *PodGroupBuilder {
	b.group.Namespace = name
	return b
}

// Within has the members share a domain: nodes with one value of a label.
func (b *PodGroupBuilder) Within(key string) *PodGroupBuilder {
	b.group.Spec.SchedulingConstraints = &schedulingv1alpha2.PodGroupSchedulingConstraints{
		Topology: []schedulingv1alpha2.TopologyConstraint{{Key: key}},
	}
	return b
}

// Priority sets the priority that counts where the pod group preempts.
func (b *PodGroupBuilder) Priority(p int32) *PodGroupBuilder {
	b.group.Spec.Priority = &p
	return b
}

// Whole has the members leave together where they are preempted.
func (b *PodGroupBuilder) Whole() *PodGroupBuilder {
	mode := schedulingv1alpha2.DisruptionModePodGroup
	b.group.Spec.DisruptionMode = &mode
	return b
}

// Annotation sets an annotation.
func (b *PodGroupBuilder) Annotation(key, value string) *PodGroupBuilder {
	metav1.SetMetaDataAnnotation(&b.group.ObjectMeta, key, value)
	return b
}

// Obj is the pod group.
func (b *PodGroupBuilder) Obj() *schedulingv1alpha2.PodGroup { return b.group }
