package shardschedv1

import (
	"fmt"
	"strings"
	"testing"
)

func validQuantity() *DeviceQuantity {
	return &DeviceQuantity{Low: 1e9, Format: QuantityFormat_QUANTITY_FORMAT_BINARY_SI}
}

func validAmounts() []*DeviceAmount {
	return []*DeviceAmount{{Name: "a", Quantity: validQuantity()}, {Name: "b", Quantity: validQuantity()}}
}

func validDevice() *Device {
	return &Device{
		Name: "d0",
		Attributes: []*DeviceAttribute{
			{Name: "a", Value: &DeviceAttribute_Int{Int: -1}}, {Name: "b", Value: &DeviceAttribute_Bool{}},
			{Name: "c", Value: &DeviceAttribute_String_{String_: "x"}}, {Name: "d", Value: &DeviceAttribute_Version{Version: "1.2.3"}}, {Name: "e"},
		},
		Capacities: []*DeviceCapacity{
			{Name: "memory", Quantity: validQuantity(), Policy: &CapacityPolicy{
				Default: validQuantity(), Range: &CapacityRange{Min: validQuantity(), Max: validQuantity(), Step: validQuantity()},
			}},
			{Name: "slices", Quantity: validQuantity(), Policy: &CapacityPolicy{ValidValues: []*DeviceQuantity{validQuantity()}}},
		},
		Taints:   []*Taint{{Key: "k", Effect: TaintEffect_TAINT_EFFECT_NO_SCHEDULE}},
		Consumes: []*CounterUse{{CounterSet: "set", Counters: validAmounts()}}, BindsToNode: true, Conditioned: true, AllowsMultiple: true,
	}
}

func validSlice() *DeviceSlice {
	return &DeviceSlice{Name: "s", Driver: "gpu.example.com", Pool: "p", Generation: 1, SliceCount: 1, Devices: []*Device{validDevice()}}
}

func validSharedSlice() *DeviceSlice {
	s := validSlice()
	s.Reach = &DeviceReach{Of: &DeviceReach_PerDevice{PerDevice: true}}
	s.Devices[0].Reach = &DeviceReach{Of: &DeviceReach_Selector{Selector: &NodeSelector{Terms: []*SelectorTerm{validTerm()}}}}
	s.CounterSets = []*CounterSet{{Name: "set", Counters: validAmounts()}}
	return s
}

func validUses() *DeviceUses {
	return &DeviceUses{Uses: []*DeviceUse{{Driver: "d", Pool: "p", Device: "d0", Shares: 1, Consumed: &DeviceAmounts{Amounts: validAmounts()}}}}
}

func setSlice() *Delta { return &Delta{Row: 1, Change: &Delta_SetSlice{SetSlice: validSlice()}} }

func setSharedSlice() *Delta {
	return &Delta{Change: &Delta_SetSharedSlice{SetSharedSlice: validSharedSlice()}}
}

func useDevices() *Delta { return &Delta{Row: 1, Change: &Delta_UseDevices{UseDevices: validUses()}} }

func removeSlice() *Delta {
	return &Delta{Row: 1, Change: &Delta_RemoveSlice{RemoveSlice: &DeviceSlice{Name: "s", Driver: "d", Pool: "p"}}}
}

func validQuestion(name string) *DeviceQuestion {
	selectors := []*DeviceSelector{{Expression: "device.driver == 'd'"}}
	return &DeviceQuestion{
		Name: name, Class: "gpu", ClassSelectors: selectors, Selectors: selectors, Mode: DeviceMode_DEVICE_MODE_EXACT_COUNT, Count: 1,
		Tolerations: []*Toleration{{Operator: TolerationOperator_TOLERATION_OPERATOR_EXISTS}}, Capacity: &DeviceAmounts{Amounts: validAmounts()},
	}
}

func validClaims() *ResourceClaimsQuery {
	return &ResourceClaimsQuery{
		Claims: []*DeviceClaim{{
			Requests: []*DeviceRequest{
				{Name: "r0", AdminAccess: true, Exactly: validQuestion("")},
				{Name: "r1", FirstAvailable: []*DeviceQuestion{validQuestion("a"), validQuestion("b")}},
			},
			Constraints: []*DeviceConstraint{
				{Requests: []string{"r0", "r1/a"}, Of: &DeviceConstraint_MatchAttribute{MatchAttribute: "d/a"}},
				{Of: &DeviceConstraint_DistinctAttribute{DistinctAttribute: "d/a"}}, {},
			},
		}},
		Allocated: []*AllocatedClaim{{Selector: &NodeSelector{Terms: []*SelectorTerm{validTerm()}}, Unavailable: true}, {}},
		Extended: &ExtendedResourcesQuery{
			Resources:  []*MappedResource{{Name: "example.com/a"}, {Name: "example.com/gpu", Class: "gpu"}},
			Containers: []*ContainerResources{{ShortLived: true, Names: []string{"cpu", "example.com/gpu"}, Amounts: []int64{0, 1}}},
		},
		Features: &DeviceFeatures{PartitionableDevices: true}, AllocatedScore: 8,
	}
}

func validClaimsQuery() *Query {
	return &Query{
		ClassId: 45, Filters: []Plugin{Plugin_PLUGIN_DYNAMIC_RESOURCES}, ResourceClaims: validClaims(),
		Scores: []*ScoreWeight{{Plugin: Plugin_PLUGIN_DYNAMIC_RESOURCES, Weight: 2}},
	}
}

func validRowDevices() *RowDevices {
	return &RowDevices{Row: 3, Slices: []*DeviceSlice{validSlice()}, Uses: validUses()}
}

func deviceMessages() []message {
	return []message{
		setSlice(), setSharedSlice(), useDevices(), removeSlice(), validClaimsQuery(), validRowDevices(),
		&Delta{Change: &Delta_UseSharedDevices{UseSharedDevices: validUses()}},
		&Delta{Change: &Delta_RemoveSharedSlice{RemoveSharedSlice: &DeviceSlice{Name: "s", Driver: "d", Pool: "p"}}},
	}
}

func TestDevicesPassAndCostNoAllocation(t *testing.T) {
	for i, m := range deviceMessages() {
		if err := m.Validate(); err != nil {
			t.Errorf("message %d, %T: got %q, want no error", i, m, err)
		}
		if n := testing.AllocsPerRun(10, func() { _ = m.Validate() }); n != 0 {
			t.Errorf("message %d, %T: got %v allocations, want 0", i, m, n)
		}
	}
}

func TestDevicesAreRefused(t *testing.T) {
	slice := func(f func(*DeviceSlice)) message {
		return change(setSlice(), func(d *Delta) { f(d.GetSetSlice()) })
	}
	device := func(f func(*Device)) message { return slice(func(s *DeviceSlice) { f(s.Devices[0]) }) }
	claims := func(f func(*ResourceClaimsQuery)) message {
		return change(validClaimsQuery(), func(q *Query) { f(q.ResourceClaims) })
	}
	question := func(f func(*DeviceQuestion)) message {
		return claims(func(c *ResourceClaimsQuery) { f(c.Claims[0].Requests[0].Exactly) })
	}
	for _, c := range []struct {
		name string
		m    message
		want string
	}{
		{"a slice without a pool", slice(func(s *DeviceSlice) { s.Pool = "" }), "set_slice.pool: expected a value, got none"},
		{"a row's slice with a reach", slice(func(s *DeviceSlice) { s.Reach = &DeviceReach{} }), "set_slice.reach: expected none of a row's own slice"},
		{"very many devices", slice(func(s *DeviceSlice) { s.Devices = make([]*Device, MaxDevices+1) }), "set_slice.devices: expected at most 4096, got 4097"},
		{"very many counter sets", slice(func(s *DeviceSlice) { s.CounterSets = make([]*CounterSet, MaxDeviceParts+1) }), "set_slice.counter_sets: expected at most 1024, got 1025"},
		{"a device without a name", device(func(d *Device) { d.Name = "" }), "set_slice.devices[0].name: expected a value, got none"},
		{"very many attributes", device(func(d *Device) { d.Attributes = make([]*DeviceAttribute, MaxDeviceParts+1) }), "set_slice.devices[0].attributes: expected at most 1024, got 1025"},
		{"attributes out of order", device(func(d *Device) { d.Attributes[1].Name = "a" }), `set_slice.devices[0].attributes[1].name: expected a name after "a", got "a"`},
		{"a long attribute", device(func(d *Device) {
			d.Attributes[2].GetValue().(*DeviceAttribute_String_).String_ = strings.Repeat("x", 4097)
		}), "set_slice.devices[0].attributes[2].string: expected at most 4096 bytes, got 4097"},
		{"very many capacities", device(func(d *Device) { d.Capacities = make([]*DeviceCapacity, MaxDeviceParts+1) }), "set_slice.devices[0].capacities: expected at most 1024, got 1025"},
		{"capacities out of order", device(func(d *Device) { d.Capacities[1].Name = "a" }), `set_slice.devices[0].capacities[1].name: expected a name after "memory", got "a"`},
		{"a capacity of nothing", device(func(d *Device) { d.Capacities[0].Quantity = nil }), "set_slice.devices[0].capacities[0].quantity.format: expected a specified value, got QUANTITY_FORMAT_UNSPECIFIED"},
		{"a quantity beyond bounds", device(func(d *Device) { d.Capacities[0].Quantity.High = 1<<36 + 1 }), "set_slice.devices[0].capacities[0].quantity.high: expected -68719476736 to 68719476736, got 68719476737"},
		{"a quantity just beyond bounds", device(func(d *Device) { d.Capacities[0].Quantity.High = 1 << 36 }), "set_slice.devices[0].capacities[0].quantity.low: expected 0 with the largest high, got 1000000000"},
		{"very many valid values", device(func(d *Device) { d.Capacities[1].Policy.ValidValues = make([]*DeviceQuantity, MaxDeviceParts+1) }), "set_slice.devices[0].capacities[1].policy.valid_values: expected at most 1024, got 1025"},
		{"a broken step", device(func(d *Device) { d.Capacities[0].Policy.Range.Step.Format = 9 }), "set_slice.devices[0].capacities[0].policy.range.step.format: expected a specified value, got 9"},
		{"very many taints", device(func(d *Device) { d.Taints = make([]*Taint, MaxDeviceParts+1) }), "set_slice.devices[0].taints: expected at most 1024, got 1025"},
		{"a taint without a key", device(func(d *Device) { d.Taints[0].Key = "" }), "set_slice.devices[0].taints[0].key: expected a value, got none"},
		{"very much consumption", device(func(d *Device) { d.Consumes = make([]*CounterUse, MaxDeviceParts+1) }), "set_slice.devices[0].consumes: expected at most 1024, got 1025"},
		{"counters twice", device(func(d *Device) { d.Consumes[0].Counters[1].Name = "a" }), `set_slice.devices[0].consumes[0].counters[1].name: expected a name after "a", got "a"`},
		{"a device that leaves its reach to itself", device(func(d *Device) { d.Reach = &DeviceReach{Of: &DeviceReach_PerDevice{PerDevice: true}} }), "set_slice.devices[0].reach: expected a reach of the device itself"},
		{"a shared slice without a reach", change(setSharedSlice(), func(d *Delta) { d.GetSetSharedSlice().Reach = nil }), "set_shared_slice.reach: expected a reach, got none"},
		{"a shared slice in a row", change(setSharedSlice(), func(d *Delta) { d.Row = 1 }), "row: expected 0 with shared devices, got 1"},
		{"not all nodes", change(setSharedSlice(), func(d *Delta) { d.GetSetSharedSlice().Reach = &DeviceReach{Of: &DeviceReach_AllNodes{}} }), "set_shared_slice.reach.all_nodes: expected true where it is set"},
		{"unreadable without words", change(setSharedSlice(), func(d *Delta) { d.GetSetSharedSlice().Reach = &DeviceReach{Of: &DeviceReach_Unreadable{}} }), "set_shared_slice.reach.unreadable: expected a text, got none"},
		{"a slice that goes with devices", change(removeSlice(), func(d *Delta) { d.GetRemoveSlice().Devices = []*Device{validDevice()} }), "remove_slice.devices: expected none of a slice that goes, got 1"},
		{"no uses", change(useDevices(), func(d *Delta) { d.GetUseDevices().Uses = nil }), "use_devices.uses: expected at least one, got none"},
		{"a use of no device", change(useDevices(), func(d *Delta) { d.GetUseDevices().Uses[0].Device = "" }), "use_devices.uses[0].device: expected a value, got none"},
		{"very many shares", change(useDevices(), func(d *Delta) { d.GetUseDevices().Uses[0].Shares = 1 << 31 }), "use_devices.uses[0].shares: expected 0 to 2147483647, got 2147483648"},
		{"shared devices of a row", change(validRowDevices(), func(x *RowDevices) { x.Shared = true }), "row: expected 0 with shared, got 3"},

		{"claims without their part", change(validClaimsQuery(), func(q *Query) { q.ResourceClaims = nil }), "resource_claims: expected for DynamicResources, got none"},
		{"very many claims", claims(func(c *ResourceClaimsQuery) { c.Claims = make([]*DeviceClaim, MaxClaims+1) }), "resource_claims.claims: expected at most 1024, got 1025"},
		{"very many allocated claims", claims(func(c *ResourceClaimsQuery) { c.Allocated = make([]*AllocatedClaim, MaxClaims+1) }), "resource_claims.allocated: expected at most 1024, got 1025"},
		{"very many requests", claims(func(c *ResourceClaimsQuery) { c.Claims[0].Requests = make([]*DeviceRequest, MaxDeviceParts+1) }), "resource_claims.claims[0].requests: expected at most 1024, got 1025"},
		{"very many constraints", claims(func(c *ResourceClaimsQuery) { c.Claims[0].Constraints = make([]*DeviceConstraint, MaxDeviceParts+1) }), "resource_claims.claims[0].constraints: expected at most 1024, got 1025"},
		{"a request of both kinds", claims(func(c *ResourceClaimsQuery) { c.Claims[0].Requests[1].Exactly = validQuestion("") }), "resource_claims.claims[0].requests[1].exactly: expected either exactly or first_available"},
		{"an alternative without a name", claims(func(c *ResourceClaimsQuery) { c.Claims[0].Requests[1].FirstAvailable[1].Name = "" }), "resource_claims.claims[0].requests[1].first_available[1].name: expected a value, got none"},
		{"a very long expression", question(func(q *DeviceQuestion) {
			q.Selectors = []*DeviceSelector{{Expression: strings.Repeat("x", maxExpression+1)}}
		}), "resource_claims.claims[0].requests[0].exactly.selectors[0].expression: expected at most 65536 bytes, got 65537"},
		{"very many selectors", question(func(q *DeviceQuestion) { q.ClassSelectors = make([]*DeviceSelector, MaxDeviceParts+1) }), "resource_claims.claims[0].requests[0].exactly.class_selectors: expected at most 1024, got 1025"},
		{"very many tolerations", question(func(q *DeviceQuestion) { q.Tolerations = make([]*Toleration, MaxDeviceParts+1) }), "resource_claims.claims[0].requests[0].exactly.tolerations: expected at most 1024, got 1025"},
		{"a mode that is none", question(func(q *DeviceQuestion) { q.Mode = 3 }), "resource_claims.claims[0].requests[0].exactly.mode: expected a known mode, got 3"},
		{"less than no devices", question(func(q *DeviceQuestion) { q.Count = -1 }), "resource_claims.claims[0].requests[0].exactly.count: expected 0 or more, got -1"},
		{"very many extended resources", claims(func(c *ResourceClaimsQuery) { c.Extended.Resources = make([]*MappedResource, MaxMappedResources+1) }), "resource_claims.extended.resources: expected at most 63, got 64"},
		{"resources out of order", claims(func(c *ResourceClaimsQuery) { c.Extended.Resources[1].Name = "a" }), `resource_claims.extended.resources[1].name: expected a name after "example.com/a", got "a"`},
		{"amounts of no resource", claims(func(c *ResourceClaimsQuery) { c.Extended.Containers[0].Amounts = nil }), "resource_claims.extended.containers[0].amounts: expected as many as names, 2, got 0"},
		{"a score below 0", claims(func(c *ResourceClaimsQuery) { c.AllocatedScore = -1 }), "resource_claims.allocated_score: expected 0 to 2147483647, got -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.m.Validate()
			if got := fmt.Sprint(err); got != c.want {
				t.Fatalf("got  %q\nwant %q", got, c.want)
			}
			checkPath(t, c.m, err)
		})
	}
}

func FuzzDeviceSlice(f *testing.F) {
	fuzz(f, func() *DeviceSlice { return new(DeviceSlice) }, validSlice(), validSharedSlice())
}

func FuzzResourceClaimsQuery(f *testing.F) {
	fuzz(f, func() *ResourceClaimsQuery { return new(ResourceClaimsQuery) }, validClaims())
}
