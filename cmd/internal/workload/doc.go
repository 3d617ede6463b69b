// Package workload makes the pods that Kubernetes' controllers would make of
// their workloads, so that a chart can be scheduled without a controller manager.
//
//	Deployment ─▶ ReplicaSet ─▶ web-5d4f8c7b9-x2x8k     pod-template-hash
//	ReplicaSet, ReplicationController ─▶ web-x2x8k
//	StatefulSet ─▶ db-0, db-1 …                         apps.kubernetes.io/pod-index
//	          └──▶ claims data-db-0, data-db-1 …        one of each claim template
//	DaemonSet ─▶ one a node that it may run on, tied to it by node affinity
//	Job ─▶ as many as run at once; Indexed: job-0-x2x8k, job-1-…
//	CronJob ─▶ the pods of one Job
//
// Names, labels, owner references, hostnames and tolerations are in shape those of
// the controllers. What controllers draw at random (name endings, UIDs) or take
// from their own hash of a template is here a hash of the content, so the same
// input gives the same pods on every run, and applying a manifest twice
// changes nothing.
//
// An Expander knows the objects around a workload. Where the input, a cluster
// dump, holds pods of the workload already, only the missing ones are made; a
// Deployment whose ReplicaSet, or a CronJob whose Job, is in the input leaves it to that. Running tells of those, for a
// workload that is not the cluster's own object but a change of it: what would become of its pods is not known here.
// Who owns a pod is made with it, or is the workload itself: the scheduler spreads pods by
// their owner's selector.
//
// Differs from upstream: template hashes are not the controllers' own, so a pod
// made here and one made by a cluster from the same template have different names.
package workload
