package queue

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manyParts is how many parts of a pod hints look at for one event: whoever creates pods says how many they have, and
// an event may be held against all pods.
const manyParts = 256

// likenessOfLong is that of all pods with more parts: their lists are not read.
var likenessOfLong = likeness{1}

// isLong tells whether the pod has more parts. Each event that one of its plugins waits for helps it.
//
// Differs from upstream: such a pod is tried again for events that do not help it.
func (p *Pod) isLong() bool {
	if p.parsed.parts == 0 {
		p.parsed.parts = 1 + partsOf(&p.Obj.Spec)
	}
	return p.parsed.parts > 1+manyParts
}

// partsOf counts what hints walk of a pod.
func partsOf(s *v1.PodSpec) int {
	n := len(s.Tolerations) + len(s.NodeSelector) + len(s.Volumes) + len(s.ResourceClaims)
	for i := range s.Volumes {
		if disk := s.Volumes[i].RBD; disk != nil {
			n += len(disk.CephMonitors)
		}
	}
	for _, list := range [...][]v1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			n += len(list[i].Resources.Requests)
		}
	}
	for i := range s.TopologySpreadConstraints {
		c := &s.TopologySpreadConstraints[i]
		n += 1 + len(c.MatchLabelKeys) + partsOfSelector(c.LabelSelector)
	}
	if a := s.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			n++
			for _, list := range [...][]v1.NodeSelectorRequirement{t.MatchExpressions, t.MatchFields} {
				for i := range list {
					n += 1 + len(list[i].Values)
				}
			}
		}
	}
	return n + partsOfTerms(affinityOf(s.Affinity)) + partsOfTerms(antiAffinityOf(s.Affinity))
}

func partsOfTerms(list []v1.PodAffinityTerm) (n int) {
	for i := range list {
		n += 1 + len(list[i].Namespaces) + partsOfSelector(list[i].NamespaceSelector) + partsOfSelector(list[i].LabelSelector)
	}
	return n
}

func partsOfSelector(s *metav1.LabelSelector) int {
	if s == nil {
		return 0
	}
	n := len(s.MatchLabels)
	for i := range s.MatchExpressions {
		n += 1 + len(s.MatchExpressions[i].Values)
	}
	return n
}
