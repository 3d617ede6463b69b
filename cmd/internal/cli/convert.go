package cli

import "github.com/spf13/cobra"

func newConvertCommand(s Streams) *cobra.Command { return &cobra.Command{Use: "convert", GroupID: groupOther} }
