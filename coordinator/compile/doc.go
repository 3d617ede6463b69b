// Package compile turns Kubernetes objects into the messages that a table
// understands: a v1.Node into a row, a v1.Pod into what it takes of its node,
// and a pending v1.Pod with its profile into a query. It is what upstream's
// PreFilter and PreScore are: whatever does not depend on a single node is
// worked out here, once per class, and the workers never see a Kubernetes type.
//
//	v1.Node ──Node──> pb.Node          a row's own columns
//	v1.Pod ──Usage──> pb.PodUsage      what a pod adds to its row
//	v1.Pod ┐
//	Profile├──Class──> Class{Query}    filters and scores, in upstream's order
//	ClusterState  ┘
//
// # Class identity
//
// Pods with the same scheduling-relevant spec are one class. Equal queries have the
// same Query.class_id, a number that a compiler gives to no other query. A query that changed (an
// image spread to one more node, a label that two nodes come to share) is another class. What no rule reads plays no
// part: the pod's name, annotations and priority, a toleration's seconds, a container's
// limits, the order of tolerations, host ports and label values.
//
// Of a pod's labels only this counts: which Services select it, which terms of other
// pods match it, whether its own selectors do, and the values of its matchLabelKeys. So
// the pods of a StatefulSet, each with a label of its own, are one class.
//
// Compiling costs tens of microseconds, so a Compiler keeps what it made, in two steps:
//
//	signature  what rules read of the spec, as bytes ──> plan   shared by all namespaces
//	                                                     │
//	setting    what the cluster says to the plan, and    ▼
//	           what counts of the labels, as bytes   ──> class
//
// Plans of pods that differ only in what they request share an outline. The first class of an outline and a setting, the original, is
// compiled from scratch. The others are variants of it: they share all with it but their requests, and only these are sent to workers
// (pb.Variant). A pod with claims, and a class with groups, is compiled from scratch each time.
//
// Two signatures or settings may lead to the same query (1Gi and 1024Mi), never the
// other way round. A setting is found out anew for each pod: it takes a few look-ups, of
// which each keeps its answers itself (packages count and cluster).
//
// # Groups
//
// PodTopologySpread and InterPodAffinity look at other pods. Their numbers are counters
// (package count), and a query says where each constraint finds its own:
//
//	domain     the label's value is part of a group's key; a measure adds the counters up
//	           over each value's nodes
//	row value  no two nodes share the label's values: the row's own number is part of the key
//
// Which of the two a label is, the cluster decides at the time: with the first two nodes
// that share a value the class is another. The verdict is the same either way. The soft
// constraint on the hostname is always a row value, as upstream counts it.
//
// # Volumes
//
// What the volume plugins make of a pod's claims and disks is worked out from the storage
// (Volumes), and kept for as long as that stays at its version:
//
//	disks, claims for one pod   counters of their keys (package count)
//	limits of drivers           counters of what is attached, kept by the storage
//	bound claims                their volumes' node affinities
//	unbound claims              the volumes that they may take, in order; else where one can
//	                            be made, and has room
//
// A class that rests on unbound claims, or on volumes that are not counted yet, is Volatile:
// placing another pod may change it, so it is compiled for one pod and not kept.
//
// # Requests
//
// The same pod asks for four different amounts, as in upstream:
//
//	               pod-level  status     100m, 200Mi
//	               resources  resources  defaults
//	Fit, filter    yes        no         no
//	Fit, score     no         no         yes
//	Balanced       yes        yes        no
//	Usage          yes        yes        no; apart, in the non-zero columns
//
// Quantities are summed exactly and rounded up once per pod.
//
// Differs from upstream: an amount below zero counts as zero, and one above
// MaxAmount as MaxAmount, so that no sum or product of the score formulas
// overflows. The API server lets no negative amount through; upstream's
// arithmetic wraps round for the others.
//
// Differs from upstream: host ports above 65535 or with an unknown protocol, taints
// without a key, taints and tolerations with an unknown effect, and texts of more
// than 4 KiB are left out: no API server lets them through.
//
// Differs from upstream: a preferred term with a weight outside 1 to 100 is an error
// of PreScore, and NodeResourcesFit's strategy may name a resource only once.
//
// Differs from upstream: a skew or a number of domains below 1 counts as 1, a preferred
// term's weight as one from 0 to 100, and a pod whose own terms and constraints name more than 64
// topology keys that nodes have, or are more than 256 of such keys, is not scheduled.
package compile
