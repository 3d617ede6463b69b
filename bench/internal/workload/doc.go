// Package workload makes the nodes and pods that several measurements share, so that their figures
// are of the same cluster.
package workload
