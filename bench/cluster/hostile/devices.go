package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

const (
	driver = "gpu.example.com"
	// onNode is how many devices a node has, and combined how many of them a claim's first request takes: 3,654 combinations, and
	// with each of them all devices are looked at for the second request.
	onNode, combined = 29, 3
)

func hardClaims(i int, _ *rand.Rand) *v1.Pod {
	p := build.Pod(fmt.Sprintf("devices-%d", i)).CPU("1m").Obj()
	name := hardClaim(i)
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "devices", ResourceClaimName: &name}}
	return p
}

func hardClaim(i int) string { return fmt.Sprintf("hard-%05d", i) }

// differingDevices are the devices of the nodes, which differ in an attribute that claims read, and the claims. The second request
// of a claim asks for an attribute that no device has.
func differingDevices(ctx context.Context, s *attackCluster) error {
	err := s.bed.Create(ctx, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}})
	if err != nil && !apierrors.IsAlreadyExists(err) { // it is there from a round before, with the slices
		return err
	}
	g, in := errgroup.WithContext(ctx)
	g.SetLimit(attackers)
	for i := 0; err == nil && i < s.nodes; i++ {
		g.Go(func() error { return s.bed.Create(in, slice(i)) })
	}
	exactly := func(name string, count int64, selectors ...resourcev1.DeviceSelector) resourcev1.DeviceRequest {
		return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count, Selectors: selectors,
		}}
	}
	for i := range s.scaled(200) {
		absent := resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf("'absent-%d' in device.attributes['%s']", i, driver),
		}}
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: hardClaim(i)}, Spec: resourcev1.ResourceClaimSpec{
			Devices: resourcev1.DeviceClaim{
				Requests: []resourcev1.DeviceRequest{exactly("first", combined), exactly("second", 1, absent)},
				Constraints: []resourcev1.DeviceConstraint{{
					Requests: []string{"first"}, DistinctAttribute: new(resourcev1.FullyQualifiedName(driver + "/id")),
				}},
			},
		}}
		g.Go(func() error {
			_, err := s.tenant.ResourceV1().ResourceClaims(s.hostile).Create(in, c, metav1.CreateOptions{})
			return err
		})
	}
	return g.Wait()
}

// slice is the devices of a node.
func slice(i int) *resourcev1.ResourceSlice {
	node := fmt.Sprintf("node-%05d", i)
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}}
	for k := range onNode {
		id := int64(1000*i + k)
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprintf("gpu-%d", k), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"id": {IntValue: &id}},
		})
	}
	return s
}
