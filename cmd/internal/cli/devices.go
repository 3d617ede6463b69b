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
	v := &view[device]{
		name:    func(d device) string { return strings.Join([]string{"device", d.Driver, d.Pool, d.Name}, "/") },
		headers: []string{"NODE", "DRIVER", "POOL", "DEVICE", "IN USE BY"},
		row: func(d device) []string {
			return []string{d.Node, d.Driver, d.Pool, d.Name, cmp.Or(strings.Join(d.InUseBy, ","), "<none>")}
		},
		empty: "No devices found.",
	}
	return display(ctx, o, s, v, func() (any, []device, error) {
		all, err := listDevices(ctx, cl, nodes)
		if err == nil {
			all, err = choose(&o.listing, all, nil)
		}
		return struct {
			Devices []device `json:"devices"`
		}{all}, all, err
	})
}

// listDevices reads all pages.
func listDevices(ctx context.Context, cl *client.Client, nodes []string) ([]device, error) {
	all := []device{}
	for q := (&pb.ListDevicesRequest{NodeNames: nodes}); ; {
		var page *pb.ListDevicesResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			page, err = c.ListDevices(ctx, q)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list devices: %w", err)
		}
		for _, d := range page.GetDevices() {
			all = append(all, device{d.GetNode(), d.GetDriver(), d.GetPool(), d.GetDevice(), append([]string{}, d.GetInUseBy()...)})
		}
		if q.ContinueToken = page.GetContinueToken(); q.ContinueToken == "" {
			return all, nil
		}
	}
}
