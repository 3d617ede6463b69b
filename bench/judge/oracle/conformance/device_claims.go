package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// lateClaim is a claim of a pod's template that is to be made yet.
type lateClaim struct {
	pod   types.UID
	entry string
}

// pod gives a pod claims, or extended resources, or nothing.
func (f *deviceFamily) pod(p *v1.Pod) (out Round) {
	g := f.g
	p.Spec.ResourceClaims, p.Status.ResourceClaimStatuses = nil, nil
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} { // of a pod that it is a copy of
		for i := range list {
			maps.DeleteFunc(list[i].Resources.Requests, func(name v1.ResourceName, _ resource.Quantity) bool {
				return name == accelerator || strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
			})
		}
	}
	if g.chance(20) {
		return nil
	}
	if f.style.extended && g.chance(45) {
		out = f.extend(p)
		if f.style.plugins || g.chance(75) {
			return out
		}
	}
	held := false // a claim that may be taken from the pod again
	for i := range oneOf(g.strange, 1, 1, 1, 1, 2, 2, 3) {
		out = append(out, f.entry(p, fmt.Sprintf("claim-%d", i), &held)...)
	}
	return out
}

// entry adds a claim to a pod.
func (f *deviceFamily) entry(p *v1.Pod, name string, held *bool) Round {
	g := f.g
	add := func(e v1.PodResourceClaim) {
		e.Name = name
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, e)
	}
	switch n := g.IntN(50); {
	case n == 0:
		add(v1.PodResourceClaim{ResourceClaimName: ptr.To("not-there")})
		return nil
	case n == 1:
		add(v1.PodResourceClaim{ResourceClaimTemplateName: ptr.To("template")})
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{Name: name})
		return nil
	case n < 4:
		add(v1.PodResourceClaim{ResourceClaimTemplateName: ptr.To("template")})
		f.late = append(f.late, lateClaim{p.UID, name})
		return nil
	case n < 12 && len(f.shared) > 0:
		claim := oneOf(g.strange, f.shared...)
		// Upstream allocates a claim twice that a pod has twice, and never binds the pod.
		if claim.Namespace == p.Namespace && !claims(p, claim.Name) {
			add(v1.PodResourceClaim{ResourceClaimName: ptr.To(claim.Name)})
		}
		return nil
	}
	claim := f.claim(p.Namespace)
	if f.g.chance(25) {
		add(v1.PodResourceClaim{ResourceClaimName: ptr.To(claim.Name)})
		f.shared = append(f.shared, claim)
	} else {
		add(v1.PodResourceClaim{ResourceClaimTemplateName: ptr.To("template")})
		f.own(p, name, claim)
	}
	switch {
	case p.Spec.NodeName != "":
		if f.allocate(claim, p.Spec.NodeName) {
			claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
		}
	case g.chance(8) && f.allocate(claim, oneOf(g.strange, g.cluster.Nodes...).Name):
		f.holds(p, claim, held)
	}
	return Round{set(claim)}
}

// claims tells whether a pod has a claim.
func claims(p *v1.Pod, claim string) bool {
	return slices.ContainsFunc(p.Spec.ResourceClaims, func(e v1.PodResourceClaim) bool { return ptr.Deref(e.ResourceClaimName, "") == claim })
}

// own makes a claim the one of a pod's template, seldom that of another pod.
func (f *deviceFamily) own(p *v1.Pod, entry string, claim *resourcev1.ResourceClaim) {
	owner := p.UID
	if f.g.chance(1) {
		owner = "somebody"
	}
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: owner, Controller: ptr.To(true)}}
	p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses,
		v1.PodResourceClaimStatus{Name: entry, ResourceClaimName: ptr.To(claim.Name)})
}

// holds has a claim that a pod waits with be allocated from an attempt before. Of several that nobody else uses
// upstream takes the devices from any, so that a pod gets one at the most.
func (f *deviceFamily) holds(p *v1.Pod, claim *resourcev1.ResourceClaim, held *bool) {
	f.shared = slices.DeleteFunc(f.shared, func(c *resourcev1.ResourceClaim) bool { return c == claim })
	switch {
	case *held || f.g.chance(20):
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{APIGroup: "batch", Resource: "jobs", Name: "job", UID: "job"}}
	case f.g.chance(50):
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	}
	*held = true
}

// twin gives a pod that is like another, but for its name, claims like that one's.
func (f *deviceFamily) twin(first, p *v1.Pod) (out Round) {
	for _, s := range first.Status.ResourceClaimStatuses {
		like := f.of[first.Namespace+"/"+ptr.Deref(s.ResourceClaimName, "")]
		if like == nil {
			p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, s)
			continue
		}
		claim := f.claim(p.Namespace)
		claim.Spec = *like.Spec.DeepCopy()
		f.own(p, s.Name, claim)
		if p.Spec.NodeName != "" && f.allocate(claim, p.Spec.NodeName) {
			claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
		}
		out = append(out, set(claim))
	}
	return out
}

// makeLate makes the claim that a pod waits for.
func (f *deviceFamily) makeLate() Round {
	if len(f.late) == 0 {
		return nil
	}
	late := f.late[0]
	f.late = f.late[1:]
	i := slices.IndexFunc(f.g.pods, func(p *v1.Pod) bool { return p.UID == late.pod })
	if i < 0 {
		return nil
	}
	p := f.g.pods[i].DeepCopy()
	f.g.pods[i] = p
	claim := f.claim(p.Namespace)
	f.own(p, late.entry, claim)
	out := Round{set(claim), set(p)}
	if f.g.chance(50) {
		out[0], out[1] = out[1], out[0]
	}
	return out
}

// claim is a new one.
func (f *deviceFamily) claim(namespace string) *resourcev1.ResourceClaim {
	g := f.g
	f.made++
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("devices-%d", f.made), Namespace: namespace}}
	c.UID = types.UID(c.Name)
	f.of[namespace+"/"+c.Name] = c
	for i := range oneOf(g.strange, 1, 1, 1, 1, 2, 2, 3) {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, f.request(fmt.Sprintf("r%d", i)))
	}
	if g.chance(20) {
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, f.constraint(c.Spec.Devices.Requests))
	}
	if g.chance(15) {
		config := resourcev1.DeviceClaimConfiguration{DeviceConfiguration: f.opaque("claim")}
		if g.chance(60) {
			config.Requests = []string{"r0"}
		}
		c.Spec.Devices.Config = append(c.Spec.Devices.Config, config)
	}
	return c
}

// request asks for a device, for several, for all, or for one of some alternatives.
func (f *deviceFamily) request(name string) resourcev1.DeviceRequest {
	g := f.g
	r := resourcev1.DeviceRequest{Name: name}
	if g.chance(20) {
		for i := range 2 + g.IntN(2) {
			x := f.exactly()
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
				Name: fmt.Sprintf("s%d", i), DeviceClassName: x.DeviceClassName, Selectors: x.Selectors,
				AllocationMode: x.AllocationMode, Count: x.Count,
				Tolerations: x.Tolerations, Capacity: x.Capacity,
			})
		}
		return r
	}
	r.Exactly = f.exactly()
	if g.chance(5) {
		r.Exactly.AdminAccess = ptr.To(true)
	}
	return r
}

func (f *deviceFamily) exactly() *resourcev1.ExactDeviceRequest {
	g := f.g
	x := &resourcev1.ExactDeviceRequest{
		AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: oneOf[int64](g.strange, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3),
	}
	x.DeviceClassName = oneOf(g.strange, classGPU, classGPU, classGPU, classNIC, classAny, classBig, classLarge, classFast)
	if f.style.broken {
		name := x.DeviceClassName
		x.DeviceClassName = oneOf(g.strange, name, name, name, name, name, name, classRare)
	}
	switch g.IntN(150) {
	case 0:
		x.DeviceClassName = classNothing
	case 1:
		if f.style.broken {
			x.DeviceClassName = classWrong
		}
	case 2:
		x.Count = 33 // more than a claim may have
	}
	if g.chance(8) {
		x.AllocationMode, x.Count = resourcev1.DeviceAllocationModeAll, 0
	}
	if g.chance(15) {
		x.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: f.expression()}}}
	}
	if f.style.taints && g.chance(35) {
		x.Tolerations = []resourcev1.DeviceToleration{f.toleration()}
	}
	if f.style.shares && g.chance(60) {
		x.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
			"memory": resource.MustParse(oneOf(g.strange, "500Mi", "1Gi", "3Gi", "4Gi", "8Gi")),
		}}
		if g.chance(5) {
			x.Capacity.Requests["streams"] = resource.MustParse("1")
		}
	}
	return x
}

// expression is one that devices of each driver may be asked.
func (f *deviceFamily) expression() string {
	numa := `device.attributes[device.driver].numa == ` + fmt.Sprint(f.g.IntN(2))
	return oneOf(f.g.strange, numa, numa,
		`device.attributes["shared.example.com"].rack == "r1"`,
		`device.attributes[device.driver].driverVersion.isGreaterThan(semver("1.5.0"))`,
		`device.capacity[device.driver].exists(name, name == "memory")`,
		`device.attributes["unknown.example.com"].exists(name, true)`,
		`!device.allowMultipleAllocations`,
	)
}

func (f *deviceFamily) toleration() resourcev1.DeviceToleration {
	t := resourcev1.DeviceToleration{Key: oneOf(f.g.strange, "broken", "reserved"), Operator: resourcev1.DeviceTolerationOpExists}
	switch f.g.IntN(4) {
	case 0:
		t.Operator, t.Value = resourcev1.DeviceTolerationOpEqual, oneOf(f.g.strange, "", "yes")
	case 1:
		t.Key = ""
	case 2:
		t.Effect = oneOf(f.g.strange, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute)
	}
	return t
}

// constraint ties devices of some requests, or of all, together.
func (f *deviceFamily) constraint(requests []resourcev1.DeviceRequest) resourcev1.DeviceConstraint {
	g := f.g
	attribute := ptr.To(oneOf[resourcev1.FullyQualifiedName](g.strange,
		driverGPU+"/numa", driverGPU+"/model", driverGPU+"/driverVersion", "shared.example.com/rack", driverGPU+"/fast"))
	c := resourcev1.DeviceConstraint{MatchAttribute: attribute}
	if g.chance(30) {
		c.MatchAttribute, c.DistinctAttribute = nil, attribute
	}
	if g.chance(30) {
		r := oneOf(g.strange, requests...)
		c.Requests = []string{r.Name}
		if len(r.FirstAvailable) > 0 && g.chance(50) {
			c.Requests[0] += "/" + r.FirstAvailable[0].Name
		}
	}
	return c
}

// allocate gives a claim devices of a node, whatever it asks for; false: there are too few.
func (f *deviceFamily) allocate(claim *resourcev1.ResourceClaim, node string) bool {
	var free []resourcev1.DeviceRequestAllocationResult
	conditioned := false
	for _, s := range f.slices {
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			r := resourcev1.DeviceRequestAllocationResult{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name}
			if ptr.Deref(s.Spec.NodeName, "") != node || f.taken[deviceOf(&r)] || d.AllowMultipleAllocations != nil {
				continue
			}
			r.BindingConditions, r.BindingFailureConditions = d.BindingConditions, d.BindingFailureConditions
			conditioned = conditioned || d.BindingConditions != nil
			free = append(free, r)
		}
	}
	a := &resourcev1.AllocationResult{NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{build.Names(node)}}}
	for _, r := range claim.Spec.Devices.Requests {
		name, count := r.Name, int64(1)
		if r.Exactly != nil {
			count = max(r.Exactly.Count, 1)
		} else {
			name += "/" + r.FirstAvailable[0].Name
		}
		if int(count) > len(free) {
			return false
		}
		for range count {
			free[0].Request = name
			if r.Exactly != nil {
				free[0].AdminAccess = r.Exactly.AdminAccess
			}
			a.Devices.Results = append(a.Devices.Results, free[0])
			free = free[1:]
		}
	}
	for i := range a.Devices.Results {
		f.taken[deviceOf(&a.Devices.Results[i])] = true
	}
	claim.Finalizers = []string{resourcev1.Finalizer}
	claim.Status.Allocation = a
	if conditioned {
		f.waits(claim)
	}
	return true
}

func deviceOf(r *resourcev1.DeviceRequestAllocationResult) string {
	return r.Driver + "/" + r.Pool + "/" + r.Device
}

// waits says since when a claim waits for its devices, and what was heard of them.
func (f *deviceFamily) waits(claim *resourcev1.ResourceClaim) {
	switch f.g.IntN(3) {
	case 0:
		claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Unix(epoch, 0)} // too long
	case 1:
		claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Unix(everAfter, 0)}
	}
	if f.g.chance(50) {
		report(claim, oneOf(f.g.strange, "ready", "ready", "failed"))
	}
}

// extend has a pod ask for extended resources that devices may stand for. Seldom there is a claim for
// them already, which was left behind.
func (f *deviceFamily) extend(p *v1.Pod) Round {
	g := f.g
	name := func() v1.ResourceName {
		const ofClass = resourcev1.ResourceDeviceClassPrefix
		return v1.ResourceName(oneOf(g.strange, accelerator, accelerator, accelerator, ofClass+classGPU, ofClass+classNIC))
	}
	if len(p.Spec.Containers) == 0 {
		return nil
	}
	containers := []*v1.Container{&p.Spec.Containers[0]}
	if g.chance(20) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "second"})
		containers = []*v1.Container{&p.Spec.Containers[0], &p.Spec.Containers[len(p.Spec.Containers)-1]}
	}
	if g.chance(20) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: "before"})
		containers = append(containers, &p.Spec.InitContainers[len(p.Spec.InitContainers)-1])
	}
	for _, c := range containers {
		if c.Resources.Requests == nil {
			c.Resources.Requests = v1.ResourceList{}
		}
		c.Resources.Requests[name()] = resource.MustParse(oneOf(g.strange, "1", "1", "1", "2"))
		if g.chance(10) {
			c.Resources.Requests["example.com/foo"] = resource.MustParse("1")
		}
	}
	if p.Spec.NodeName != "" || !g.chance(4) {
		return nil
	}
	stale := f.claim(p.Namespace)
	f.own(p, "", stale)
	p.Status.ResourceClaimStatuses = nil
	stale.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	return Round{set(stale)}
}
