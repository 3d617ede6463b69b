package queue

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeUpdated gives the events of a changed node: one for each property that matters, none
// for a heartbeat.
func NodeUpdated(old, now *v1.Node) []Event {
	var out []Event
	add := func(a Action, changed bool) {
		if changed {
			out = append(out, Event{resource: Node, action: a, oldNode: old, node: now})
		}
	}
	add(UpdateNodeTaint, old.Spec.Unschedulable && !now.Spec.Unschedulable)
	add(UpdateNodeAllocatable, !equality.Semantic.DeepEqual(old.Status.Allocatable, now.Status.Allocatable))
	add(UpdateNodeLabel, !maps.Equal(old.Labels, now.Labels))
	add(UpdateNodeTaint, !equality.Semantic.DeepEqual(old.Spec.Taints, now.Spec.Taints))
	add(UpdateNodeCondition, !maps.Equal(conditions(old), conditions(now)))
	add(UpdateNodeAnnotation, !maps.Equal(old.Annotations, now.Annotations))
	add(UpdateNodeDeclaredFeature, !slices.Equal(old.Status.DeclaredFeatures, now.Status.DeclaredFeatures))
	return out
}

// conditions maps a node's conditions to their status; when they were last seen does not
// matter.
func conditions(n *v1.Node) map[v1.NodeConditionType]v1.ConditionStatus {
	out := make(map[v1.NodeConditionType]v1.ConditionStatus, len(n.Status.Conditions))
	for i := range n.Status.Conditions {
		out[n.Status.Conditions[i].Type] = n.Status.Conditions[i].Status
	}
	return out
}

// AssignedPodUpdated gives the events of a changed pod on a node.
func AssignedPodUpdated(old, now *v1.Pod) []Event { return podUpdated(AssignedPod, old, now) }

// podUpdated names each property that changed; Update where it is none of those with a
// name.
func podUpdated(r Resource, old, now *v1.Pod) []Event {
	var out []Event
	add := func(a Action, changed bool) {
		if changed {
			out = append(out, Event{resource: r, action: a, oldPod: old, pod: now})
		}
	}
	add(UpdatePodLabel, !maps.Equal(old.Labels, now.Labels))
	add(UpdatePodScaleDown, !compile.SameUsage(old, now) && shrank(compile.Usage(old).GetRequests(), compile.Usage(now).GetRequests()))
	add(UpdatePodSchedulingGatesEliminated, len(old.Spec.SchedulingGates) > 0 && len(now.Spec.SchedulingGates) == 0)
	// A toleration can be added to a pod, and neither be changed nor removed.
	add(UpdatePodToleration, len(old.Spec.Tolerations) != len(now.Spec.Tolerations))
	add(UpdatePodGeneratedResourceClaim, !sameClaimStatuses(&old.Status, &now.Status))
	add(Update, len(out) == 0)
	return out
}

// sameClaimStatuses tells whether the ResourceClaims made for a pod are the same.
func sameClaimStatuses(a, b *v1.PodStatus) bool {
	return equality.Semantic.DeepEqual(a.ResourceClaimStatuses, b.ResourceClaimStatuses) &&
		equality.Semantic.DeepEqual(a.ExtendedResourceClaimStatus, b.ExtendedResourceClaimStatus)
}

// shrank tells whether less is asked of any resource.
func shrank(old, now *pb.Resources) bool {
	if now.GetMilliCpu() < old.GetMilliCpu() || now.GetMemoryBytes() < old.GetMemoryBytes() ||
		now.GetEphemeralStorageBytes() < old.GetEphemeralStorageBytes() {
		return true
	}
	for _, s := range old.GetScalars() {
		if scalar(now, s.Name) < s.Quantity {
			return true
		}
	}
	return false
}

// scalar is the amount of a scalar resource.
func scalar(r *pb.Resources, name string) int64 {
	list := r.GetScalars() // sorted, and a tenant says how many
	byName := func(s *pb.ScalarResource, name string) int { return strings.Compare(s.Name, name) }
	if i, found := slices.BinarySearchFunc(list, name, byName); found {
		return list[i].Quantity
	}
	return 0
}
