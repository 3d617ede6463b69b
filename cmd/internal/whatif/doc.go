// Package whatif tells what a change of a cluster would come to. It plays the controllers of Kubernetes, step by step, beside a
// scheduler that it does not know: the caller hands events to the scheduler, waits until the scheduler rests, and tells what became of
// the pods.
//
//	        Snapshot                        Load
//	input ───────────> Cluster ──────────────────────────> scheduler
//	                   │  ^   Step: events, none at the end    │  ^
//	                   │  └─────── Bound, Refused, Preempted ──┘  │
//	                   └──────────────────────────────────────────┘
//	        Report: before and after, by workload
//
// The order of a run:
//
//	New        what is there: nodes, pods, objects, and the workloads that the dump has
//	Step …     until nothing happens: pods that are pending find nodes, rollouts that are under way go on
//	Mark       "before" is now
//	Apply      the change: workloads, objects, pods, nodes that come, change or go
//	Step …     until nothing happens
//	Report     what the change has come to
//
// # Words
//
//	there       what the cluster has: objects with a UID, pods with a node, and all nodes
//	change      what the input asks for besides
//	workload    what makes pods: a Deployment, a StatefulSet … or a controller that is known by its pods alone
//	step        one move of each workload's controller: a rolling update makes or deletes some pods and then waits for the scheduler
//	ready       a pod that is on a node, unless the dump says that it is not ready
//	lost        a pod that left against its workload's will: preempted, evicted, or gone with its node. Its workload makes another
//	turn        when a workload makes up for lost pods: a ReplicaSet first, a StatefulSet once they have stopped, a Job after its backoff
//	stuck       a rollout that is not over, and that no step takes further
//
// Pods are ready as soon as they are on a node, and gone as soon as they are deleted. Time does not pass: no probe fails, no
// minReadySeconds or progressDeadlineSeconds runs.
//
// A template of the change replaces the one that is there. It is another one where a field differs from what the API server would
// have made of it, see sameTemplate; replicas that the change does not name stay as they are, for an autoscaler may set them.
package whatif
