// Command shardsched schedules pods onto very large clusters: a coordinator,
// its workers, and the client that talks to them, in one binary.
package main

import (
	"os"

	"github.com/shardsched/shardsched/cmd/shardsched/app"
)

func main() { os.Exit(app.Run(app.NewSchedulerCommand())) }
