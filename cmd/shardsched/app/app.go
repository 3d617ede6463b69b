package app

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/grpclog"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/shardsched/shardsched/cmd/internal/cli"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// PluginFactory makes a plugin for one profile. args are those of the profile's pluginConfig, a
// *runtime.Unknown with JSON in it; nil: it has none.
type PluginFactory = framework.PluginFactory

// Registry is factories by the plugins' names.
type Registry = framework.Registry

// Option adds to a Registry.
type Option func(Registry) error

// WithPlugin registers a plugin under a name that no other has.
func WithPlugin(name string, factory PluginFactory) Option {
	return func(r Registry) error {
		if rules.Find(name) != nil {
			return fmt.Errorf("a plugin named %v already exists", name)
		}
		return r.Register(name, factory)
	}
}

// NewSchedulerCommand is the whole command tree with these plugins. What is wrong with an option is
// the error of every command.
func NewSchedulerCommand(options ...Option) *cobra.Command {
	registry := Registry{}
	var wrong error
	for _, add := range options {
		if err := add(registry); err != nil && wrong == nil {
			wrong = err
		}
	}
	runs := cli.Standard()
	runs.OutOfTree = registry
	root := cli.Root(cli.SystemStreams(), runs)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if wrong != nil {
			return wrong
		}
		c.SetContext(cli.WithSignals(c.Context()))
		return nil
	}
	return root
}

// Run runs the process's command line, and returns its exit code: 0, 1 where it went wrong, 2 for
// a command line that can't be run, 130 where it was interrupted.
func Run(root *cobra.Command) int {
	// A plugin's handler of an informer that panics misses that object, and the process goes on.
	utilruntime.ReallyCrash = false
	// A library of kube-apiserver's turns gRPC's own log on, warnings and all: back to errors.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr))
	return cli.Execute(context.Background(), root, os.Args[1:], cli.SystemStreams())
}
