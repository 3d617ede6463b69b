// Package nominees tells which pods that come before the pod at hand are nominated to which nodes, and what these pods would
// take there.
//
// Pods that are nominated to a node, usually because victims are leaving it for them, keep their room against pods of no
// higher priority: the node has to take a pod both with them and without them (upstream's
// RunFilterPluginsWithNominatedPods). As upstream's, a plugin that has nothing to do for a pod without the nominated pods
// does not see these either, and what a plugin counts of nominated pods is not always what it counts of pods that are there.
//
// # Words
//
//	nomination      a pending pod is nominated to a node: it is to get room there
//	nominated pod   a pod with a nomination
//	nominee         the nominated pods of one node that come before the pod at hand, as the decision engine and dry runs of
//	                preemption know them
//	viewer          what nominees depend on, of the pod at hand: pods of one viewer share them
//
// # What is kept
//
//	Cache ── viewer ──> nodes: the nominee of each, as of the node's last change of nominations
//	                └─> list:  all of them, as of the last change of any nomination
//
// A nominee is the same pointer as long as it stands for the same pods: the engine and dry runs go by that, and judge a row
// again only where the pointer is another one.
package nominees
