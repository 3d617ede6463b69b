package claims

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/shardsched/shardsched/scorer/devices"
	"github.com/shardsched/shardsched/scorer/devices/selector"
)

// Scene is a cluster and the claims of one pod.
type Scene struct {
	Nodes    []*v1.Node
	Slices   []*resourceapi.ResourceSlice
	Classes  map[string]*resourceapi.DeviceClass
	Claims   []*resourceapi.ResourceClaim
	Used     []Used
	Features devices.Features
}

// Used says what allocated claims have of a device.
type Used struct {
	Driver, Pool, Device string
	Whole, Share         bool
	// Holds is what shares hold of capacities; nil: nothing is known of it.
	Holds map[string]resource.Quantity
}

// Turned is a scene as scorer/devices takes it.
type Turned struct {
	Demand *devices.Demand
	scene  *Scene
	slices []*devices.Slice
	reach  []nodes
}

// nodes are those of a name, or those that a selector matches.
type nodes struct {
	name     string
	selector *v1.NodeSelector
}

// Turn turns a scene. Selectors come from the compiler.
func (s *Scene) Turn(compiler devices.Compiler) *Turned {
	t := &Turned{scene: s}
	contents := map[string]*devices.Content{}
	for _, from := range s.Slices {
		t.slices = append(t.slices, t.slice(from, contents))
	}
	list := make([]devices.Claim, len(s.Claims))
	for i, claim := range s.Claims {
		list[i] = s.claim(claim, compiler)
	}
	t.Demand = devices.NewDemand(list, s.Features)
	return t
}

// Gather finds the pools of a node and what is in use of them.
func (t *Turned) Gather(node *v1.Node) (*devices.Pools, *devices.Use, error) {
	var in devices.Inventory
	for i, from := range t.scene.Slices {
		switch name := from.Spec.NodeName; {
		case name == nil || *name == "" || len(from.Spec.SharedCounters) > 0:
			in.Shared = append(in.Shared, t.slices[i])
		case *name == node.Name:
			in.Local = append(in.Local, t.slices[i])
		}
	}
	in.All = func(string, string) []*devices.Slice { return t.slices }
	pools, err := devices.Gather(in, func(r devices.Reach) (bool, error) { return t.reach[r.Index].has(node) }, t.scene.Features)
	if err != nil {
		return nil, nil, err
	}
	use := &devices.Use{}
	for _, u := range t.scene.Used {
		n, ok := pools.Number(u.Driver, u.Pool, u.Device)
		if !ok {
			continue
		}
		if u.Whole {
			use.Take(n)
		}
		if u.Share {
			use.Share(n)
		}
		if u.Holds != nil {
			use.Hold(n, amounts(u.Holds))
		}
	}
	return pools, use, nil
}

func (n nodes) has(node *v1.Node) (bool, error) {
	if n.selector == nil {
		return n.name == node.Name, nil
	}
	s, err := nodeaffinity.NewNodeSelector(n.selector)
	if err != nil {
		return false, fmt.Errorf("failed to parse node selector %s: %w", n.selector, err)
	}
	return s.Match(node), nil
}

func (t *Turned) slice(from *resourceapi.ResourceSlice, contents map[string]*devices.Content) *devices.Slice {
	spec := &from.Spec
	s := &devices.Slice{
		Name: from.Name, Driver: spec.Driver, Pool: spec.Pool.Name, Generation: spec.Pool.Generation, Count: spec.Pool.ResourceSliceCount,
		Reach: t.reaches(spec.NodeName, spec.AllNodes, spec.NodeSelector, spec.PerDeviceNodeSelection),
	}
	for _, set := range spec.SharedCounters {
		s.CounterSets = append(s.CounterSets, devices.CounterSet{Name: set.Name, Counters: counters(set.Counters)})
	}
	for i := range spec.Devices {
		d := &spec.Devices[i]
		content := contentOf(spec.Driver, d)
		key := content.Key()
		if contents[key] == nil {
			contents[key] = content
		}
		out := devices.Device{
			Name: d.Name, Content: contents[key], Reach: t.reaches(d.NodeName, d.AllNodes, d.NodeSelector, nil),
			BindsToNode: d.BindsToNode != nil && *d.BindsToNode, Conditioned: d.BindingConditions != nil,
		}
		for _, x := range d.Taints {
			out.Taints = append(out.Taints, devices.Taint{Key: x.Key, Value: x.Value, Effect: string(x.Effect)})
		}
		for _, c := range d.ConsumesCounters {
			out.Consumes = append(out.Consumes, devices.Consumption{Set: c.CounterSet, Counters: counters(c.Counters)})
		}
		s.Devices = append(s.Devices, out)
	}
	return s
}

func (t *Turned) reaches(name *string, all *bool, selector *v1.NodeSelector, each *bool) devices.Reach {
	switch {
	case name != nil && *name != "":
		t.reach = append(t.reach, nodes{name: *name})
		return devices.Reach{Kind: devices.ReachName, Index: int32(len(t.reach) - 1)}
	case all != nil && *all:
		return devices.Reach{Kind: devices.ReachAllNodes}
	case selector != nil:
		t.reach = append(t.reach, nodes{selector: selector})
		return devices.Reach{Kind: devices.ReachSelector, Index: int32(len(t.reach) - 1), Terms: int32(len(selector.NodeSelectorTerms))}
	case each != nil && *each:
		return devices.Reach{Kind: devices.ReachEach}
	}
	return devices.Reach{}
}

func counters(from map[string]resourceapi.Counter) (out []devices.Counter) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		out = append(out, devices.Counter{Name: name, Value: selector.Amount(from[name].Value)})
	}
	return out
}

func amounts(from map[string]resource.Quantity) []devices.Counter {
	out := []devices.Counter{}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		out = append(out, devices.Counter{Name: name, Value: selector.Amount(from[name])})
	}
	return out
}

func contentOf(driver string, d *resourceapi.Device) *devices.Content {
	c := &devices.Content{Driver: driver, Multiple: d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		c.Attributes = append(c.Attributes, devices.Attribute{Name: string(name), Value: valueOf(d.Attributes[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		from := d.Capacity[name]
		c.Capacities = append(c.Capacities, devices.Capacity{
			Name: string(name), Value: selector.Amount(from.Value), Policy: policyOf(from.RequestPolicy),
		})
	}
	return c
}

func valueOf(a resourceapi.DeviceAttribute) devices.Value {
	switch {
	case a.IntValue != nil:
		return devices.Value{Kind: devices.ValueInt, Int: *a.IntValue}
	case a.BoolValue != nil && *a.BoolValue:
		return devices.Value{Kind: devices.ValueBool, Int: 1}
	case a.BoolValue != nil:
		return devices.Value{Kind: devices.ValueBool}
	case a.StringValue != nil:
		return devices.Value{Kind: devices.ValueString, Text: *a.StringValue}
	case a.VersionValue != nil:
		return devices.Value{Kind: devices.ValueVersion, Text: *a.VersionValue}
	}
	return devices.Value{}
}

func policyOf(from *resourceapi.CapacityRequestPolicy) *devices.Policy {
	if from == nil {
		return nil
	}
	p := &devices.Policy{Default: amountOf(from.Default)}
	if r := from.ValidRange; r != nil {
		p.Range = &devices.Range{Min: amountOf(r.Min), Max: amountOf(r.Max), Step: amountOf(r.Step)}
	}
	for _, v := range from.ValidValues {
		p.Values = append(p.Values, selector.Amount(v))
	}
	return p
}

func amountOf(q *resource.Quantity) *devices.Amount {
	if q == nil {
		return nil
	}
	a := selector.Amount(*q)
	return &a
}

func (s *Scene) claim(from *resourceapi.ResourceClaim, compiler devices.Compiler) devices.Claim {
	var out devices.Claim
	for _, r := range from.Spec.Devices.Requests {
		request := devices.Request{Name: r.Name, Prioritized: r.Exactly == nil}
		if e := r.Exactly; e != nil {
			request.Admin = e.AdminAccess != nil && *e.AdminAccess
			request.Alternatives = []devices.Alternative{s.alternative(resourceapi.DeviceSubRequest{
				Name: r.Name, DeviceClassName: e.DeviceClassName, Selectors: e.Selectors, AllocationMode: e.AllocationMode,
				Count: e.Count, Tolerations: e.Tolerations, Capacity: e.Capacity,
			}, compiler)}
		}
		for _, sub := range r.FirstAvailable {
			request.Alternatives = append(request.Alternatives, s.alternative(sub, compiler))
		}
		out.Requests = append(out.Requests, request)
	}
	for _, c := range from.Spec.Devices.Constraints {
		k := devices.Constraint{Requests: c.Requests}
		if c.MatchAttribute != nil {
			k.Match = string(*c.MatchAttribute)
		} else if c.DistinctAttribute != nil {
			k.Distinct = string(*c.DistinctAttribute)
		}
		out.Constraints = append(out.Constraints, k)
	}
	return out
}

func (s *Scene) alternative(from resourceapi.DeviceSubRequest, compiler devices.Compiler) devices.Alternative {
	a := devices.Alternative{
		Name: from.Name, Class: from.DeviceClassName, Mode: string(from.AllocationMode), Count: from.Count,
		Selectors: compiled(from.Selectors, compiler), AsksCapacity: from.Capacity != nil,
	}
	if class, ok := s.Classes[a.Class]; ok {
		a.ClassSelectors = compiled(class.Spec.Selectors, compiler)
	} else {
		a.NoClass = true
	}
	for _, x := range from.Tolerations {
		a.Tolerations = append(a.Tolerations, devices.Toleration{
			Key: x.Key, Operator: string(x.Operator), Value: x.Value, Effect: string(x.Effect),
		})
	}
	if from.Capacity != nil {
		for _, name := range slices.Sorted(maps.Keys(from.Capacity.Requests)) {
			a.Capacities = append(a.Capacities, devices.Counter{Name: string(name), Value: selector.Amount(from.Capacity.Requests[name])})
		}
	}
	return a
}

func compiled(list []resourceapi.DeviceSelector, compiler devices.Compiler) (out []devices.Selector) {
	for _, s := range list {
		if s.CEL == nil {
			out = append(out, nil)
			continue
		}
		out = append(out, compiler.Compile(s.CEL.Expression))
	}
	return out
}

// Answer writes an outcome down, a line for each device of each claim, or its text.
func (t *Turned) Answer(pools *devices.Pools, o devices.Outcome) string {
	switch o.Verdict {
	case devices.None:
		return "none\n"
	case devices.InvalidPools:
		return "invalid resource pools were encountered\n"
	case devices.Fatal:
		return "fatal: " + t.text(pools, o.Text) + "\n"
	}
	var b strings.Builder
	for c, allocation := range o.Claims {
		fmt.Fprintf(&b, "%s:", t.scene.Claims[c].Name)
		for _, r := range allocation.Results {
			pool, _, device := pools.Device(r.Device)
			driver, name, _, _ := pools.Pool(pool)
			fmt.Fprintf(&b, "\n  %s %s/%s/%s", t.Demand.Name(int32(c), r.Request, r.Alternative), driver, name, device.Name)
			if r.Admin {
				b.WriteString(" admin")
			}
			if r.Share {
				b.WriteString(" share")
			}
			for _, x := range r.Consumed {
				q := selector.Quantity(x.Value)
				fmt.Fprintf(&b, " %s=%s", x.Name, q.String())
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (t *Turned) text(pools *devices.Pools, text devices.Text) string {
	return text.In(func(i int32) (string, string) {
		return t.scene.Claims[i].Namespace, t.scene.Claims[i].Name
	}, func(i int32) (string, string) {
		driver, name, _, _ := pools.Pool(i)
		return driver, name
	})
}
