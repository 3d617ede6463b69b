package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// device is what `get devices` shows of one: it is made of slices and claims.
type device struct {
	// Node is the name of a node, or "all nodes", or "by labels".
	Node   string `json:"node"`
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Name   string `json:"device"`
	// InUseBy are the claims that have it or a share of it, as namespace/name. One with admin access is marked: it takes nothing.
	InUseBy []string `json:"inUseBy"`
}

// deviceName names a device in the cluster.
type deviceName struct{ driver, pool, device string }

// devicesOf lists the devices of slices, but for those that a newer generation of their pool has replaced: by node, driver and
// pool, and in a pool in the order in which they are tried.
func devicesOf(slicesOf, claims []runtime.Object) []device {
	var all []*resourcev1.ResourceSlice
	newest := map[deviceName]int64{}
	for _, obj := range slicesOf {
		if s, ok := obj.(*resourcev1.ResourceSlice); ok {
			all = append(all, s)
			pool := deviceName{driver: s.Spec.Driver, pool: s.Spec.Pool.Name}
			newest[pool] = max(newest[pool], s.Spec.Pool.Generation)
		}
	}
	slices.SortFunc(all, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	users := usersOf(claims)
	var devices []device
	for _, s := range all {
		if s.Spec.Pool.Generation < newest[deviceName{driver: s.Spec.Driver, pool: s.Spec.Pool.Name}] {
			continue
		}
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			name := deviceName{s.Spec.Driver, s.Spec.Pool.Name, d.Name}
			devices = append(devices, device{nodeOf(s, d), name.driver, name.pool, name.device, append([]string{}, users[name]...)})
		}
	}
	slices.SortStableFunc(devices, func(a, b device) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool))
	})
	return devices
}

// usersOf are the claims that have each device.
func usersOf(claims []runtime.Object) map[deviceName][]string {
	users := map[deviceName][]string{}
	for _, obj := range claims {
		c, ok := obj.(*resourcev1.ResourceClaim)
		if !ok || c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			user := c.Namespace + "/" + c.Name
			if r.AdminAccess != nil && *r.AdminAccess {
				user += " (admin)"
			}
			name := deviceName{r.Driver, r.Pool, r.Device}
			if !slices.Contains(users[name], user) {
				users[name] = append(users[name], user)
			}
		}
	}
	return users
}

func nodeOf(s *resourcev1.ResourceSlice, d *resourcev1.Device) string {
	switch node := cmp.Or(s.Spec.NodeName, d.NodeName); {
	case node != nil:
		return *node
	case s.Spec.AllNodes != nil || d.AllNodes != nil:
		return "all nodes"
	}
	return "by labels"
}

// devices shows the devices of all nodes, or of those named.
func (o *getOptions) devices(ctx context.Context, s Streams, cl *client.Client, nodes []string) error {
	slicesOf, _, err := cl.List(ctx, string(objects.KindResourceSlice), "", "")
	if err != nil {
		return err
	}
	claims, _, err := cl.List(ctx, string(objects.KindResourceClaim), "", "")
	if err != nil {
		return err
	}
	devices := devicesOf(slicesOf, claims)
	if len(nodes) > 0 {
		devices = slices.DeleteFunc(devices, func(d device) bool { return !slices.Contains(nodes, d.Node) })
	}
	if o.output == "json" || o.output == "yaml" {
		return printObject(s.Out, o.output, struct {
			Devices []device `json:"devices"`
		}{append([]device{}, devices...)})
	}
	if len(devices) == 0 {
		fmt.Fprintln(s.Err, "No devices found.")
		return nil
	}
	var rows [][]string
	for _, d := range devices {
		rows = append(rows, []string{d.Node, d.Driver, d.Pool, d.Name, cmp.Or(strings.Join(d.InUseBy, ","), "<none>")})
	}
	return newTable(s.Out, "NODE", "DRIVER", "POOL", "DEVICE", "IN USE BY").print(rows...)
}
