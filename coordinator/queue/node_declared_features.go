package queue

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// nodeDeclaredFeatures waits for nodes whose features are others than before, and for the
// pod to need others.
func nodeDeclaredFeatures() Plugin {
	return Plugin{Name: "NodeDeclaredFeatures", Events: []Registration{
		{Resource: Node, Actions: Add | UpdateNodeDeclaredFeature, If: declaresOthers},
		{Resource: AnyPod, Actions: anyPodUpdate, Helps: needsOthers},
	}}
}

// declaresOthers: the node is new or declares other features than before. Whether they are
// those that a pod needs is not asked.
func declaresOthers(e *Event) bool {
	return e.oldNode == nil || !slices.Equal(e.oldNode.Status.DeclaredFeatures, e.node.Status.DeclaredFeatures)
}

// needsOthers: the pod itself needs other features than before.
func needsOthers(p *Pod, e *Event) bool {
	return isOwn(p, e) && neededFeatures(&e.oldPod.Spec) != neededFeatures(&e.pod.Spec)
}

// features are those that a pod may need of its node.
type features struct {
	restartAllContainers, userNamespacesHostNetwork bool
}

func neededFeatures(s *v1.PodSpec) features {
	restarts := func(c v1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		})
	}
	return features{
		restartAllContainers:      slices.ContainsFunc(s.Containers, restarts) || slices.ContainsFunc(s.InitContainers, restarts),
		userNamespacesHostNetwork: s.HostNetwork && s.HostUsers != nil && !*s.HostUsers,
	}
}
