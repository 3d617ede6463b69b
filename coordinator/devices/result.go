package devices

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Found is what the table has found for one claim on the chosen row.
type Found struct {
	// Results are in the order of the search.
	Results []FoundDevice
	// Chosen is the alternative of each request; 0 for one without alternatives.
	Chosen []int
}

// FoundDevice is a device for a request. Request and Alternative are where these stand, in the claim and in the request.
type FoundDevice struct {
	Request, Alternative int
	// Slice has the device.
	Slice  string
	Device Device
	Admin  bool
	// Share: others may have the device, too, and Consumed is what this share takes.
	Share    bool
	Consumed []*pb.DeviceAmount
}

// FoundExtended is the claim for extended resources that the chosen row needs.
type FoundExtended struct {
	Found
	Requests []FoundRequest
	Mappings []FoundMapping
}

// FoundRequest is one request of that claim.
type FoundRequest struct {
	Name, Class string
	Count       int64
}

// FoundMapping says which request serves a container's resource. Container counts init containers first.
type FoundMapping struct {
	Container         int
	Resource, Request string
}

// result words what was found for a claim as the API has it.
func (c *Cache) result(claim *resourcev1.ResourceClaim, node string, f *Found) (*resourcev1.AllocationResult, error) {
	if !f.isOf(claim) {
		return nil, fmt.Errorf("internal error, have devices for claim %s that is another", keyOf(claim))
	}
	out := &resourcev1.AllocationResult{}
	out.Devices.Results = make([]resourcev1.DeviceRequestAllocationResult, 0, len(f.Results))
	bound := binding{node: node}
	for i := range f.Results {
		d := &f.Results[i]
		slice, device := c.published(d)
		if device == nil {
			return nil, fmt.Errorf("claim %s: device %s/%s/%s of slice %s is not known",
				keyOf(claim), d.Device.Driver, d.Device.Pool, d.Device.Name, d.Slice)
		}
		out.Devices.Results = append(out.Devices.Results, *c.resultOf(&claim.Spec.Devices.Requests[d.Request], d, device))
		if err := bound.add(slice, device); err != nil {
			return nil, fmt.Errorf("create NodeSelector for claim %s: %w", claim.Name, err)
		}
	}
	out.Devices.Config = c.configOf(claim, f.Chosen)
	out.NodeSelector = bound.selector()
	return out, nil
}

// isOf tells whether what was found is about the requests of a claim.
func (f *Found) isOf(claim *resourcev1.ResourceClaim) bool {
	requests := claim.Spec.Devices.Requests
	if len(f.Chosen) != len(requests) {
		return false
	}
	for i, alternative := range f.Chosen {
		if r := &requests[i]; r.Exactly == nil && (alternative < 0 || alternative >= len(r.FirstAvailable)) {
			return false
		}
	}
	return !slices.ContainsFunc(f.Results, func(d FoundDevice) bool {
		return d.Request < 0 || d.Request >= len(requests) || requests[d.Request].Exactly == nil && d.Alternative != f.Chosen[d.Request]
	})
}

// published finds a device in its slice.
func (c *Cache) published(d *FoundDevice) (*resourcev1.ResourceSlice, *resourcev1.Device) {
	s := c.slices[d.Slice]
	if s == nil {
		return nil, nil
	}
	for i := range s.Spec.Devices {
		if s.Spec.Devices[i].Name == d.Device.Name {
			return s, &s.Spec.Devices[i]
		}
	}
	return s, nil
}

func (c *Cache) resultOf(r *resourcev1.DeviceRequest, d *FoundDevice, device *resourcev1.Device) *resourcev1.DeviceRequestAllocationResult {
	out := &resourcev1.DeviceRequestAllocationResult{
		Request: r.Name, Driver: d.Device.Driver, Pool: d.Device.Pool, Device: d.Device.Name,
		BindingConditions: device.BindingConditions, BindingFailureConditions: device.BindingFailureConditions,
	}
	if r.Exactly != nil {
		out.Tolerations = r.Exactly.Tolerations
	} else {
		sub := &r.FirstAvailable[d.Alternative]
		out.Request, out.Tolerations = r.Name+"/"+sub.Name, sub.Tolerations
	}
	if d.Admin {
		out.AdminAccess = &d.Admin
	}
	if !d.Share {
		return out
	}
	id := c.cfg.NewUID()
	out.ShareID = &id
	for _, a := range d.Consumed {
		if out.ConsumedCapacity == nil {
			out.ConsumedCapacity = amounts{}
		}
		out.ConsumedCapacity[resourcev1.QualifiedName(a.Name)] = quantityOf(a.Quantity)
	}
	return out
}

// configOf is the configuration of the classes that were chosen, in the order of requests, then the claim's
// own. An entry of a class names all requests of that; one of the claim stands there once for each request that
// it names, as upstream has it.
func (c *Cache) configOf(claim *resourcev1.ResourceClaim, chosen []int) (out []resourcev1.DeviceAllocationConfiguration) {
	type span struct{ from, to int }
	seen := map[string]span{}
	for i := range claim.Spec.Devices.Requests {
		name, className := chosenOf(&claim.Spec.Devices.Requests[i], chosen[i])
		if s, again := seen[className]; again {
			for j := s.from; j < s.to; j++ {
				out[j].Requests = append(out[j].Requests, name)
			}
			continue
		}
		s := span{from: len(out)}
		if class := c.classes[className]; class != nil {
			for _, config := range class.Spec.Config {
				out = append(out, resourcev1.DeviceAllocationConfiguration{
					Source: resourcev1.AllocationConfigSourceClass, Requests: []string{name}, DeviceConfiguration: config.DeviceConfiguration,
				})
			}
		}
		s.to = len(out)
		seen[className] = s
	}
	for i := range claim.Spec.Devices.Config {
		config := &claim.Spec.Devices.Config[i]
		for range timesOf(config.Requests, claim.Spec.Devices.Requests, chosen) {
			out = append(out, resourcev1.DeviceAllocationConfiguration{
				Source: resourcev1.AllocationConfigSourceClaim, Requests: config.Requests, DeviceConfiguration: config.DeviceConfiguration,
			})
		}
	}
	return out
}

// chosenOf is what results call a request, and its class.
func chosenOf(r *resourcev1.DeviceRequest, alternative int) (name, class string) {
	if r.Exactly != nil {
		return r.Name, r.Exactly.DeviceClassName
	}
	sub := &r.FirstAvailable[alternative]
	return r.Name + "/" + sub.Name, sub.DeviceClassName
}

// timesOf is how many requests a configuration of the claim is for; one for all counts once.
func timesOf(names []string, requests []resourcev1.DeviceRequest, chosen []int) (n int) {
	if len(names) == 0 {
		return 1
	}
	for i := range requests {
		full, _ := chosenOf(&requests[i], chosen[i])
		if slices.Contains(names, requests[i].Name) || slices.Contains(names, full) {
			n++
		}
	}
	return n
}

// binding collects where an allocation can be used.
type binding struct {
	node string
	term v1.NodeSelectorTerm
	here bool // on the node alone
}

// add takes in a device of the allocation.
func (b *binding) add(s *resourcev1.ResourceSlice, d *resourcev1.Device) error {
	name, selector := s.Spec.NodeName, s.Spec.NodeSelector
	if each := s.Spec.PerDeviceNodeSelection; each != nil && *each {
		name, selector = d.NodeName, d.NodeSelector
	}
	switch {
	case b.here:
	case name != nil, d.BindsToNode != nil && *d.BindsToNode:
		b.here = true
	case selector == nil || len(selector.NodeSelectorTerms) == 0:
	case len(selector.NodeSelectorTerms) > 1:
		return fmt.Errorf("unsupported ResourceSlice.NodeSelector with %d terms", len(selector.NodeSelectorTerms))
	default:
		t := &selector.NodeSelectorTerms[0]
		b.term.MatchFields = union(b.term.MatchFields, t.MatchFields)
		b.term.MatchExpressions = union(b.term.MatchExpressions, t.MatchExpressions)
	}
	return nil
}

// union appends the requirements that are not there yet: the order of their values plays no part.
func union(into, more []v1.NodeSelectorRequirement) []v1.NodeSelectorRequirement {
	for _, r := range more {
		if !slices.ContainsFunc(into, func(o v1.NodeSelectorRequirement) bool { return sameRequirement(o, r) }) {
			into = append(into, r)
		}
	}
	return into
}

func sameRequirement(a, b v1.NodeSelectorRequirement) bool {
	return a.Key == b.Key && a.Operator == b.Operator && equality.Semantic.DeepEqual(sorted(a.Values), sorted(b.Values))
}

func sorted(values []string) []string { return slices.Compact(slices.Sorted(slices.Values(values))) }

func (b *binding) selector() *v1.NodeSelector {
	switch {
	case b.here:
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{b.node}},
		}}}}
	case len(b.term.MatchFields)+len(b.term.MatchExpressions) == 0:
		return nil
	}
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{b.term}}
}
