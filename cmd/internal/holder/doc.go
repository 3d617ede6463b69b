// Package holder finds the coordinator that leads in kube-scheduler's place, for clients that know the API server alone.
//
//	Lease ──holder, annotation──▶ pod and port ──▶ port-forward through the API server ──▶ 127.0.0.1:port
//	                         └──▶ address, where it is no pod
//
// A kube-scheduler that holds the Lease, and a coordinator that serves on a socket, are errors that say so: another try does not help.
package holder
