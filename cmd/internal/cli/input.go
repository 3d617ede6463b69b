package cli

import (
	v1 "k8s.io/api/core/v1"
)

// Input is what files stand for, in the order in which it was written: objects
// as they are, workloads as the pods that their controllers would make.
type Input struct {
	Namespaces []*v1.Namespace
	Nodes      []*v1.Node
	// Pods have their priority resolved and, where the file gave none, a UID made
	// from namespace and name.
	Pods []*v1.Pod
}
