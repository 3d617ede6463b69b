package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/serving"
)

// addressVariable names coordinators where --address does not.
const addressVariable = "SHARDSCHED_ADDRESS"

// addClients adds the commands that talk to a running coordinator.
func addClients(root *cobra.Command, s Streams) {
	root.AddCommand(newApplyCommand(s), newGetCommand(s), newDeleteCommand(s), newExplainCommand(s), newSummaryCommand(s))
}

// connection is how a command reaches a coordinator.
type connection struct {
	addresses []string
	patience  time.Duration
	tls       serving.TLS
}

func (c *connection) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.addresses, "address", nil, "`HOST:PORT,…` of coordinators; the leader is found from any of them (default $"+addressVariable+", else "+defaultClientAPI+")")
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
	return client.New(client.Config{Addresses: c.targets(s.Env), Patience: c.patience, Dial: client.DialWith(guard.ClientCredentials(serving.Coordinator, ""))})
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
