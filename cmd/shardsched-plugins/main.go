// Command shardsched-plugins is shardsched with three plugins compiled in: Gang, NamespaceQuota and
// LoadAware. It is an example to start from, and is tested as one; docs/plugins.md leads through it.
package main

import (
	"os"

	"github.com/shardsched/shardsched/cmd/shardsched-plugins/gang"
	"github.com/shardsched/shardsched/cmd/shardsched-plugins/load"
	"github.com/shardsched/shardsched/cmd/shardsched-plugins/quota"
	"github.com/shardsched/shardsched/cmd/shardsched/app"
)

func main() {
	os.Exit(app.Run(app.NewSchedulerCommand(
		app.WithPlugin(gang.Name, gang.New),
		app.WithPlugin(quota.Name, quota.New),
		app.WithPlugin(load.Name, load.New),
	)))
}
