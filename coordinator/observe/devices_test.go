package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/devices"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// fleet is so many nodes of so many devices each, the second of which has a claim.
func fleet(nodes, each int) *devices.Cache {
	c := devices.New(devices.Config{})
	for i := range nodes {
		node := fmt.Sprintf("node-%05d", i)
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-slice"}}
		s.Spec.Driver, s.Spec.NodeName = "gpu.example.com", &node
		s.Spec.Pool = resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}
		for k := range each {
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", k)})
		}
		c.Set(s)
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "of-" + node, UID: types.UID(node)}}
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: node, Device: "gpu-1"}},
		}}
		c.Set(claim)
	}
	return c
}

// page takes all steps of a page.
func page(t *testing.T, c *devices.Cache, q *pb.ListDevicesRequest) *pb.ListDevicesResponse {
	t.Helper()
	x := NewDevices(c, q)
	for step := x.Read().Step; !step(); {
	}
	x.Read().End()
	out, err := x.Page()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Each device is listed once, in order, and no page is longer than a message.
func TestDevicesComeInPages(t *testing.T) {
	c := fleet(5000, 12)
	var all []string
	pages := 0
	for q := (&pb.ListDevicesRequest{}); ; pages++ {
		out := page(t, c, q)
		if size := proto.Size(out); size > 4<<20 {
			t.Errorf("page %d: got %d bytes, want 4 MiB at the most", pages, size)
		}
		for _, d := range out.Devices {
			all = append(all, fmt.Sprintf("%s %s", d.Node, d.Device))
			want := ""
			if d.Device == "gpu-1" {
				want = "ns/of-" + d.Node
			}
			if got := strings.Join(d.InUseBy, ","); got != want {
				t.Fatalf("device %s of %s: got in use by %q, want %q", d.Device, d.Node, got, want)
			}
		}
		if q.ContinueToken = out.ContinueToken; q.ContinueToken == "" {
			break
		}
		c.Delete(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-00000-slice"}}) // listed already
	}
	var want []string
	for i := range 5000 {
		for k := range 12 {
			want = append(want, fmt.Sprintf("node-%05d gpu-%d", i, k))
		}
	}
	if !slices.Equal(all, want) || pages == 0 {
		t.Errorf("got %d devices on %d pages, want all %d in order on several", len(all), pages+1, len(want))
	}
}

func TestDevicesOfSomeNodes(t *testing.T) {
	out := page(t, fleet(5, 2), &pb.ListDevicesRequest{NodeNames: []string{"node-00003", "node-00001", "nowhere"}})
	var got []string
	for _, d := range out.Devices {
		got = append(got, d.Node+"/"+d.Device)
	}
	if want := []string{"node-00001/gpu-0", "node-00001/gpu-1", "node-00003/gpu-0", "node-00003/gpu-1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A step takes so many slices and claims, and what comes and goes meanwhile does not disturb it.
func TestDevicesAreListedInSteps(t *testing.T) {
	c := fleet(2*claimsAtOnce+1, 2)
	x := NewDevices(c, &pb.ListDevicesRequest{NodeNames: []string{"node-00007"}})
	steps := 1
	for before := 0; !x.step(); steps++ {
		if n := len(x.slices) + len(x.claims) - before; n > slicesAtOnce+claimsAtOnce {
			t.Errorf("a step took %d slices and claims, want %d at the most", n, slicesAtOnce+claimsAtOnce)
		}
		before = len(x.slices) + len(x.claims)
		c.Delete(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%05d-slice", steps+100)}})
	}
	x.Read().End()
	if least := (2*claimsAtOnce+1)/slicesAtOnce + 2; steps < least {
		t.Errorf("got %d steps, want %d at least", steps, least)
	}
	out, err := x.Page()
	if err != nil || len(out.Devices) != 2 || len(out.Devices[1].InUseBy) != 1 {
		t.Errorf("got %v, %v; want two devices, one of them in use", out, err)
	}
}

func TestATokenOfAnotherListIsRefused(t *testing.T) {
	x := NewDevices(fleet(1, 1), &pb.ListDevicesRequest{ContinueToken: "node-1"})
	if _, err := x.Page(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %v, want INVALID_ARGUMENT", err)
	}
}
