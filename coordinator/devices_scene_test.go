package coordinator

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// drawDevices makes few kinds of pods, most of which have claims, and fewer devices than they ask for: on nodes and, some of them,
// where all nodes reach them.
func drawDevices(t *rapid.T) scene {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 9))
	c := build.Random(r, rapid.IntRange(1, 10).Draw(t, "nodes"), rapid.IntRange(0, 6).Draw(t, "present"), rapid.IntRange(1, 3).Draw(t, "kinds"))
	s := scene{nodes: c.Nodes, present: c.Present}
	s.others = append(s.others, gpuClass())
	for i, n := range append(c.Nodes, nil) {
		name := "shared"
		if n != nil {
			name = n.Name
		}
		slice := gpus(name, r.IntN(5))
		if n == nil {
			slice.Spec.NodeName, slice.Spec.AllNodes = nil, ptr.To(true)
		}
		if r.IntN(12) == 0 {
			slice.Spec.Pool.ResourceSliceCount = 2 // one is on its way
		}
		for d := range slice.Spec.Devices {
			model := []string{"a", "b"}[(i+d/2)%2]
			slice.Spec.Devices[d].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}}
		}
		s.others = append(s.others, slice)
	}
	kinds := rapid.IntRange(1, 4).Draw(t, "claims")
	for i := range rapid.IntRange(1, 30).Draw(t, "pods") {
		p := copyOf(c.Pending[r.IntN(len(c.Pending))], i)
		for range r.IntN(3) {
			claim := drawClaim(r.IntN(kinds), fmt.Sprintf("claim-%d", len(s.others)))
			claim.Namespace = p.Namespace
			s.others = append(s.others, claim)
			askClaim(p, claim.Name)
		}
		if i > 0 && r.IntN(6) == 0 {
			if other := s.pending[r.IntN(i)]; other.Namespace == p.Namespace && len(other.Spec.ResourceClaims) > 0 {
				askClaim(p, *other.Spec.ResourceClaims[0].ResourceClaimName)
			}
		}
		s.pending = append(s.pending, p)
	}
	return s
}

// askClaim has a pod ask for a claim.
func askClaim(p *v1.Pod, name string) {
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: name, ResourceClaimName: &name})
}

// drawClaim is a claim of a kind.
func drawClaim(kind int, name string) *resourcev1.ResourceClaim {
	c := gpuClaim(name)
	c.UID = types.UID(name)
	ask := c.Spec.Devices.Requests[0].Exactly
	selector := func(text string) {
		ask.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: text}}}
	}
	switch kind {
	case 1:
		ask.Count = 2
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: ptr.To(resourcev1.FullyQualifiedName("gpu.example.com/model"))}}
	case 2:
		selector(`device.attributes["gpu.example.com"].model == "b"`)
	case 3:
		selector(`device.attributes["gpu.example.com"].absent == "b"`) // fails where a device is looked at
	}
	return c
}
