package leader

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
)

// gpuObjects are a class, a template of claims for one device of it, and a slice of so many devices for each node.
func gpuObjects(nodes []objects.Object, n int) []objects.Object {
	class := &resourcev1.DeviceClass{}
	class.Name = "gpu"
	template := &resourcev1.ResourceClaimTemplate{}
	template.Name, template.Namespace = "one", "default"
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{
		{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}},
	}
	all := []objects.Object{class, template}
	for _, node := range nodes {
		name := node.GetName()
		s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
		}}
		s.Name = name
		for i := range n {
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i)})
		}
		all = append(all, s)
	}
	return all
}

// Claims are made with their pods, allocated once each, and taken over by the next leader.
func TestDevicesAreAllocatedOnceAcrossTerms(t *testing.T) {
	f := newFleet(t)
	first := f.join("first")
	first.waitTerm(true)
	nodes := someNodes(4, "8")
	first.apply(nodes...)
	first.apply(gpuObjects(nodes, 3)...)
	claiming := func(prefix string, n int) []objects.Object {
		pods := somePods(prefix, n, "1")
		for _, p := range pods {
			template := "one"
			p.(*v1.Pod).Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
		}
		return pods
	}
	first.apply(claiming("a", 6)...)
	f.waitBound(6)
	second := f.join("second")
	f.lose(first)
	second.waitTerm(true)
	second.apply(claiming("b", 6)...)
	f.waitBound(12)

	all, err := store.New(f.client(), "test").Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	node := map[string]string{}
	for _, p := range all.Pods {
		node[p.Name] = p.Spec.NodeName
	}
	taken := map[devices.Device]string{}
	for _, obj := range all.Cluster {
		c, ok := obj.(*resourcev1.ResourceClaim)
		if !ok {
			continue
		}
		if c.Status.Allocation == nil || len(c.Status.ReservedFor) != 1 {
			t.Errorf("claim %s: got %v, want it allocated, and reserved for its pod", c.Name, c.Status)
			continue
		}
		r := c.Status.Allocation.Devices.Results[0]
		at := devices.Device{Driver: r.Driver, Pool: r.Pool, Name: r.Device}
		if taken[at] != "" || node[c.Status.ReservedFor[0].Name] != r.Pool {
			t.Errorf("claim %s has %v, which %q has, for a pod on %s", c.Name, at, taken[at], node[c.Status.ReservedFor[0].Name])
		}
		taken[at] = c.Name
	}
	if len(taken) != 12 {
		t.Errorf("got %d devices allocated, want 12", len(taken))
	}
}
