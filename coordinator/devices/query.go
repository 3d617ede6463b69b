package devices

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxQueryBytes is how large what a pod's claims ask may be: it is held and sent for each class. A request has some hundred
// bytes, and a claim may be as large as the API lets it: more than a megabyte.
//
// Differs from upstream: the attempt of a pod with more is an error.
const maxQueryBytes = 256 << 10

// maxExpressions is how many different expressions what a pod's claims ask may have: a compiled one takes some 50 KiB.
//
// Differs from upstream: the attempt of a pod with more is an error.
const maxExpressions = 256

// query is what a pod's claims ask of nodes. It names no claim, so that pods ask the same whose claims are made of one
// template.
func (c *Cache) query(r *resolved, pod *v1.Pod, patience time.Duration) (*pb.ResourceClaimsQuery, error) {
	q := &pb.ResourceClaimsQuery{Features: &pb.DeviceFeatures{
		PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, BindingConditions: true, ConsumableCapacity: true,
	}}
	size := 0
	for _, claim := range r.claims {
		if claim.Status.Allocation != nil {
			a, err := c.allocatedMessage(claim, patience)
			if err != nil {
				return nil, err
			}
			q.Allocated = append(q.Allocated, a)
			q.AllocatedScore += scoreOf(claim)
			continue
		}
		if size += claim.Spec.Size(); size <= maxQueryBytes {
			q.Claims = append(q.Claims, c.claimMessage(claim))
		}
	}
	if r.extended != nil {
		var err error
		if q.Extended, err = c.extendedMessage(r.extended, pod); err != nil {
			return nil, err
		}
	}
	if size <= maxQueryBytes { // else there is no need to look
		size = proto.Size(q)
	}
	if size > maxQueryBytes {
		const text = "what the resource claims of pod %s/%s ask takes %d bytes, at most %d are supported"
		return nil, fmt.Errorf(text, pod.Namespace, pod.Name, size, maxQueryBytes)
	}
	if n := countExpressions(q); n > maxExpressions {
		const text = "the resource claims of pod %s/%s have %d different expressions, at most %d are supported"
		return nil, fmt.Errorf(text, pod.Namespace, pod.Name, n, maxExpressions)
	}
	return q, q.Validate()
}

func countExpressions(q *pb.ResourceClaimsQuery) int {
	different := map[string]struct{}{}
	note := func(list []*pb.DeviceSelector) {
		for _, s := range list {
			different[s.GetExpression()] = struct{}{}
		}
	}
	for _, c := range q.GetClaims() {
		for _, r := range c.GetRequests() {
			for _, x := range append(r.GetFirstAvailable(), r.GetExactly()) {
				note(x.GetClassSelectors())
				note(x.GetSelectors())
			}
		}
	}
	return len(different)
}

func (c *Cache) claimMessage(claim *resourcev1.ResourceClaim) *pb.DeviceClaim {
	m := &pb.DeviceClaim{}
	for i := range claim.Spec.Devices.Requests {
		m.Requests = append(m.Requests, c.requestMessage(&claim.Spec.Devices.Requests[i]))
	}
	for i := range claim.Spec.Devices.Constraints {
		of := &claim.Spec.Devices.Constraints[i]
		x := &pb.DeviceConstraint{Requests: of.Requests}
		switch {
		case of.MatchAttribute != nil:
			x.Of = &pb.DeviceConstraint_MatchAttribute{MatchAttribute: string(*of.MatchAttribute)}
		case of.DistinctAttribute != nil:
			x.Of = &pb.DeviceConstraint_DistinctAttribute{DistinctAttribute: string(*of.DistinctAttribute)}
		}
		m.Constraints = append(m.Constraints, x)
	}
	return m
}

func (c *Cache) requestMessage(r *resourcev1.DeviceRequest) *pb.DeviceRequest {
	m := &pb.DeviceRequest{Name: r.Name}
	if e := r.Exactly; e != nil {
		m.AdminAccess = e.AdminAccess != nil && *e.AdminAccess
		m.Exactly = c.question(&resourcev1.DeviceSubRequest{
			DeviceClassName: e.DeviceClassName, Selectors: e.Selectors, AllocationMode: e.AllocationMode, Count: e.Count,
			Tolerations: e.Tolerations, Capacity: e.Capacity,
		})
		return m
	}
	for i := range r.FirstAvailable {
		m.FirstAvailable = append(m.FirstAvailable, c.question(&r.FirstAvailable[i]))
	}
	return m
}

var modes = map[resourcev1.DeviceAllocationMode]pb.DeviceMode{
	resourcev1.DeviceAllocationModeExactCount: pb.DeviceMode_DEVICE_MODE_EXACT_COUNT,
	resourcev1.DeviceAllocationModeAll:        pb.DeviceMode_DEVICE_MODE_ALL,
}

func (c *Cache) question(r *resourcev1.DeviceSubRequest) *pb.DeviceQuestion {
	m := &pb.DeviceQuestion{
		Name: r.Name, Class: r.DeviceClassName, Selectors: selectorList(r.Selectors), Count: r.Count,
		Mode: modes[r.AllocationMode], Tolerations: tolerationList(r.Tolerations),
	}
	if m.Mode == pb.DeviceMode_DEVICE_MODE_UNSPECIFIED {
		m.UnknownMode = string(r.AllocationMode)
	}
	if class := c.classes[r.DeviceClassName]; class != nil {
		m.ClassSelectors = selectorList(class.Spec.Selectors)
	} else {
		m.NoClass = true
	}
	if r.Capacity != nil {
		m.Capacity = &pb.DeviceAmounts{Amounts: amountList(r.Capacity.Requests)}
	}
	return m
}

func selectorList(list []resourcev1.DeviceSelector) (out []*pb.DeviceSelector) {
	for i := range list {
		m := &pb.DeviceSelector{}
		if cel := list[i].CEL; cel != nil {
			m.Expression = cel.Expression
		}
		out = append(out, m)
	}
	return out
}

func (c *Cache) allocatedMessage(claim *resourcev1.ResourceClaim, patience time.Duration) (*pb.AllocatedClaim, error) {
	m := &pb.AllocatedClaim{}
	if s := claim.Status.Allocation.NodeSelector; s != nil {
		if _, err := nodeaffinity.NewNodeSelector(s); err != nil {
			return nil, err
		}
		m.Selector = compile.NodeSelector(s)
	}
	ready, err := isReady(claim)
	m.Unavailable = err != nil || !ready && isTimedOut(claim, c.cfg.Now(), patience)
	return m, nil
}

// scoreOf is what the alternatives that an allocated claim has got are worth: each request's first alternative most.
func scoreOf(claim *resourcev1.ResourceClaim) (score int64) {
	taken := map[string]bool{}
	for i := range claim.Status.Allocation.Devices.Results {
		taken[claim.Status.Allocation.Devices.Results[i].Request] = true
	}
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		for j := range r.FirstAvailable {
			if taken[r.Name+"/"+r.FirstAvailable[j].Name] {
				score += resourcev1.FirstAvailableDeviceRequestMaxSize - int64(j)
			}
		}
	}
	return score
}

// extendedMessage asks for extended resources. A class is read by its name, for the mapping may have an older version, or one
// that is gone.
func (c *Cache) extendedMessage(x *extended, pod *v1.Pod) (*pb.ExtendedResourcesQuery, error) {
	m := &pb.ExtendedResourcesQuery{Stale: x.stale != nil}
	for _, name := range x.names {
		r := &pb.MappedResource{Name: string(name)}
		if mapped := c.mapping[name]; mapped != nil && m.Stale {
			r.Class = mapped.Name // NodeResourcesFit leaves the resource to devices; nothing is searched
		} else if mapped != nil {
			class := c.classes[mapped.Name]
			if class == nil {
				const text = "claim %s/%s: could not retrieve device class %s: deviceclass.resource.k8s.io %[3]q not found"
				return nil, fmt.Errorf(text, pod.Namespace, specialName, mapped.Name)
			}
			r.Class, r.ClassSelectors, r.ScoredSelectors = class.Name, selectorList(class.Spec.Selectors), selectorList(mapped.Spec.Selectors)
		}
		m.Resources = append(m.Resources, r)
	}
	if m.Stale {
		return m, nil
	}
	for i := range pod.Spec.InitContainers {
		always := pod.Spec.InitContainers[i].RestartPolicy
		short := always == nil || *always != v1.ContainerRestartPolicyAlways
		m.Containers = append(m.Containers, containerMessage(&pod.Spec.InitContainers[i], x.names, short))
	}
	for i := range pod.Spec.Containers {
		m.Containers = append(m.Containers, containerMessage(&pod.Spec.Containers[i], x.names, false))
	}
	return m, nil
}

// containerMessage lists what a container requests; only of the pod's extended resources it says how much.
func containerMessage(container *v1.Container, extended []v1.ResourceName, short bool) *pb.ContainerResources {
	m := &pb.ContainerResources{ShortLived: short}
	for name := range container.Resources.Requests {
		m.Names = append(m.Names, string(name))
	}
	slices.Sort(m.Names)
	for _, name := range m.Names {
		q := container.Resources.Requests[v1.ResourceName(name)]
		n, whole := q.AsInt64()
		if _, is := slices.BinarySearch(extended, v1.ResourceName(name)); !is || !whole || n < 0 {
			n = 0
		}
		m.Amounts = append(m.Amounts, n)
	}
	return m
}
