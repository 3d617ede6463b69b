package shardschedv1

// These are far above what Kubernetes lets in: 128 devices of a slice with 32 attributes and capacities each, and 32
// requests of a claim.
const (
	// MaxDevices bounds the devices of a slice.
	MaxDevices = 1 << 12
	// MaxDeviceParts bounds the lists of a device, a request and a claim.
	MaxDeviceParts = 1 << 10
	// MaxClaims bounds the claims of a pod: more than its places in the bits of Group.late_reasons go without.
	MaxClaims = 1 << 10
	// MaxMappedResources bounds the extended resources of a pod: a bit for each.
	MaxMappedResources = 63
	// maxExpression bounds a CEL expression, of which Kubernetes lets in 10 KiB.
	maxExpression = 64 << 10
	// maxHigh is the upper half of the largest quantity, 2¹⁰⁰ billionths.
	maxHigh = 1 << 36
)

// atMost bounds the length of a list.
func atMost(field string, n, most int) error {
	if n > most {
		return wrong(field, "expected at most %d, got %d", most, n)
	}
	return nil
}

// Validate checks format and range.
func (x *DeviceQuantity) Validate() error {
	if err := member("format", x.GetFormat(), QuantityFormat_QUANTITY_FORMAT_DECIMAL_EXPONENT); err != nil {
		return err
	}
	if err := within("high", x.GetHigh(), -maxHigh, maxHigh); err != nil {
		return err
	}
	if x.GetHigh() == maxHigh && x.GetLow() != 0 {
		return wrong("low", "expected 0 with the largest high, got %d", x.GetLow())
	}
	return nil
}

// optional validates a quantity that may be absent.
func optional(field string, x *DeviceQuantity) error {
	if x == nil {
		return nil
	}
	return in(field, x.Validate())
}

// sortedAmounts checks amounts: sorted by name, each once.
func sortedAmounts(field string, list []*DeviceAmount) error {
	if err := atMost(field, len(list), MaxDeviceParts); err != nil {
		return err
	}
	for i, x := range list {
		if err := x.Validate(); err != nil {
			return at(field, i, err)
		}
		if i > 0 && list[i-1].Name >= x.Name {
			return at(field, i, after(list[i-1].Name, x.Name))
		}
	}
	return nil
}

// after says that a name is not behind another.
func after(before, got string) error {
	return wrong("name", "expected a name after %q, got %q", short(before), short(got))
}

// Validate checks name and quantity.
func (x *DeviceAmount) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	return in("quantity", x.GetQuantity().Validate())
}

// Validate checks a slice and all in it.
func (x *DeviceSlice) Validate() error {
	if err := x.validateName(); err != nil {
		return err
	}
	if err := x.GetReach().Validate(); err != nil {
		return in("reach", err)
	}
	if err := atMost("devices", len(x.GetDevices()), MaxDevices); err != nil {
		return err
	}
	if err := each("devices", x.GetDevices()); err != nil {
		return err
	}
	for i, d := range x.GetDevices() {
		if d.GetReach().GetPerDevice() {
			return at("devices", i, wrong("reach", "expected a reach of the device itself"))
		}
	}
	if err := atMost("counter_sets", len(x.GetCounterSets()), MaxDeviceParts); err != nil {
		return err
	}
	return each("counter_sets", x.GetCounterSets())
}

// validateName checks what names a slice.
func (x *DeviceSlice) validateName() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	if err := name("driver", x.GetDriver()); err != nil {
		return err
	}
	return name("pool", x.GetPool())
}

// Validate checks a reach. An absent one is the row's.
func (x *DeviceReach) Validate() error {
	switch of := x.GetOf().(type) {
	case *DeviceReach_NodeName:
		return name("node_name", of.NodeName)
	case *DeviceReach_AllNodes:
		return isTrue("all_nodes", of.AllNodes)
	case *DeviceReach_Selector:
		return in("selector", of.Selector.Validate())
	case *DeviceReach_Unreadable:
		if of.Unreadable == "" {
			return wrong("unreadable", "expected a text, got none")
		}
		return text("unreadable", of.Unreadable, maxMessage)
	case *DeviceReach_PerDevice:
		return isTrue("per_device", of.PerDevice)
	}
	return nil
}

func isTrue(field string, is bool) error {
	if !is {
		return wrong(field, "expected true where it is set")
	}
	return nil
}

// Validate checks a device.
func (x *Device) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	if err := x.validateContent(); err != nil {
		return err
	}
	if err := atMost("taints", len(x.GetTaints()), MaxDeviceParts); err != nil {
		return err
	}
	if err := each("taints", x.GetTaints()); err != nil {
		return err
	}
	if err := atMost("consumes", len(x.GetConsumes()), MaxDeviceParts); err != nil {
		return err
	}
	if err := each("consumes", x.GetConsumes()); err != nil {
		return err
	}
	return in("reach", x.GetReach().Validate())
}

// validateContent checks attributes and capacities.
func (x *Device) validateContent() error {
	attributes := x.GetAttributes()
	if err := atMost("attributes", len(attributes), MaxDeviceParts); err != nil {
		return err
	}
	for i, a := range attributes {
		if err := a.Validate(); err != nil {
			return at("attributes", i, err)
		}
		if i > 0 && attributes[i-1].Name >= a.Name {
			return at("attributes", i, after(attributes[i-1].Name, a.Name))
		}
	}
	capacities := x.GetCapacities()
	if err := atMost("capacities", len(capacities), MaxDeviceParts); err != nil {
		return err
	}
	for i, c := range capacities {
		if err := c.Validate(); err != nil {
			return at("capacities", i, err)
		}
		if i > 0 && capacities[i-1].Name >= c.Name {
			return at("capacities", i, after(capacities[i-1].Name, c.Name))
		}
	}
	return nil
}

// Validate checks name and value. An attribute without a value is of a kind that is not known.
func (x *DeviceAttribute) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	switch v := x.GetValue().(type) {
	case *DeviceAttribute_String_:
		return text("string", v.String_, maxText)
	case *DeviceAttribute_Version:
		return text("version", v.Version, maxText)
	}
	return nil
}

// Validate checks name, quantity and policy.
func (x *DeviceCapacity) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	if err := x.GetQuantity().Validate(); err != nil {
		return in("quantity", err)
	}
	return in("policy", x.GetPolicy().Validate())
}

// Validate checks that a policy has valid values or a range.
func (x *CapacityPolicy) Validate() error {
	if err := optional("default", x.GetDefault()); err != nil {
		return err
	}
	if err := atMost("valid_values", len(x.GetValidValues()), MaxDeviceParts); err != nil {
		return err
	}
	if err := each("valid_values", x.GetValidValues()); err != nil {
		return err
	}
	return in("range", x.GetRange().Validate())
}

// Validate checks bounds and step.
func (x *CapacityRange) Validate() error {
	if err := optional("min", x.GetMin()); err != nil {
		return err
	}
	if err := optional("max", x.GetMax()); err != nil {
		return err
	}
	return optional("step", x.GetStep())
}

// Validate checks name and counters.
func (x *CounterSet) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	return sortedAmounts("counters", x.GetCounters())
}

// Validate checks the set's name and the counters.
func (x *CounterUse) Validate() error {
	if err := name("counter_set", x.GetCounterSet()); err != nil {
		return err
	}
	return sortedAmounts("counters", x.GetCounters())
}

// Validate checks which device it is, and the amounts.
func (x *DeviceUse) Validate() error {
	if err := name("driver", x.GetDriver()); err != nil {
		return err
	}
	if err := name("pool", x.GetPool()); err != nil {
		return err
	}
	if err := name("device", x.GetDevice()); err != nil {
		return err
	}
	if err := within("shares", int64(x.GetShares()), 0, maxInt32); err != nil {
		return err
	}
	return in("consumed", sortedAmounts("amounts", x.GetConsumed().GetAmounts()))
}

// Validate checks uses, at least one.
func (x *DeviceUses) Validate() error {
	if len(x.GetUses()) == 0 {
		return wrong("uses", "expected at least one, got none")
	}
	return each("uses", x.GetUses())
}

// Validate checks the row, slices and uses.
func (x *RowDevices) Validate() error {
	if err := row("row", x.GetRow()); err != nil {
		return err
	}
	if x.GetShared() && x.GetRow() != 0 {
		return wrong("row", "expected 0 with shared, got %d", x.GetRow())
	}
	if err := each("slices", x.GetSlices()); err != nil {
		return err
	}
	return in("uses", each("uses", x.GetUses().GetUses()))
}

// validateRemoved checks a slice that goes: it is named, and has nothing else.
func (x *DeviceSlice) validateRemoved() error {
	if err := x.validateName(); err != nil {
		return err
	}
	if len(x.GetDevices())+len(x.GetCounterSets()) > 0 {
		return wrong("devices", "expected none of a slice that goes, got %d", len(x.GetDevices())+len(x.GetCounterSets()))
	}
	return nil
}

// validateDevices checks a change of devices; done is false where the delta is another one.
func (x *Delta) validateDevices() (done bool, err error) {
	shared := false
	switch c := x.GetChange().(type) {
	case *Delta_SetSlice:
		if err = in("set_slice", c.SetSlice.Validate()); err == nil && c.SetSlice.GetReach() != nil {
			err = wrong("set_slice.reach", "expected none of a row's own slice")
		}
	case *Delta_RemoveSlice:
		err = in("remove_slice", c.RemoveSlice.validateRemoved())
	case *Delta_UseDevices:
		err = in("use_devices", c.UseDevices.Validate())
	case *Delta_SetSharedSlice:
		shared = true
		if err = in("set_shared_slice", c.SetSharedSlice.Validate()); err == nil && c.SetSharedSlice.GetReach() == nil {
			err = wrong("set_shared_slice.reach", "expected a reach, got none")
		}
	case *Delta_RemoveSharedSlice:
		shared, err = true, in("remove_shared_slice", c.RemoveSharedSlice.validateRemoved())
	case *Delta_UseSharedDevices:
		shared, err = true, in("use_shared_devices", c.UseSharedDevices.Validate())
	default:
		return false, nil
	}
	if err == nil && shared && x.GetRow() != 0 {
		err = wrong("row", "expected 0 with shared devices, got %d", x.GetRow())
	}
	return true, err
}
