package queue

import (
	v1 "k8s.io/api/core/v1"
)

// CELFilter is the name of the plugin that filters by expressions.
const CELFilter = "CELFilter"

// expressionReader is what Profiles may tell of a profile's expressions besides.
type expressionReader interface {
	// CELReadsPods tells whether an expression of CELFilter reads what the pods of a node add up
	// to.
	CELReadsPods(pod *v1.Pod) bool
}

// celFilter waits for nodes that changed, for the pod itself to change, and where an expression
// reads what the pods of a node add up to, for pods to go or to shrink. What an expression reads
// of a node's images, nobody waits for: they change all the time.
func celFilter(profiles Profiles) Plugin {
	reader, _ := profiles.(expressionReader)
	readsPods := func(p *Pod) bool { return reader == nil || reader.CELReadsPods(p.Obj) }
	return Plugin{Name: CELFilter, Local: true, Events: []Registration{
		{Resource: Node, Actions: Add | UpdateNodeAllocatable | UpdateNodeLabel | UpdateNodeTaint | UpdateNodeAnnotation},
		{Resource: AnyPod, Actions: Delete, If: freesRoom, Helps: func(p *Pod, _ *Event) bool { return readsPods(p) }},
		{Resource: AnyPod, Actions: anyPodUpdate, Helps: func(p *Pod, e *Event) bool {
			return isOwn(p, e) || e.resource == AssignedPod && e.action == UpdatePodScaleDown && readsPods(p)
		}},
	}}
}
