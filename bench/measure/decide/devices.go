package main

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Devices are as in scheduler_perf: a node publishes one slice of devices, which differ in nothing but names and NUMA nodes, and a
// pod has a claim for one of them.
const (
	deviceDriver = "test-driver.cdi.k8s.io"
	deviceClass  = "test-class"
	nodeDevices  = 10
	extended     = "example.com/gpu"
	// leaving is how many pods with claims come at a time, and leave before others come, where nearly all devices are in use.
	leaving = 10
	// sharing pods have a claim together.
	sharing = 5
)

// half is how many devices are in use where pods fill the other half, nearlyAll 99.8 % of them, of few nodes all but ten.
func half(nodes int) int      { return nodes * nodeDevices / 2 }
func nearlyAll(nodes int) int { return nodes*nodeDevices - max(nodes*nodeDevices/500, leaving) }

// deviceKinds are the kinds of pods with claims of devices.
func deviceKinds() []Kind {
	claims := Kind{
		Name: "claims", Named: true, About: "a claim from a template each, for one of a node's ten devices; half of them are in use", apps: 1,
		fill: half, perNode: nodeDevices / 2, shared: classOfDevices, node: publishes, pod: claiming(oneDevice), placed: allocated,
	}
	full := claims
	full.Name, full.About = "claims-full", "the same, 99.8 % in use: ten pods come at a time, and leave before others come"
	full.fill, full.perNode, full.leave = nearlyAll, 0, leaving
	parts := claims
	parts.Name, parts.About = "partitionable", "a quarter, a half or the whole of one of a node's four devices each, which share counters"
	parts.fill, parts.perNode, parts.node, parts.pod = nil, 4, partitions, claiming(onePart)
	list := claims
	list.Name, list.About = "prioritized-list", "rather a device of a model that no node has, else of one that every third has, else any"
	list.node, list.pod = models, claiming(firstAvailable)
	together := claims
	together.Name, together.About = "shared-claim", "five pods use a claim for a device together"
	together.fill, together.perNode, together.pod = nil, 0, claimingTogether
	resources := claims
	resources.Name, resources.About = "extended-devices", "an extended resource, which devices of a class stand for"
	resources.shared, resources.pod = classOfResource, extendedly
	return []Kind{claims, full, parts, list, together, resources}
}

func classOfDevices() []oracle.Object { return []oracle.Object{class()} }

func classOfResource() []oracle.Object {
	c := class()
	c.Spec.ExtendedResourceName = ptr.To(extended)
	return []oracle.Object{c}
}

func class() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: deviceClass}, Spec: resourcev1.DeviceClassSpec{
		Selectors: selecting(fmt.Sprintf("device.driver == %q", deviceDriver)),
	}}
}

func selecting(expression string) []resourcev1.DeviceSelector {
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

func publishes(node *v1.Node) []oracle.Object {
	return []oracle.Object{slice(node.Name, 1, ofModel("A100"))}
}

// models are A100 on one node in three, else T4.
func models(node *v1.Node) []oracle.Object {
	if strings.HasSuffix(node.Labels[v1.LabelTopologyZone], "0") {
		return publishes(node)
	}
	return []oracle.Object{slice(node.Name, 1, ofModel("T4"))}
}

func slice(node string, count int64, devices []resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: deviceDriver, NodeName: ptr.To(node), Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: count}, Devices: devices,
	}}
}

func ofModel(model string) (out []resourcev1.Device) {
	for i := range nodeDevices {
		out = append(out, resourcev1.Device{
			Name: fmt.Sprintf("instance-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"model": {StringValue: ptr.To(model)}, "family": {StringValue: ptr.To("GPU")}, "driverVersion": {VersionValue: ptr.To("1.2.3")},
				"dra.example.com/numa": {IntValue: ptr.To(int64(i))},
			},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("1Gi")}},
		})
	}
	return out
}

// partitions are four devices, each to be had as a whole, as two halves or as four quarters.
func partitions(node *v1.Node) []oracle.Object {
	counters, devices := slice(node.Name, 2, nil), slice(node.Name, 2, nil)
	counters.Name += "-counters"
	for i := range 4 {
		set := fmt.Sprintf("gpu-%d", i)
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourcev1.CounterSet{Name: set, Counters: ofMemory(80)})
		for at, parts := range []int{1, 2, 4} {
			for part := range parts {
				devices.Spec.Devices = append(devices.Spec.Devices, resourcev1.Device{
					Name:             fmt.Sprintf("%s-%s-%d", set, profiles[at], part),
					Attributes:       map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"profile": {StringValue: ptr.To(profiles[at])}},
					ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: set, Counters: ofMemory(80 / parts)}},
				})
			}
		}
	}
	return []oracle.Object{counters, devices}
}

var profiles = [...]string{"whole", "half", "quarter"}

func ofMemory(gib int) map[string]resourcev1.Counter {
	return map[string]resourcev1.Counter{"memory": {Value: resource.MustParse(fmt.Sprintf("%dGi", gib))}}
}

// asking is what the ith pod asks for, and the device that it has where it is on a node.
type asking func(m *maker, i int) (resourcev1.DeviceRequest, string)

// oneDevice asks for any device.
func oneDevice(m *maker, i int) (resourcev1.DeviceRequest, string) {
	return exactly(nil), fmt.Sprintf("instance-%d", i/len(m.workload.Nodes))
}

func exactly(selectors []resourcev1.DeviceSelector) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: "req-0", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: deviceClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1, Selectors: selectors,
	}}
}

// onePart asks for parts in turn. Those that are in use are quarters.
func onePart(_ *maker, i int) (resourcev1.DeviceRequest, string) {
	profile := profiles[len(profiles)-1-i%len(profiles)]
	return exactly(selecting(fmt.Sprintf("device.attributes[%q].profile == %q", deviceDriver, profile))), "gpu-0-quarter-0"
}

func firstAvailable(m *maker, i int) (resourcev1.DeviceRequest, string) {
	out, device := oneDevice(m, i)
	for at, model := range []string{"H100", "A100", ""} {
		sub := resourcev1.DeviceSubRequest{
			Name: fmt.Sprintf("sub-%d", at), DeviceClassName: deviceClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
		}
		if model != "" {
			sub.Selectors = selecting(fmt.Sprintf("device.attributes[%q].model == %q", deviceDriver, model))
		}
		out.FirstAvailable = append(out.FirstAvailable, sub)
	}
	out.Exactly = nil
	return out, device
}

// claiming gives pods a claim of their own each. A pod on a node has a device.
func claiming(asks asking) func(*maker, *build.PodBuilder, int, *v1.Node) []oracle.Object {
	return func(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
		modest(m, b, i, on)
		p := b.Obj()
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: ptr.To("devices")}}
		p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "devices", ResourceClaimName: ptr.To(p.Name)}}
		request, device := asks(m, i)
		c := deviceClaim(p.Name, request)
		c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, v1.SchemeGroupVersion.WithKind("Pod"))}
		if on != nil {
			name := request.Name
			if len(request.FirstAvailable) > 0 {
				name += "/" + request.FirstAvailable[len(request.FirstAvailable)-1].Name
			}
			gives(c, p, on.Name, []string{spelled(name, deviceDriver, on.Name, device)})
		}
		return []oracle.Object{c}
	}
}

// claimingTogether has five pods in a row use a claim. Those on nodes use one each.
func claimingTogether(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
	if on != nil {
		return claiming(oneDevice)(m, b, i, on)
	}
	modest(m, b, i, on)
	p := b.Obj()
	name := fmt.Sprintf("shared-%d", i/sharing)
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "devices", ResourceClaimName: &name}}
	if i%sharing > 0 {
		return nil
	}
	return []oracle.Object{deviceClaim(name, exactly(nil))}
}

// extendedly has a pod ask for an extended resource. For a pod on a node the claim is made already.
func extendedly(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
	modest(m, b, i, on)
	p := b.Request(extended, "1").Obj()
	if on == nil {
		return nil
	}
	c := specialClaim(p)
	_, device := oneDevice(m, i)
	gives(c, p, on.Name, []string{spelled(c.Spec.Devices.Requests[0].Name, deviceDriver, on.Name, device)})
	return []oracle.Object{c}
}

// specialClaim is what is made for a pod's extended resource.
func specialClaim(p *v1.Pod) *resourcev1.ResourceClaim {
	request := exactly(nil)
	request.Name = "container-0-request-0"
	c := deviceClaim(p.Name+"-extended-resources", request)
	c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, v1.SchemeGroupVersion.WithKind("Pod"))}
	return c
}

func deviceClaim(name string, request resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: meta(name)}
	c.UID, c.Spec.Devices.Requests = types.UID("claim-"+name), []resourcev1.DeviceRequest{request}
	return c
}

// gives allocates devices, as decisions tell them, for a pod on a node.
func gives(c *resourcev1.ResourceClaim, p *v1.Pod, node string, devices []string) {
	c.Finalizers = []string{resourcev1.Finalizer}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	a := &resourcev1.AllocationResult{NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{build.Names(node)}}}
	for _, d := range devices {
		words := strings.Split(d, "/")
		at := len(words) - 3 // a request of a list is two words
		a.Devices.Results = append(a.Devices.Results, resourcev1.DeviceRequestAllocationResult{
			Request: strings.Join(words[:at], "/"), Driver: words[at], Pool: words[at+1], Device: words[at+2],
		})
	}
	c.Status.Allocation = a
}

// spelled is a device of a claim as decisions tell it.
func spelled(request, driver, pool, device string) string {
	return strings.Join([]string{request, driver, pool, device}, "/")
}

// claimDevices is what a decision tells of a claim.
type claimDevices struct {
	Claim   string   `json:"claim"` // empty: the one for extended resources
	Devices []string `json:"devices"`
}

// told is a part of a decision as it stands there, so that decisions can be compared.
type told string

// UnmarshalJSON keeps the text.
func (t *told) UnmarshalJSON(text []byte) error {
	*t = told(text)
	return nil
}

// claims are those that a decision has allocated.
func (d *decision) claims() (out []claimDevices, err error) {
	if d.Claims != "" {
		err = json.Unmarshal([]byte(d.Claims), &out)
	}
	return out, err
}

// allocated are the claims of a placement, with their devices.
func allocated(p *v1.Pod, d *decision) (out []oracle.Object, err error) {
	claims, err := d.claims()
	if err != nil {
		return nil, fmt.Errorf("claims of pod %s: %w", p.Name, err)
	}
	for _, x := range claims {
		c := specialClaim(p)
		if x.Claim != "" {
			c = deviceClaim(strings.TrimPrefix(x.Claim, p.Namespace+"/"), exactly(nil))
			c.OwnerReferences = nil
			if c.Name == p.Name {
				c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, v1.SchemeGroupVersion.WithKind("Pod"))}
			}
		}
		gives(c, p, d.Node, x.Devices)
		out = append(out, c)
	}
	return out, nil
}

// claimsOf are those that leave with a pod: claims that bear its name.
func claimsOf(p *v1.Pod) (out []*resourcev1.ResourceClaim) {
	for _, s := range p.Status.ResourceClaimStatuses {
		out = append(out, &resourcev1.ResourceClaim{ObjectMeta: meta(*s.ResourceClaimName)})
	}
	return out
}

// devicesOf spells the devices of claims as decisions do.
func devicesOf(claims []*resourcev1.ResourceClaim) (out []claimDevices) {
	for _, c := range claims {
		x := claimDevices{Claim: c.Namespace + "/" + c.Name}
		if c.Name == oracle.SpecialClaim {
			x.Claim = ""
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			x.Devices = append(x.Devices, spelled(r.Request, r.Driver, r.Pool, r.Device))
		}
		out = append(out, x)
	}
	return out
}
