// Package leadership holds who may write: a coordinator and upstream's kube-scheduler take over from
// each other on a real API server, each in every way in which the other can end, and what they bind
// never overlaps. The API server's audit log is the witness.
package leadership
