package queue

import "github.com/shardsched/shardsched/coordinator/compile"

// dynamicResources refuses every pod with resource claims, so that it waits for nothing but an update of the pod.
func dynamicResources() Plugin {
	return Plugin{Name: compile.DynamicResources, Events: []Registration{
		{Resource: PendingPod, Actions: anyPodUpdate, Helps: losesClaims},
	}}
}

// losesClaims: the pod itself has no resource claims any more.
func losesClaims(p *Pod, e *Event) bool { return isOwn(p, e) && len(e.pod.Spec.ResourceClaims) == 0 }
