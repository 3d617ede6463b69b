package devices

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func allStories() (all []story) {
	for _, some := range [][]story{lifeStories(), shareStories(), nodeStories(), listStories(), extendedStories(), conditionStories()} {
		all = append(all, some...)
	}
	if rig.Upstream() {
		// A crowd that shares a claim takes it minutes, in which other pods wait.
		all = slices.DeleteFunc(all, func(s story) bool { return s.name == "crowd" })
	}
	return all
}

func objects(list ...runtime.Object) []runtime.Object { return list }

func pods(list ...*v1.Pod) []*v1.Pod { return list }

func number(i int) string { return strconv.Itoa(i) }

func isBound(p *v1.Pod) bool { return testbed.IsBound(p) }

// capacious is a device with so much memory, which claims can share.
func capacious(memory string) resourcev1.Device {
	yes := true
	return resourcev1.Device{
		Name: "a", AllowMultipleAllocations: &yes,
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse(memory)}},
	}
}

// memory asks for so much of a device's.
func memory(quantity string) func(*resourcev1.ExactDeviceRequest) {
	return func(e *resourcev1.ExactDeviceRequest) {
		e.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(quantity)}}
	}
}

// nodeStories are about which nodes have which devices.
func nodeStories() []story {
	const invalid = "1 invalid resource pools were encountered"
	return []story{
		partitions(),
		{name: "all", nodes: 4, objects: filled("all", 4, 8), pods: claiming("all", 32), check: checkAll},
		{name: "chosen", nodes: 3, objects: objects(perDevice("chosen", 3), template("chosen", one("chosen"))), pods: claiming("chosen", 3), check: checkChosen},
		{name: "wide", nodes: 4, objects: objects(wide(), claim("wide", one("wide"))), pods: apart("wide", 3), check: checkWide},
		{
			name: "untold", nodes: 2, objects: append(doubled("untold", 0), slice("untold", 1, named("a")...), claim("untold", one("untold"))), pods: pods(with(pod("untold", "untold"), "untold")),
			check: func(b *bed) {
				b.Goes("default/untold", "untold-1")
				b.has("untold", "r/untold-1/a")
			},
		},
		{
			name: "doubled", nodes: 3, objects: append(doubled("doubled", 0), claim("doubled", one("doubled"))), pods: pods(with(pod("doubled", "doubled"), "doubled")),
			check: func(b *bed) { b.waits("doubled", invalid, "2 cannot allocate all claims") },
		},
		{
			name: "doubled-all", nodes: 2, objects: append(doubled("doubled-all", 0, 1), claim("doubled-all", one("doubled-all"))), pods: pods(with(pod("doubled-all", "doubled-all"), "doubled-all")),
			check: func(b *bed) {
				const both = "2 invalid resource pools were encountered"
				if got, want := b.waits("doubled-all", both), b.told(both); got != want {
					b.T.Errorf("got  %s\nwant %s", got, want)
				}
			},
		},
		{
			name: "taints", nodes: 1, objects: objects(slice("taints", 0, tainted("a")), claim("sensitive", one("taints")), claim("tolerant", one("taints", func(e *resourcev1.ExactDeviceRequest) {
				e.Tolerations = []resourcev1.DeviceToleration{{Key: "testing", Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoSchedule}}
			}))),
			pods: pods(with(pod("taints", "sensitive"), "sensitive")),
			check: func(b *bed) {
				b.waits("sensitive", noDevice)
				b.Create(with(pod("taints", "tolerant"), "tolerant"))
				b.Bound("default/tolerant")
			},
		},
		{
			name: "largest", nodes: 1, objects: objects(largest(), claim("largest", one("largest", func(e *resourcev1.ExactDeviceRequest) {
				e.Selectors = matching(`device.attributes["largest.example"].a31 == "` + strings.Repeat("x", 61) + `127"`)
			}))),
			pods:  pods(with(pod("largest", "largest"), "largest")),
			check: func(b *bed) { b.Bound("default/largest"); b.has("largest", "r/largest-0/d127") },
		},
	}
}

// filled are so many devices on each of so many nodes, and a template for one.
func filled(story string, nodes, devices int) []runtime.Object {
	out := objects(template(story, one(story)))
	for n := range nodes {
		var names []string
		for i := range devices {
			names = append(names, "d"+number(i))
		}
		out = append(out, slice(story, n, named(names...)...))
	}
	return out
}

// claiming are pods that each have a claim of the story's template.
func claiming(story string, n int) (out []*v1.Pod) {
	for i := range n {
		out = append(out, from(pod(story, story+"-"+number(i)), story))
	}
	return out
}

// allocated waits until pods with generated claims are bound, and returns the claim of each device. A device that two claims
// have is an error, as is one of another node than the pod's.
func (b *bed) allocated(pods []*v1.Pod) map[string]string {
	b.T.Helper()
	var keys []string
	for _, p := range pods {
		keys = append(keys, "default/"+p.Name)
	}
	b.Until("are bound", isBound, keys...)
	list, err := b.Admin.ResourceV1().ResourceClaims("default").List(b.T.Context(), metav1.ListOptions{})
	b.Must(err)
	taken, nodes := map[string]string{}, map[string]string{}
	for _, p := range b.Pods.All() {
		nodes[p.Name] = p.Spec.NodeName
	}
	for _, c := range list.Items {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if r.Driver != driver(b.name) {
				continue
			}
			device := r.Pool + "/" + r.Device
			if taken[device] != "" {
				b.T.Errorf("device %s: the claims %s and %s have it", device, taken[device], c.Name)
			}
			taken[device] = c.Name
			if len(c.Status.ReservedFor) != 1 || nodes[c.Status.ReservedFor[0].Name] == "" {
				b.T.Errorf("claim %s: reserved for %v, want a pod that is bound", c.Name, c.Status.ReservedFor)
			} else if at := nodes[c.Status.ReservedFor[0].Name]; c.Status.Allocation.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values[0] != at {
				b.T.Errorf("claim %s: %v, want a device of its pod's node %s", c.Name, c.Status.Allocation, at)
			}
		}
	}
	if len(taken) != len(pods) {
		b.T.Errorf("got %d devices, want one for each of %d pods", len(taken), len(pods))
	}
	return taken
}

// checkAll has every device of every node in use.
func checkAll(b *bed) {
	b.allocated(b.pods)
	b.Create(from(pod("all", "all-more"), "all"))
	b.waits("all-more", "4 cannot allocate all claims")
}

const (
	partitioned   = 50
	slotsOfAGPU   = 8
	partitionsAll = 200
)

// partitions are nodes with a GPU each, of which claims take an eighth, a quarter, or a half.
func partitions() story {
	const name = "partitions"
	s := story{name: name, nodes: partitioned, check: checkPartitions}
	for n := range partitioned {
		counters, devices := slice(name, n), slice(name, n)
		counters.Name, counters.Spec.Pool.ResourceSliceCount = counters.Name+"-counters", 2
		counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "gpu", Counters: slots(slotsOfAGPU)}}
		devices.Spec.Pool.ResourceSliceCount = 2
		for size := 1; size < slotsOfAGPU; size *= 2 {
			for i := range slotsOfAGPU / size {
				devices.Spec.Devices = append(devices.Spec.Devices, resourcev1.Device{
					Name: fmt.Sprintf("of-%d-%d", size, i), ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: "gpu", Counters: slots(size)}},
					Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"size": {IntValue: new(int64(size))}},
				})
			}
		}
		s.objects = append(s.objects, counters, devices)
	}
	// The last half finds a node with four free slots, however the others are spread: they take 246, and five on each node
	// would be 250.
	for i := range partitionsAll {
		size := 1
		switch {
		case i%20 == 0:
			size = 4
		case i%10 == 1:
			size = 2
		}
		s.pods = append(s.pods, from(pod(name, name+"-"+number(i)), fmt.Sprint(name, "-", size)))
	}
	for _, size := range []int{1, 2, 4} {
		s.objects = append(s.objects, template(fmt.Sprint(name, "-", size), one(name, func(e *resourcev1.ExactDeviceRequest) {
			e.Selectors = matching(fmt.Sprintf("device.attributes[%q].size == %d", driver(name), size))
		})))
	}
	return s
}

func slots(n int) map[string]resourcev1.Counter {
	return map[string]resourcev1.Counter{"slots": {Value: *resource.NewQuantity(int64(n), resource.DecimalSI)}}
}

func checkPartitions(b *bed) {
	used := map[string]int{}
	for device := range b.allocated(b.pods) {
		pool, name, _ := strings.Cut(device, "/")
		size, err := strconv.Atoi(strings.Split(name, "-")[1])
		b.Must(err)
		used[pool] += size
	}
	all := 0
	for pool, n := range used {
		if all += n; n > slotsOfAGPU {
			b.T.Errorf("pool %s: %d slots are in use, want %d at the most", pool, n, slotsOfAGPU)
		}
	}
	if all != 250 {
		b.T.Errorf("got %d slots in use, want 250", all)
	}
}

// perDevice is a slice of a device for each node.
func perDevice(story string, nodes int) *resourcev1.ResourceSlice {
	yes := true
	s := slice(story, 0)
	s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = nil, &yes
	for n := range nodes {
		name := node(story, n)
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: "for-" + name, NodeName: &name})
	}
	return s
}

func checkChosen(b *bed) {
	for device, claim := range b.allocated(b.pods) {
		pod := b.claim(b.T.Context(), claim).Status.ReservedFor[0].Name
		if at := b.Pods.Get("default/" + pod).Spec.NodeName; device != "chosen-0/for-"+at {
			b.T.Errorf("pod %s on %s: got %s", pod, at, device)
		}
	}
}

// wide is a slice of one device that three of four nodes reach.
func wide() *resourcev1.ResourceSlice {
	s := perDevice("wide", 0)
	s.Spec.Devices = []resourcev1.Device{{Name: "a", NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node("wide", 0), node("wide", 1), node("wide", 2)}}},
	}}}}}
	return s
}

// apart are pods that share the story's claim and go to a node each.
func apart(story string, n int) (out []*v1.Pod) {
	for i := range n {
		p := pod(story, story+"-"+number(i)).Label("app", story).Apart(build.Around(v1.LabelHostname, "app="+story))
		out = append(out, with(p, story))
	}
	return out
}

func checkWide(b *bed) {
	at := map[string]bool{}
	for _, p := range b.pods {
		at[b.Bound("default/"+p.Name)] = true
	}
	if len(at) != 3 || at[node("wide", 3)] {
		b.T.Errorf("got the nodes %v, want the three that reach the device", at)
	}
	b.Create(apart("wide", 4)[3])
	b.waits("wide-3", "1 resourceclaim not available on the node", "3 node(s) didn't match pod anti-affinity rules")
}

// doubled are slices of pools that have a device twice.
func doubled(story string, nodes ...int) (out []runtime.Object) {
	for _, n := range nodes {
		for i := range 2 {
			s := slice(story, n, named("a")...)
			s.Name, s.Spec.Pool.ResourceSliceCount = s.Name+"-"+number(i), 2
			out = append(out, s)
		}
	}
	return out
}

func tainted(name string) resourcev1.Device {
	return resourcev1.Device{Name: name, Taints: []resourcev1.DeviceTaint{{Key: "testing", Effect: resourcev1.DeviceTaintEffectNoSchedule}}}
}

// largest is a slice of as many devices with as many attributes as the API lets it have.
func largest() *resourcev1.ResourceSlice {
	s := slice("largest", 0)
	for d := range resourcev1.ResourceSliceMaxDevices {
		device := resourcev1.Device{Name: "d" + number(d), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
		for a := range resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
			value := strings.Repeat("x", resourcev1.DeviceAttributeMaxValueLength-3) + fmt.Sprintf("%03d", d)
			device.Attributes[resourcev1.QualifiedName("a"+number(a))] = resourcev1.DeviceAttribute{StringValue: &value}
		}
		s.Spec.Devices = append(s.Spec.Devices, device)
	}
	return s
}

// listStories are about requests that have several ways to be met.
func listStories() []story {
	s := story{name: "list", nodes: 4, check: checkList}
	for n := range s.nodes {
		own := class("list")
		own.Name = node("list", n)
		own.Spec.Selectors = matching(fmt.Sprintf(`device.driver == "list.example" && device.attributes["list.example"].n == %d`, n))
		devices := named("a", "b")
		for i := range devices {
			devices[i].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"n": {IntValue: new(int64(n))}}
		}
		s.objects = append(s.objects, own, slice("list", n, devices...))
	}
	s.objects = append(s.objects, claim("list", oneOf(0, 2, 1, 3)), claim("list-1", oneOf(1, 2, 3)), claim("list-2", oneOf(2, 3, 1)), claim("list-none", oneOf(9)))
	none := class("list")
	none.Name = node("list", 9)
	none.Spec.Selectors = matching("false")
	s.objects = append(s.objects, none)
	s.pods = pods(with(pod("list", "list"), "list"), with(pod("list", "list-none"), "list-none"))
	return []story{s}
}

// oneOf asks for a device of one of the nodes, in this order.
func oneOf(nodes ...int) resourcev1.ResourceClaimSpec {
	r := resourcev1.DeviceRequest{Name: "r"}
	for i, n := range nodes {
		r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{Name: "s" + number(i), DeviceClassName: node("list", n)})
	}
	return asking(r)
}

func checkList(b *bed) {
	b.Goes("default/list", "list-0")
	b.has("list", "r/s0/list-0/a")
	b.waits("list-none", "4 cannot allocate all claims")
	// Node 2 is the second choice of one and the first of the other: together, that is the best.
	b.Create(with(pod("list", "lists"), "list-1", "list-2"))
	b.Goes("default/lists", "list-2")
	b.has("list-1", "r/s1/list-2/a")
	b.has("list-2", "r/s0/list-2/b")
}
