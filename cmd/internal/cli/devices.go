package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// device is what `get devices` writes of one as JSON or YAML.
type device struct {
	Node    string   `json:"node"`
	Driver  string   `json:"driver"`
	Pool    string   `json:"pool"`
	Name    string   `json:"device"`
	InUseBy []string `json:"inUseBy"`
}

// devices shows the devices of all nodes, or of those named.
func (o *getOptions) devices(ctx context.Context, s Streams, cl *client.Client, nodes []string) error {
	all := []device{}
	for q := (&pb.ListDevicesRequest{NodeNames: nodes}); ; {
		var page *pb.ListDevicesResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			page, err = c.ListDevices(ctx, q)
			return err
		})
		if err != nil {
			return fmt.Errorf("list devices: %w", err)
		}
		for _, d := range page.GetDevices() {
			all = append(all, device{d.GetNode(), d.GetDriver(), d.GetPool(), d.GetDevice(), append([]string{}, d.GetInUseBy()...)})
		}
		if q.ContinueToken = page.GetContinueToken(); q.ContinueToken == "" {
			break
		}
	}
	if o.output == "json" || o.output == "yaml" {
		return printObject(s.Out, o.output, struct {
			Devices []device `json:"devices"`
		}{all})
	}
	if len(all) == 0 {
		fmt.Fprintln(s.Err, "No devices found.")
		return nil
	}
	var rows [][]string
	for _, d := range all {
		rows = append(rows, []string{d.Node, d.Driver, d.Pool, d.Name, cmp.Or(strings.Join(d.InUseBy, ","), "<none>")})
	}
	return newTable(s.Out, "NODE", "DRIVER", "POOL", "DEVICE", "IN USE BY").print(rows...)
}
