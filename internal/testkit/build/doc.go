// Package build makes Kubernetes objects for tests, a word for each thing that a
// scheduler reads:
//
//	build.Node("a").CPU("4").Memory("8Gi").Taint("gpu=yes:NoSchedule").Obj()
//	build.Pod("p").CPU("500m").Toleration("gpu=yes:NoSchedule").Obj()
//
// A builder is used once, by one goroutine. Words that can not be parsed panic:
// they are the test's own.
package build
