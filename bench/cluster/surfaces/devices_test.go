package surfaces

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// devices are listed with the claims that have them; claims themselves are kubectl's to show.
func (r *rig) devices(t *testing.T) {
	node, claim := "a", "gpu"
	class, slice, c := &resourcev1.DeviceClass{}, &resourcev1.ResourceSlice{}, &resourcev1.ResourceClaim{}
	class.Name, slice.Name, c.Name, c.Namespace = "gpu", "gpus", claim, "default"
	slice.Spec = resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: "pool", Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
	}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class.Name}}}
	p := build.Pod("with-claim").CPU("10m").Obj()
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	r.Create(class, slice, c, p)
	r.Bound("default/with-claim")
	text, err := r.shardsched(t, "get", "devices", "a", "--address", r.ours.Listen)
	want := `NODE   DRIVER            POOL   DEVICE   IN USE BY
a      gpu.example.com   pool   gpu-0    default/gpu
a      gpu.example.com   pool   gpu-1    <none>
`
	if err != nil || text != want {
		t.Errorf("got %v\n%swant\n%s", err, text, want)
	}
	if text, err := r.shardsched(t, "get", "resourceclaims", "--address", r.ours.Listen); err == nil || !strings.Contains(text, "kubectl get ") {
		t.Errorf("get resourceclaims: want a refusal that names kubectl, got %v, %s", err, text)
	}
}
