// Package extender asks a scheduler on a real API server for pods that HTTP extenders have a say in.
// The extenders are servers of the test, each with a resource of its own, so that no pod comes to
// one that it is not meant for.
//
// Upstream passes these tests too (BLACKBOX_SCHEDULER=kube-scheduler), but for that of an extender
// that hangs: there it holds up all pods.
package extender
