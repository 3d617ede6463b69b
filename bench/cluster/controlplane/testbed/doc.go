// Package testbed runs a real control plane on loopback, for tests, measurements and
// people: etcd, kube-apiserver, and schedulers beside them, each a process of its own
// that can be killed, paused and started again with its data and on its port.
//
//	           kubectl, tests (admin)
//	                   │
//	kube-scheduler ────┤ HTTPS, tokens, RBAC, audit log
//	coordinator ───────┤
//	     │             v
//	     │       kube-apiserver ──────> etcd
//	     │                               ^
//	     └── worker, worker … ───────────┘  (leases and registrations of ours)
//
// Everything is upstream's own code, built from Go modules, but for what stands in for
// machines: nodes are hollow (objects only), a kubelet marks bound pods as running, and
// a provisioner makes volumes of nothing. No controller runs unless it is started (see
// Bed.Controllers): without them deleted namespaces stay, pods that are deleted gracefully
// keep terminating, claims that nobody binds stay pending, and nodes always keep the
// conditions that they were made with.
//
// Upstream's scheduler acts as the user system:kube-scheduler, under the bindings that
// upstream gives it, and coordinators as a service account with the roles of
// deploy/rbac/minimal.yaml. Audit tells what they asked for, and whether they might.
//
// The API of Bed returns errors; Cluster is the same for tests, and fails them.
//
//	c := testbed.New(t, testbed.Config{})
//	c.Upstream(testbed.Scheduler{})
//	c.Create(build.Node("a").CPU("4").Obj(), build.Pod("p").CPU("1").Obj())
//	if got := c.Bound("default/p"); got != "a" { … }
//
// Programs are built from the source as it is; TESTBED_SHARDSCHED names another build of
// shardsched to test. Starting takes some seconds: tests share a cluster as subtests of one test, and Clear
// it in between.
package testbed
