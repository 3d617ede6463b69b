// Package clients has the client's commands ask a real kube-apiserver, as users whose rights are those that docs/operations.md names:
// snapshot and simulate --live, how a client finds the leader by its Lease, and top. An audit log tells what they asked for.
//
// No kubelet runs: of a port-forward the way to the API server is tried, and what it answers.
package clients
