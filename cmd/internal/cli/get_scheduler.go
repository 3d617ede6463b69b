package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/summary"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// plugins shows what those of the names did and took, by profile; of none, all.
func (o *getOptions) plugins(ctx context.Context, s Streams, cl *client.Client, names []string) error {
	v := &view[*pb.PluginUse]{
		name: func(x *pb.PluginUse) string {
			return "plugin/" + x.GetProfile() + "/" + x.GetPlugin() + "/" + x.GetExtensionPoint()
		},
		headers: []string{"PROFILE", "PLUGIN", "POINT", "TIME", "CALLS", "ROWS IN", "ROWS OUT"},
		row: func(x *pb.PluginUse) []string {
			return []string{x.GetProfile(), x.GetPlugin(), x.GetExtensionPoint(), summary.Duration(x.GetTook().AsDuration()),
				fmt.Sprint(x.GetCalls()), fmt.Sprint(x.GetRowsIn()), fmt.Sprint(x.GetRowsOut())}
		},
		empty: "No plugin has looked at a node.",
	}
	return display(ctx, o, s, v, func() (any, []*pb.PluginUse, error) {
		var answer *pb.ListPluginsResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			answer, err = c.ListPlugins(ctx, &pb.ListPluginsRequest{})
			return err
		})
		if err != nil {
			return nil, nil, fmt.Errorf("list plugins: %w", err)
		}
		if len(names) > 0 {
			answer.Uses = slices.DeleteFunc(answer.GetUses(), func(x *pb.PluginUse) bool { return !slices.Contains(names, x.GetPlugin()) })
		}
		answer.Uses, err = choose(&o.listing, answer.GetUses(), nil)
		return answer, answer.GetUses(), err
	})
}

// configuration shows in what the scheduler's configuration is not as the default one.
func (o *getOptions) configuration(ctx context.Context, s Streams, cl *client.Client) error {
	v := &view[*pb.ConfigurationDifference]{
		name:    func(x *pb.ConfigurationDifference) string { return x.GetField() },
		headers: []string{"FIELD", "DEFAULT", "HERE"},
		row: func(x *pb.ConfigurationDifference) []string {
			return []string{x.GetField(), cmp.Or(x.GetDefault(), "<none>"), cmp.Or(x.GetValue(), "<none>")}
		},
		empty: "All is as in the default configuration.",
	}
	return display(ctx, o, s, v, func() (any, []*pb.ConfigurationDifference, error) {
		var answer *pb.GetConfigurationResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			answer, err = c.GetConfiguration(ctx, &pb.GetConfigurationRequest{})
			return err
		})
		if err != nil {
			return nil, nil, fmt.Errorf("get the configuration: %w", err)
		}
		answer.Differences, err = choose(&o.listing, answer.GetDifferences(), nil)
		return answer, answer.GetDifferences(), err
	})
}
