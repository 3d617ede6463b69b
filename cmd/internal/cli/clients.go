package cli

import "github.com/spf13/cobra"

// addClients adds the commands that talk to a running coordinator.
func addClients(root *cobra.Command, s Streams) {}
