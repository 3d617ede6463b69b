// Command ours is shardsched with the plugins that are tested compiled in.
package main

import (
	"os"

	"github.com/shardsched/shardsched/bench/cluster/plugins/outoftree"
	"github.com/shardsched/shardsched/cmd/shardsched/app"
)

func main() {
	var options []app.Option
	for name, factory := range outoftree.All() {
		options = append(options, app.WithPlugin(name, factory))
	}
	os.Exit(app.Run(app.NewSchedulerCommand(options...)))
}
