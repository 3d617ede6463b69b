package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/holder"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/framework"
)

// addressVariable names coordinators where --address does not.
const addressVariable = "SHARDSCHED_ADDRESS"

// addClients adds the commands that talk to a running coordinator.
func addClients(root *cobra.Command, s Streams, plugins framework.Registry) {
	root.AddCommand(newApplyCommand(s), newGetCommand(s), newDeleteCommand(s), newExplainCommand(s), newPendingCommand(s),
		newDecisionsCommand(s), newTraceCommand(s), newSummaryCommand(s), newTopCommand(s), newConsoleCommand(s, plugins))
}

// unixScheme begins the address of a Unix socket.
const unixScheme = "unix://"

// connection is how a command reaches a coordinator.
type connection struct {
	addresses []string
	// kubernetes finds the coordinator by the Lease instead, namespace/name.
	kubernetes kubeAccess
	lease      string
	patience   time.Duration
	flags      *pflag.FlagSet
	tls        serving.TLS
	tokenFile  string
}

// defaultLease is kube-scheduler's.
const defaultLease = "kube-system/kube-scheduler"

// absence is how long a command goes on trying where nobody listens on this machine: a process that is being started may take it.
const absence = 2 * time.Second

func (c *connection) addFlags(fs *pflag.FlagSet) {
	c.flags = fs
	fs.StringSliceVar(&c.addresses, "address", nil, "`HOST:PORT,…` of coordinators, or unix:///PATH; the leader is found from any of "+
		"them (default $"+addressVariable+", else "+unixScheme+defaultClientSocket+" if it is there, else "+defaultClientAPI+")")
	c.kubernetes.addFlags(fs, "whose Lease names the leader, which is then reached by a port-forward to its pod, or by its address")
	fs.StringVar(&c.lease, "lease", defaultLease, "`NAMESPACE/NAME` of the Lease that coordinators in kube-scheduler's place elect their "+
		"leader by, with --kubeconfig or --context")
	fs.DurationVar(&c.patience, "patience", 15*time.Second, "time to go on trying while no coordinator leads or answers. Without it, "+
		"2s where nobody listens on this machine")
	c.tls.AddFlags(fs)
	fs.StringVar(&c.tokenFile, "token-file", "", "file of a bearer token of the API server, for a coordinator in kube-scheduler's place, "+
		"instead of a certificate; needs --tls-ca-file, and is not sent to a Unix socket")
}

// open makes a client; the caller closes it with the function that comes with it.
func (c *connection) open(s Streams) (cl *client.Client, end func(), err error) {
	if c.patience < 0 {
		return nil, nil, usagef("--patience: %s is negative", c.patience)
	}
	if err := c.tls.ValidateClient(c.tokenFile != ""); err != nil {
		return nil, nil, usageError{err}
	}
	guard, err := c.tls.OpenClient(c.tokenFile != "")
	if err != nil {
		return nil, nil, err
	}
	cfg := client.Config{Patience: c.patience}
	if !c.flags.Changed("patience") {
		cfg.Absence = absence
	}
	found, reached := func() {}, "the leader"
	if finder, err := c.finder(s); err != nil {
		return nil, nil, err
	} else if finder != nil {
		cfg.Find, found = finder.Find, finder.Close
	} else {
		if cfg.Addresses, err = c.targets(s.Env); err != nil {
			return nil, nil, err
		}
		if reached = ""; slices.ContainsFunc(cfg.Addresses, reachable) {
			reached = cfg.Addresses[slices.IndexFunc(cfg.Addresses, reachable)]
		}
	}
	var options []grpc.DialOption
	if c.tokenFile != "" {
		if reached != "" && !guard.Enabled() {
			return nil, nil, usageError{fmt.Errorf("--token-file: a token is sent to %s over TLS only: give --tls-ca-file", reached)}
		}
		options = append(options, grpc.WithPerRPCCredentials(serving.TokenFile(c.tokenFile)))
	}
	cfg.Dial = dialer(guard, options...)
	cl, err = client.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	return cl, func() { cl.Close(); found() }, nil
}

// asksAPIServer tells that an API server is named, and no coordinator.
func (c *connection) asksAPIServer(s Streams) (bool, error) {
	if c.kubernetes.given() && len(c.addresses) > 0 {
		return false, usagef("--address and --kubeconfig or --context: give one or the other")
	}
	return c.kubernetes.given() || s.isPlugin() && len(c.addresses) == 0, nil
}

// finder reads the Lease; nil: addresses are given.
func (c *connection) finder(s Streams) (*holder.Finder, error) {
	asked, err := c.asksAPIServer(s)
	if err != nil {
		return nil, err
	}
	namespace, name, ok := strings.Cut(c.lease, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, usagef("--lease: %q is not NAMESPACE/NAME", c.lease)
	}
	if !asked {
		return nil, nil
	}
	config, err := c.kubernetes.rest()
	if err != nil {
		return nil, err
	}
	return holder.New(config, namespace, name)
}

// dialer speaks TLS, with the options. On a socket, which only this machine reaches, it speaks neither TLS nor uses options.
func dialer(guard *serving.Guard, options ...grpc.DialOption) func(string) (*grpc.ClientConn, error) {
	secure := client.DialWith(guard.ClientCredentials(serving.Coordinator, ""), options...)
	plain := client.DialWith(insecure.NewCredentials())
	return func(address string) (*grpc.ClientConn, error) {
		if reachable(address) {
			return secure(address)
		}
		return plain(address)
	}
}

// reachable tells whether an address is one of the network, and no socket.
func reachable(address string) bool { return !strings.HasPrefix(address, unixScheme) }

// targets are the addresses to ask.
func (c *connection) targets(env func(string) string) ([]string, error) {
	addresses, from := c.addresses, "--address"
	if len(addresses) == 0 {
		addresses, from = strings.Split(env(addressVariable), ","), "$"+addressVariable
	}
	var targets []string
	for _, a := range addresses {
		if a = strings.TrimSpace(a); a == "" {
			continue
		}
		if err := checkAddress(a); err != nil {
			return nil, usagef("%s: %w", from, err)
		}
		targets = append(targets, a)
	}
	if len(targets) == 0 {
		targets = []string{defaultClientAPI}
		if _, err := os.Stat(defaultClientSocket); err == nil {
			targets = []string{unixScheme + defaultClientSocket}
		}
	}
	return targets, nil
}

// checkAddress tells what is wrong with an address that can't be dialled.
func checkAddress(a string) error {
	if path, isSocket := strings.CutPrefix(a, unixScheme); isSocket {
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("%q: the path of a socket begins with a /: unix:///run/…", a)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(a)
	if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@ ") {
		return fmt.Errorf("%q is not HOST:PORT, such as %s, nor unix:///PATH", a, defaultClientAPI)
	}
	return nil
}

// with runs a command with a client.
func (c *connection) with(ctx context.Context, s Streams, do func(context.Context, *client.Client) error) error {
	cl, end, err := c.open(s)
	if err != nil {
		return err
	}
	defer end()
	return do(ctx, cl)
}
