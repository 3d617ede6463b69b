// Command shardsched schedules pods onto very large clusters: a coordinator,
// its workers, and the client that talks to them, in one binary.
package main

import (
	"context"
	"os"

	"github.com/shardsched/shardsched/cmd/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.SystemStreams(), cli.Standard()))
}
