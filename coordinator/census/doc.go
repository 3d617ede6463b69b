// Package census counts nodes by what pods ask of them, so that people are told what a cluster has and lacks: how many nodes have a
// label, and with which values; how many have a taint; how many are large enough for a pod when they are empty.
//
// A census is told of the pods first (Watch), then of the nodes (Add); a node costs the same for each pod with other requests. All is
// bounded: what comes beyond a bound is not counted, and the answers say so.
//
// # Words
//
//	demand    what a pod wants of an empty node; pods that want the same share one
//	obstacle  what keeps the pods of a demand off a node, whichever pods are there: a cordon, a taint, a label, its size
//	large     of a node, for a demand: it has as much of everything when it is empty
//	largest   the most that any node has of a resource
package census
