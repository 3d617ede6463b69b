package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func newSummaryCommand(s Streams) *cobra.Command {
	var conn connection
	var output string
	c := &cobra.Command{
		Use:     "summary",
		GroupID: groupClient,
		Short:   "Show what the leader did since it began to lead",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf("output", output, "text", "json", "yaml"); err != nil {
				return err
			}
			return conn.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error {
				var answer *pb.GetSummaryResponse
				err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
					answer, err = c.GetSummary(ctx, &pb.GetSummaryRequest{})
					return err
				})
				if err != nil {
					return fmt.Errorf("get the summary: %w", err)
				}
				return printSummary(s, s.Out, output, answer.GetSummary())
			})
		},
	}
	addOutputFlag(c.Flags(), &output, "text", "json", "yaml")
	conn.addFlags(c.Flags())
	return c
}
