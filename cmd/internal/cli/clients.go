package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/serving"
)

// addressVariable names coordinators where --address does not.
const addressVariable = "SHARDSCHED_ADDRESS"

// addClients adds the commands that talk to a running coordinator.
func addClients(root *cobra.Command, s Streams) {
	root.AddCommand(newApplyCommand(s), newGetCommand(s), newDeleteCommand(s), newExplainCommand(s), newPendingCommand(s), newTraceCommand(s),
		newSummaryCommand(s), newTopCommand(s))
}

// unixScheme begins the address of a Unix socket.
const unixScheme = "unix://"

// connection is how a command reaches a coordinator.
type connection struct {
	addresses []string
	patience  time.Duration
	tls       serving.TLS
	tokenFile string
}

func (c *connection) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.addresses, "address", nil, "`HOST:PORT,…` of coordinators, or unix:///PATH; the leader is found from any of "+
		"them (default $"+addressVariable+", else "+unixScheme+defaultClientSocket+" if it is there, else "+defaultClientAPI+")")
	fs.DurationVar(&c.patience, "patience", 15*time.Second, "time to go on trying while no coordinator leads or answers")
	c.tls.AddFlags(fs)
	fs.StringVar(&c.tokenFile, "token-file", "", "file of a bearer token of the API server, for a coordinator in kube-scheduler's place, "+
		"instead of a certificate; needs --tls-ca-file, and is not sent to a Unix socket")
}

// open makes a client; the caller closes it.
func (c *connection) open(s Streams) (*client.Client, error) {
	if err := c.tls.ValidateClient(c.tokenFile != ""); err != nil {
		return nil, usageError{err}
	}
	guard, err := c.tls.OpenClient(c.tokenFile != "")
	if err != nil {
		return nil, err
	}
	targets := c.targets(s.Env)
	var options []grpc.DialOption
	if c.tokenFile != "" {
		if i := slices.IndexFunc(targets, reachable); i >= 0 && !guard.Enabled() {
			return nil, usageError{fmt.Errorf("--token-file: a token is sent to %s over TLS only: give --tls-ca-file", targets[i])}
		}
		options = append(options, grpc.WithPerRPCCredentials(serving.TokenFile(c.tokenFile)))
	}
	return client.New(client.Config{Addresses: targets, Patience: c.patience, Dial: dialer(guard, options...)})
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

func (c *connection) targets(env func(string) string) []string {
	addresses := c.addresses
	if len(addresses) == 0 {
		addresses = strings.Split(env(addressVariable), ",")
	}
	var targets []string
	for _, a := range addresses {
		if a = strings.TrimSpace(a); a != "" {
			targets = append(targets, a)
		}
	}
	if len(targets) == 0 {
		targets = []string{defaultClientAPI}
		if _, err := os.Stat(defaultClientSocket); err == nil {
			targets = []string{unixScheme + defaultClientSocket}
		}
	}
	return targets
}

// with runs a command with a client.
func (c *connection) with(ctx context.Context, s Streams, do func(context.Context, *client.Client) error) error {
	cl, err := c.open(s)
	if err != nil {
		return err
	}
	defer cl.Close()
	return do(ctx, cl)
}
