package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/console"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// defaultConsole is where `shardsched console` serves, next to the other default addresses.
const defaultConsole = "127.0.0.1:7470"

// consolePatience is how long a page waits for a coordinator that does not answer, unless a flag says otherwise: the page asks again.
const consolePatience = 2 * time.Second

// consoleOptions are the flags of `shardsched console`.
type consoleOptions struct {
	connection
	listen  string
	offline offline
}

func newConsoleCommand(s Streams, plugins framework.Registry) *cobra.Command {
	var o consoleOptions
	o.offline.configuration.plugins, o.offline.plugins = plugins, plugins
	c := &cobra.Command{
		Use:     "console",
		GroupID: groupClient,
		Short:   "Show a scheduler in a browser",
		Long: `Show a scheduler in a browser: pages that only read, served on this machine's loopback
until Ctrl-C. What they show is asked of the coordinator that leads, with the rights of
these flags: every user of this machine can see it meanwhile.

With -f no coordinator is asked. Of a dump, as shardsched snapshot writes it, or other
files that simulate takes, the cluster is shown as it is, and each pod is judged against
it; with --simulate once all pods that wait are decided. Of a flight recorder's files
(coordinator --record) any moment is shown, with a slider for time.`,
		Example: `  shardsched console
  shardsched console --address 10.0.0.7:7450 --tls-ca-file ca.crt --token-file token
  kubectl shardsched console --context prod
  shardsched console -f cluster.json --simulate
  shardsched console -f flight.record`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if len(o.offline.files) > 0 {
				return o.runOffline(c.Context(), s)
			}
			return o.run(c.Context(), s)
		},
	}
	fs := c.Flags()
	addFileFlags(fs, &o.offline.files, &o.offline.skipInvalid, "a dump, or a flight recorder's files")
	fs.BoolVar(&o.offline.simulate, "simulate", false, "show the dump of -f once all pods that wait are decided")
	fs.StringVarP(&o.offline.namespace, "namespace", "n", "default", "namespace of objects of -f that name none")
	fs.StringVar(&o.offline.configuration.Config, "config", "", "KubeSchedulerConfiguration `FILE` that pods of -f are "+
		"judged by, and changes that are tried")
	fs.StringVar(&o.listen, "listen", defaultConsole, "loopback `HOST:PORT` to serve on; port 0: a free one")
	o.connection.addFlags(fs)
	fs.Lookup("patience").DefValue = consolePatience.String()
	return c
}

// validate refuses flags of the one way beside those of the other.
func (o *consoleOptions) validate() error {
	fs := o.connection.flags
	if len(o.offline.files) > 0 {
		for _, name := range []string{"address", "kubeconfig", "context", "lease", "patience", "tls-ca-file", "tls-cert-file",
			"tls-private-key-file", "token-file"} {
			if f := fs.Lookup(name); f != nil && f.Changed {
				return usagef("--%s is about a coordinator, and -f shows files: give one or the other", name)
			}
		}
		return nil
	}
	for _, name := range []string{"simulate", "namespace", "skip-invalid"} {
		if fs.Changed(name) {
			return usagef("--%s is about the files of -f: give some", name)
		}
	}
	return nil
}

func (o *consoleOptions) runOffline(ctx context.Context, s Streams) error {
	o.offline.open = func(ctx context.Context, h http.Handler) error { return serveLocal(ctx, s, o.listen, h) }
	return o.offline.run(ctx, s)
}

func (o *consoleOptions) run(ctx context.Context, s Streams) error {
	if !o.connection.flags.Changed("patience") {
		o.connection.patience = consolePatience
	}
	conn, err := newFollowing(&o.connection, s)
	if err != nil {
		return err
	}
	defer conn.close()
	var args []string
	if name := o.offline.configuration.Config; name != "" {
		args = append(args, "--config="+name)
	}
	what := newSimulator(copyOfStore(conn, o.connection.copyOfCluster(s)), args...)
	return serveConsole(ctx, s, o.listen, console.Config{
		Conn: conn, Version: Version(), Command: s.program(), Flags: strings.Join(o.connection.given(), " "),
		WhatIf: &console.WhatIf{
			Answer: what.answer, Command: append([]string{"simulate", "-f", "cluster.json"}, args...),
			Copy: "The copy is read when the question comes, with the rights of this console: by --kubeconfig from the API server, or from a " +
				"coordinator that keeps the objects. The profiles of --config decide on it, else the default one.",
		},
	})
}

// serveConsole serves a console on a loopback address.
func serveConsole(ctx context.Context, s Streams, address string, cfg console.Config) error {
	c, err := console.New(cfg)
	if err != nil {
		return err
	}
	return serveLocal(ctx, s, address, c)
}

// serveLocal serves pages on a loopback address until ctx ends, and says where.
func serveLocal(ctx context.Context, s Streams, address string, h http.Handler) error {
	l, err := (&serving.Guard{}).Listen("listen", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; --listen 127.0.0.1:0 takes a free port", err)
	}
	if err != nil {
		return usageError{err}
	}
	fmt.Fprintf(s.Err, "See it in a browser: http://%s%s\nCtrl-C ends it.\n", l.Addr(), console.Path)
	return serving.ServeLocal(ctx, l, serving.RequireLoopback(h))
}

// program is how the user calls this program.
func (s Streams) program() string {
	if s.isPlugin() {
		return "kubectl shardsched"
	}
	return "shardsched"
}

// given are the flags of the connection as they were given, for a command line that reaches the same coordinator.
func (c *connection) given() []string {
	var all []string
	for _, name := range []string{"address", "kubeconfig", "context", "lease", "tls-ca-file", "tls-cert-file", "tls-private-key-file",
		"token-file"} {
		if f := c.flags.Lookup(name); f != nil && f.Changed {
			all = append(all, "--"+name, console.Quoted(strings.Trim(f.Value.String(), "[]")))
		}
	}
	return all
}

// consoleClients is how many calls of a console are made at once.
const consoleClients = 4

// following is a connection to whoever leads. It can be used by several at once: a client can not.
type following struct{ free chan *followingClient }

type followingClient struct {
	*client.Client
	end func()
}

func newFollowing(c *connection, s Streams) (*following, error) {
	f := &following{free: make(chan *followingClient, consoleClients)}
	for range consoleClients {
		cl, end, err := c.open(s)
		if err != nil {
			f.close()
			return nil, err
		}
		f.free <- &followingClient{cl, end}
	}
	return f, nil
}

// close ends the connections that nobody uses.
func (f *following) close() {
	for {
		select {
		case cl := <-f.free:
			cl.end()
		default:
			return
		}
	}
}

// Invoke implements grpc.ClientConnInterface.
func (f *following) Invoke(ctx context.Context, method string, request, reply any, opts ...grpc.CallOption) error {
	var cl *followingClient
	select {
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case cl = <-f.free:
	}
	defer func() { f.free <- cl }()
	err := cl.DoConn(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		return conn.Invoke(ctx, method, request, reply, opts...)
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return status.FromContextError(err).Err()
	}
	s := status.New(cmp.Or(client.Code(err), codes.Unavailable), err.Error())
	if client.NotKept(err) {
		if detailed, err := s.WithDetails(&pb.NotKept{}); err == nil {
			s = detailed
		}
	}
	return s.Err()
}

// NewStream implements grpc.ClientConnInterface.
func (f *following) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "the console reads no stream")
}
