package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/shardsched/shardsched/coordinator/devices"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// slicesAtOnce is how many slices one step of a list takes, of some 100 ns each; of claims it takes claimsAtOnce.
	slicesAtOnce = 4096
	// maxPageBytes keeps a page of devices below the 4 MiB of a gRPC message.
	maxPageBytes = 3 << 20
)

// Devices is a page of the devices that slices offer, on its way: of the newest generation of each pool, by node, driver and pool,
// and in a pool in the order in which they are tried. The loop takes slices and claims down, which nobody changes; the page is
// made of them without the loop.
type Devices struct {
	cluster *devices.Cache
	req     *pb.ListDevicesRequest

	slices  []*resourcev1.ResourceSlice
	newest  map[poolName]int64
	claims  []devices.Holding
	slice   walk[*resourcev1.ResourceSlice]
	holding walk[devices.Holding]
}

type poolName struct{ driver, pool string }

func poolOf(s *resourcev1.ResourceSlice) poolName { return poolName{s.Spec.Driver, s.Spec.Pool.Name} }

// NewDevices makes a page that is to be read.
func NewDevices(c *devices.Cache, req *pb.ListDevicesRequest) *Devices {
	return &Devices{cluster: c, req: req, newest: map[poolName]int64{}}
}

// Read is how the page is read.
func (x *Devices) Read() Read {
	return Read{Step: x.step, End: func() { x.slice.end(); x.holding.end() }}
}

func (x *Devices) step() (last bool) {
	return x.slice.some(x.cluster.Slices, slicesAtOnce, x.takeSlice) &&
		x.holding.some(x.cluster.Holdings, claimsAtOnce, func(h devices.Holding) { x.claims = append(x.claims, h) })
}

func (x *Devices) takeSlice(s *resourcev1.ResourceSlice) {
	x.slices = append(x.slices, s)
	if g, known := x.newest[poolOf(s)]; !known || s.Spec.Pool.Generation > g {
		x.newest[poolOf(s)] = s.Spec.Pool.Generation
	}
}

// place is where a device stands in the list; the zero one is before all.
type place struct {
	node, driver, pool, slice string
	index                     int // in the slice
}

func (p place) compare(o place) int {
	return cmp.Or(strings.Compare(p.node, o.node), strings.Compare(p.driver, o.driver), strings.Compare(p.pool, o.pool),
		strings.Compare(p.slice, o.slice), cmp.Compare(p.index, o.index))
}

const tokenFormat = "%q %q %q %q %d"

// token has the next page begin behind a place.
func (p place) token() string {
	return fmt.Sprintf(tokenFormat, p.node, p.driver, p.pool, p.slice, p.index)
}

func parsePlace(token string) (p place, err error) {
	if token == "" {
		return p, nil
	}
	if _, err = fmt.Sscanf(token, tokenFormat, &p.node, &p.driver, &p.pool, &p.slice, &p.index); err != nil {
		err = status.Error(codes.InvalidArgument, "continue_token is not one of a list of devices")
	}
	return p, err
}

// found is a device behind the place where the page begins.
type found struct {
	place
	device *resourcev1.Device
}

// Page is the page, after the last step. It needs no loop.
func (x *Devices) Page() (*pb.ListDevicesResponse, error) {
	after, err := parsePlace(x.req.GetContinueToken())
	if err != nil {
		return nil, err
	}
	list, out, size := x.list(after), &pb.ListDevicesResponse{}, 0
	users := x.users()
	for i, d := range list {
		m := &pb.DeviceStatus{Node: d.node, Driver: d.driver, Pool: d.pool, Device: d.device.Name, InUseBy: users[d.name()]}
		if size += proto.Size(m) + 8; size > maxPageBytes && i > 0 {
			out.ContinueToken = list[i-1].token()
			break
		}
		out.Devices = append(out.Devices, m)
	}
	return out, nil
}

// list has the devices of the nodes that are asked for, behind a place.
func (x *Devices) list(after place) (list []found) {
	asked := x.req.GetNodeNames()
	for _, s := range x.slices {
		if s.Spec.Pool.Generation < x.newest[poolOf(s)] {
			continue
		}
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			p := place{nodesOf(s, d), s.Spec.Driver, s.Spec.Pool.Name, s.Name, i}
			if p.compare(after) > 0 && (len(asked) == 0 || slices.Contains(asked, p.node)) {
				list = append(list, found{p, d})
			}
		}
	}
	slices.SortFunc(list, func(a, b found) int { return a.compare(b.place) })
	return list
}

func (d *found) name() devices.Device {
	return devices.Device{Driver: d.driver, Pool: d.pool, Name: d.device.Name}
}

// nodesOf words which nodes reach a device.
func nodesOf(s *resourcev1.ResourceSlice, d *resourcev1.Device) string {
	switch node := cmp.Or(s.Spec.NodeName, d.NodeName); {
	case node != nil:
		return *node
	case s.Spec.AllNodes != nil || d.AllNodes != nil:
		return "all nodes"
	}
	return "by labels"
}

// users are the claims that have each device, sorted.
func (x *Devices) users() map[devices.Device][]string {
	users := map[devices.Device][]string{}
	for _, h := range x.claims {
		for i := range h.Devices {
			r := &h.Devices[i]
			d, user := devices.Device{Driver: r.Driver, Pool: r.Pool, Name: r.Device}, h.Claim.String()
			if r.AdminAccess != nil && *r.AdminAccess {
				user += " (admin)"
			}
			if at, has := slices.BinarySearch(users[d], user); !has {
				users[d] = slices.Insert(users[d], at, user)
			}
		}
	}
	return users
}
