// Command shardsched schedules pods onto very large clusters: a coordinator,
// its workers, and the client that talks to them, in one binary.
package main

import (
	"context"
	"io"
	"os"

	"google.golang.org/grpc/grpclog"

	"github.com/shardsched/shardsched/cmd/internal/cli"
)

func main() {
	// A library of kube-apiserver's turns gRPC's own log on, warnings and all: back to errors.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr))
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.SystemStreams(), cli.Standard()))
}
