// Package app makes the shardsched command, with plugins of yours compiled in, as
// kube-scheduler's package of the same name does:
//
//	func main() {
//		os.Exit(app.Run(app.NewSchedulerCommand(app.WithPlugin("Mine", mine.New))))
//	}
//
// A plugin is written against k8s.io/kube-scheduler/framework, like one for kube-scheduler, and is
// named in a profile of the KubeSchedulerConfiguration file like any other. k8s.io/component-base/cli.Run
// runs the command too; Run has this program's own exit codes.
package app
