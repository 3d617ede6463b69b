// Package cluster keeps the objects, beside nodes and pods, that decide which pods belong
// together: namespaces with their labels, and what upstream derives default topology
// spreading from: Services, ReplicationControllers, ReplicaSets and StatefulSets.
//
//	Namespaces        names and labels; those that a selector matches
//	DefaultSelector   the selector of the pods that a pod shares its Services and its
//	                  controller with
//	Budgets           the PodDisruptionBudgets, and which pods each counts
//
// # DefaultSelector
//
//	Services of the pod's namespace whose selector matches the pod: their labels, together
//	+ the pod's controller:  ReplicationController   its labels, taking the place of equal keys
//	                         ReplicaSet, StatefulSet its selector's requirements
//	= all of it must hold; nothing at all: no selector
//
// A Service whose selector is nil matches no pod. A controller that is not known, of
// another kind or API version, or with a selector that can not be read adds nothing.
//
// Services are found by the pod's labels (package selector), and answers are kept by what
// the Services' selectors see of these labels, so a pod costs one look-up whatever number
// of Services there is.
//
// A Cluster belongs to one goroutine, the scheduling loop's.
package cluster
