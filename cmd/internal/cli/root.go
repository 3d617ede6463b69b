package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPends       = 2 // of simulate, whose usage errors are failures
	exitDeparts     = 2 // of config check, likewise
	exitNotReady    = 2 // of shadow, likewise
	exitInterrupted = 130
)

// usageError is a command line that can't be run.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, a ...any) error { return usageError{fmt.Errorf(format, a...)} }

// Main runs one command line and returns the exit code. SIGINT and SIGTERM end
// ctx; a second one ends the process.
func Main(ctx context.Context, args []string, s Streams, r Runs) int {
	return Execute(ctx, Root(s, r), args, s)
}

// signalled marks a context that signals end.
type signalled struct{}

// WithSignals is ctx until SIGINT or SIGTERM; a second one ends the process. A context that is
// so already is returned as it is.
func WithSignals(ctx context.Context) context.Context {
	if ctx.Value(signalled{}) != nil {
		return ctx
	}
	ctx, stop := signal.NotifyContext(context.WithValue(ctx, signalled{}, true), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// Execute is Main for a tree that is made.
func Execute(ctx context.Context, root *cobra.Command, args []string, s Streams) int {
	ctx, end := context.WithCancel(ctx)
	defer end()
	ctx = WithSignals(ctx)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && strings.HasPrefix(err.Error(), "unknown command") {
		err = usageError{err} // cobra's own, with what may have been meant
	}
	return exitCode(ctx, s, err)
}

func exitCode(ctx context.Context, s Streams, err error) int {
	if err == nil {
		return exitDone
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	if errors.Is(err, errPends) {
		return exitPends
	}
	if errors.Is(err, errDeparts) {
		return exitDeparts
	}
	if errors.Is(err, errNotReady) {
		return exitNotReady
	}
	fmt.Fprintf(s.Err, "error: %s\n", strings.Map(printableLines, err.Error()))
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// Root is the whole tree.
func Root(s Streams, r Runs) *cobra.Command {
	root := &cobra.Command{
		Use:   "shardsched",
		Short: "A scheduler for very large clusters",
		Long: `shardsched places pods on nodes as kube-scheduler does, with every node looked
at: a coordinator asks workers, each of which holds shards of the cluster, and
merges their answers.

Try it:           shardsched up --demo --exit-when-idle
What would happen if I applied this chart to that cluster?
                  shardsched snapshot > cluster.json
                  helm template my-chart | shardsched simulate -f cluster.json -f -`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}")
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(seeHelp)
	root.AddGroup(&cobra.Group{ID: groupRun, Title: "Run a scheduler:"},
		&cobra.Group{ID: groupClient, Title: "Talk to one:"},
		&cobra.Group{ID: groupOther, Title: "Other:"})
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	if s.isPlugin() { // kubectl shardsched …, on somebody's own machine
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl shardsched"}
		r.Up, r.Coordinator, r.Worker = nil, nil, nil
	}
	addRuns(root, s, r)
	addClients(root, s, r.OutOfTree)
	root.AddCommand(newConvertCommand(s, r.OutOfTree), newConfigCommand(s, r.OutOfTree), newSnapshotCommand(s), newCELCommand(s),
		newCertsCommand(s), newGenerateCommand(s, r.OutOfTree), newVersionCommand(s))
	markUsage(root)
	return root
}

const (
	groupRun    = "run"
	groupClient = "client"
	groupOther  = "other"
)

func addRuns(root *cobra.Command, s Streams, r Runs) {
	if r.Up != nil {
		root.AddCommand(NewUpCommand(func(ctx context.Context, o UpOptions) error { return r.Up(ctx, s, o) }, r.OutOfTree))
	}
	if r.Coordinator != nil {
		root.AddCommand(NewCoordinatorCommand(func(ctx context.Context, o CoordinatorOptions) error { return r.Coordinator(ctx, s, o) },
			r.OutOfTree))
	}
	if r.Worker != nil {
		root.AddCommand(NewWorkerCommand(func(ctx context.Context, o WorkerOptions) error { return r.Worker(ctx, s, o) }))
	}
	if r.Simulate != nil {
		root.AddCommand(NewSimulateCommand(func(ctx context.Context, o SimulateOptions) error { return r.Simulate(ctx, s, o) },
			r.OutOfTree))
		root.AddCommand(newCapacityCommand(s, r.OutOfTree))
	}
	if r.Shadow != nil {
		root.AddCommand(NewShadowCommand(func(ctx context.Context, o ShadowOptions) error { return r.Shadow(ctx, s, o) }, r.OutOfTree))
	}
}

// markUsage makes wrong arguments usage errors in every command.
func markUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return seeHelp(c, err)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}

// seeHelp is an error in a command line, with how to get the command's help.
func seeHelp(c *cobra.Command, err error) error {
	return usagef("%w\nSee '%s --help'.", err, c.CommandPath())
}

// seeHelpFails is seeHelp with the exit code of a failure.
func seeHelpFails(c *cobra.Command, err error) error { return notUsage(seeHelp(c, err)) }
