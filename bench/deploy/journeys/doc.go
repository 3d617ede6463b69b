// Package journeys goes the ways of the documents on a real API server: from no scheduler to bound pods by each topology, and from a
// running kube-scheduler to ours and back under load. What runs is what manifests say: kubelet starts the processes of their pods.
package journeys
