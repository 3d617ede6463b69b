package cli

import (
	"context"
	"os"
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
	root.AddCommand(newApplyCommand(s), newGetCommand(s), newDeleteCommand(s), newExplainCommand(s), newSummaryCommand(s))
}

// unixScheme begins the address of a Unix socket.
const unixScheme = "unix://"

// connection is how a command reaches a coordinator.
type connection struct {
	addresses []string
	patience  time.Duration
	tls       serving.TLS
}

func (c *connection) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.addresses, "address", nil, "`HOST:PORT,…` of coordinators, or unix:///PATH; the leader is found from any of them (default $"+addressVariable+", else "+unixScheme+defaultClientSocket+" if it is there, else "+defaultClientAPI+")")
	fs.DurationVar(&c.patience, "patience", 15*time.Second, "time to go on trying while no coordinator leads or answers")
	c.tls.AddFlags(fs)
}

// open makes a client; the caller closes it.
func (c *connection) open(s Streams) (*client.Client, error) {
	if err := c.tls.Validate(); err != nil {
		return nil, usageError{err}
	}
	guard, err := c.tls.Open("")
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{Addresses: c.targets(s.Env), Patience: c.patience, Dial: dialer(guard)})
}

// dialer speaks TLS, but on a socket, which only this machine reaches.
func dialer(guard *serving.Guard) func(string) (*grpc.ClientConn, error) {
	secure, plain := client.DialWith(guard.ClientCredentials(serving.Coordinator, "")), client.DialWith(insecure.NewCredentials())
	return func(address string) (*grpc.ClientConn, error) {
		if strings.HasPrefix(address, unixScheme) {
			return plain(address)
		}
		return secure(address)
	}
}

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
