package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// submitPatience is how long `up` waits for its own coordinator to lead.
const submitPatience = time.Minute

// NewUpCommand is `shardsched up`.
func NewUpCommand(run func(context.Context, UpOptions) error, plugins framework.Registry) *cobra.Command {
	var o UpOptions
	o.plugins = plugins
	c := &cobra.Command{
		Use:     "up",
		GroupID: groupRun,
		Short:   "Run a whole scheduler on this machine",
		Long: `Run a whole scheduler on this machine: an embedded etcd, a coordinator and
workers as gRPC servers of their own. It serves until it is stopped (Ctrl-C), and ends
with the summary. Objects come from -f, from --demo, and from 'shardsched apply' in
another window. It logs plain lines; -v 1 logs more, in klog's form.`,
		Example: `  shardsched up
  shardsched up --demo --exit-when-idle
  shardsched up --demo --devices
  shardsched up -f cluster.json -f chart/ --workers 8 --data-dir ./state`,
		Args: onlyFiles,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.WriteConfigTo != "" {
				return o.Configuration.write(c.OutOrStdout())
			}
			if err := o.validate(); err != nil {
				return err
			}
			return run(c.Context(), o)
		},
	}
	fs := c.Flags()
	o.Process.addFlags(fs, defaultCoordinatorHTTP)
	o.Process.addConsoleFlag(fs, "--http-listen")
	o.Sharding.addFlags(fs, "workers", "workers to start, each a gRPC server; 0: the coordinator evaluates by itself", 4)
	o.Sharding.addServiceFlags(fs)
	o.EmbeddedEtcd.addFlags(fs, "127.0.0.1:0", "`HOST:PORT` where the embedded etcd serves other processes; port 0: a free one")
	o.TLS.AddFlags(fs)
	fs.StringVar(&o.Listen, "listen", defaultClientAPI, "`HOST:PORT` of the client API")
	o.Configuration.addFlags(fs)
	o.podGroups = groups.All()
	addFileFlags(fs, &o.Files, &o.SkipInvalid, "objects to apply once the scheduler leads")
	addDemoFlags(fs, &o.Demo, &o.Devices, &o.Seed, "submit")
	fs.BoolVar(&o.ExitWhenIdle, "exit-when-idle", false, "end with the summary once every pod is bound or found to fit nowhere")
	fs.StringVar(&o.DecisionLog, "decision-log", "", "write every decision to `FILE`, one JSON line each")
	o.Recording.addFlags(fs)
	o.Tracing.AddFlags(fs)
	o.Tracing.AddLocalFlag(fs)
	addOutputFlag(fs, &o.Output, "text", "json")
	return c
}

func (o *UpOptions) validate() error {
	o.EmbeddedEtcd.Enabled = true
	if err := o.Sharding.validate("workers"); err != nil {
		return err
	}
	if err := oneOf("output", o.Output, "text", "json"); err != nil {
		return err
	}
	if err := checkDemo(o.Demo, o.Devices); err != nil {
		return err
	}
	if o.ExitWhenIdle && !o.Demo && len(o.Files) == 0 && o.EmbeddedEtcd.DataDir == "" {
		return usagef("--exit-when-idle: there is nothing to schedule; give -f, --demo or --data-dir")
	}
	return checkListeners(o.TLS, o.Process, listener{"listen", o.Listen})
}

// submit applies the input to the coordinator of this process, as any client would. The revision is that of its last pod as it is
// then; 0: there is none.
func (o UpOptions) submit(ctx context.Context, in *Input, l *bufconn.Listener) (revision int64, err error) {
	cl, err := client.New(client.Config{
		Addresses: []string{"passthrough:///" + inProcess}, Patience: submitPatience,
		Dial: client.DialWith(insecure.NewCredentials(), within(l)),
	})
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	a := &applier{client: cl, lines: io.Discard, notes: io.Discard}
	if err := a.apply(ctx, in); err != nil || a.last == nil {
		return 0, err
	}
	var page *pb.ListObjectsResponse
	err = cl.Do(ctx, func(ctx context.Context, s pb.SchedulerServiceClient) (err error) {
		page, err = s.ListObjects(ctx, &pb.ListObjectsRequest{Kind: a.last.GetKind(), Namespace: a.last.GetNamespace(), Name: a.last.GetName()})
		return err
	})
	for _, o := range page.GetObjects() { // none where it is gone again
		revision = int64(o.GetRevision())
	}
	return revision, err
}
