// Package chart renders deploy/chart as Helm does, and writes what is rendered where kustomize finds it.
//
//	deploy/chart/values.yaml + deploy/chart/examples/TOPOLOGY.yaml
//	           │ Render
//	           v
//	objects, by the template that they are from ──> posted to an API server, judged (tests)
//	           │ Folders
//	           v
//	deploy/kustomize/…, deploy/policy, deploy/rbac: committed
//
// Helm's engine runs as a library, and reads nothing but the chart: no cluster, no repository.
package chart
