// Command theirs is kube-scheduler with the plugins that are tested compiled in.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/shardsched/shardsched/bench/cluster/plugins/outoftree"
)

func main() {
	var options []app.Option
	for name, factory := range outoftree.All() {
		options = append(options, app.WithPlugin(name, factory))
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(options...)))
}
