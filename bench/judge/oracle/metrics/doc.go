// Package metrics holds the definitions of the metrics that the coordinator serves under
// upstream's names against upstream's own: the type, labels, buckets and help of each have to be
// equal, and what is not served has to be one of those that are listed.
package metrics
