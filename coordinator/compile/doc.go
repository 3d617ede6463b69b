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
//	Images ┘
//
// # Class identity
//
// Pods with the same scheduling-relevant spec are one class. Query.class_id is a
// hash of the query's own encoding, so it is the same whichever leader compiled
// it, and a query that changed (an image spread to one more node) is another
// class. What no rule reads plays no part: the pod's name, labels, annotations
// and priority, a toleration's seconds, a container's limits, the order of
// tolerations, host ports and label values.
//
// Compiling costs tens of microseconds, so a Compiler interns. It writes the
// fields that rules read into a byte string, the pod's signature, and keeps the
// classes of recent signatures. Two signatures may lead to the same query (1Gi
// and 1024Mi), never the other way round.
//
// # Volumes
//
// What becomes of a pod's claims is the cluster's storage to say (Volumes), not the pod's. It
// is looked up when the pod is compiled, and again when Volumes.Version has moved:
//
//	a bound claim       its volume's node affinity, a predicate over labels; where an in-tree
//	                    volume may be a CSI driver's, one for either kind of node
//	an unbound claim    the volumes that it may take, in the order in which they are tried;
//	                    where one can be provisioned; or the one node that was selected for it
//	a CSI volume        one more of its driver's, unless a pod of the row uses it already
//	a disk              the counters of those who do not share it with the pod
//
// A class that placing other pods may change (they take volumes) is Volatile and not kept.
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
package compile
