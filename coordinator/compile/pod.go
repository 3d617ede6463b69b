package compile

import (
	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Priority is a pod's priority; a pod without one has 0.
func Priority(p *v1.Pod) int32 {
	if p.Spec.Priority != nil {
		return *p.Spec.Priority
	}
	return 0
}

// IsTerminal tells whether a pod has run to its end and takes nothing any more.
func IsTerminal(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// Usage is what a pod takes of its node, as NodeInfo counts it.
func Usage(p *v1.Pod) *pb.PodUsage { return &pb.PodUsage{} }

// Node is a node as its row knows it.
func Node(n *v1.Node) *pb.Node { return &pb.Node{} }
