package objects

import (
	"strings"

	"github.com/blang/semver/v4"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resourceSlice checks the devices that a driver offers (k8s.io/kubernetes/pkg/apis/resource/validation).
func (c *checker) resourceSlice(s *resourcev1.ResourceSliceSpec, p *field.Path) {
	c.csiDriverName(p.Child("driver"), s.Driver)
	pool := p.Child("pool")
	c.poolName(pool.Child("name"), s.Pool.Name)
	c.positive(pool.Child("resourceSliceCount"), s.Pool.ResourceSliceCount)
	c.atLeast(pool.Child("generation"), s.Pool.Generation, 0)
	c.sliceReach(s, p)
	if s.SharedCounters != nil && s.Devices != nil {
		c.invalid(p, "", "only one of `sharedCounters` or `devices` is allowed")
	}
	limit := resourcev1.ResourceSliceMaxDevices
	for i := range s.Devices {
		if len(s.Devices[i].Taints)+len(s.Devices[i].ConsumesCounters) > 0 {
			limit = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
		}
	}
	perDevice := s.PerDeviceNodeSelection != nil && *s.PerDeviceNodeSelection
	devices := p.Child("devices")
	if c.atMost(devices, len(s.Devices), limit) {
		names := map[string]bool{}
		for i := range s.Devices {
			c.device(devices.Index(i), &s.Devices[i], perDevice)
			unique(c, names, devices.Index(i), short(s.Devices[i].Name))
		}
	}
	c.counterSets(p.Child("sharedCounters"), s.SharedCounters)
}

// atMost checks how many entries a list has. Of one that has too many nothing else is said.
func (c *checker) atMost(p *field.Path, n, limit int) bool {
	if n > limit {
		c.add(field.TooMany(p, n, limit))
	}
	return n <= limit
}

// poolName is one subdomain or several, with slashes between them.
func (c *checker) poolName(p *field.Path, s string) {
	switch {
	case s == "":
		c.add(field.Required(p, ""))
	case len(s) > resourcev1.PoolNameMaxLength:
		c.add(field.TooLong(p, "", resourcev1.PoolNameMaxLength))
	default:
		for part := range strings.SplitSeq(s, "/") {
			for _, message := range validation.IsDNS1123Subdomain(part) {
				c.invalid(p, part, "%s", message)
			}
		}
	}
}

// sliceReach checks from which nodes the devices of a slice are in reach: it is said in one way.
func (c *checker) sliceReach(s *resourcev1.ResourceSliceSpec, p *field.Path) {
	ways := c.reach(p, s.NodeName, s.NodeSelector, s.AllNodes)
	if t := s.NodeSelector; t != nil && len(t.NodeSelectorTerms) > 1 {
		c.invalid(p.Child("nodeSelector", "nodeSelectorTerms"), len(t.NodeSelectorTerms), "must have exactly one node selector term")
	}
	ways = c.onlyTrue(p, "perDeviceNodeSelection", s.PerDeviceNodeSelection, ways)
	const want = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	switch len(ways) {
	case 0:
		c.add(field.Required(p, want))
	case 1:
	default:
		c.invalid(p, "{"+strings.Join(ways, ", ")+"}", want+", but multiple fields are set")
	}
}

// reach checks the ways that slices and devices have in common, and returns those that are used.
func (c *checker) reach(p *field.Path, node *string, s *v1.NodeSelector, all *bool) (ways []string) {
	if node != nil {
		if *node == "" {
			c.invalid(p.Child("nodeName"), "", "must be either unset or set to a non-empty string")
		} else {
			c.subdomain(p.Child("nodeName"), *node)
			ways = append(ways, "`nodeName`")
		}
	}
	if s != nil {
		c.nodeSelector(p.Child("nodeSelector"), s)
		ways = append(ways, "`nodeSelector`")
	}
	return c.onlyTrue(p, "allNodes", all, ways)
}

// onlyTrue checks a field that is true or left out, and adds it to the ways that are used.
func (c *checker) onlyTrue(p *field.Path, name string, value *bool, ways []string) []string {
	switch {
	case value == nil:
	case *value:
		ways = append(ways, "`"+name+"`")
	default:
		c.invalid(p.Child(name), false, "must be either unset or set to true")
	}
	return ways
}

func (c *checker) device(p *field.Path, d *resourcev1.Device, perDevice bool) {
	c.dnsLabel(p.Child("name"), d.Name)
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		c.invalid(p, n, "the total number of attributes and capacities must not exceed %d",
			resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
		return
	}
	for _, name := range keysOf(d.Attributes) {
		a := d.Attributes[name]
		c.deviceName(p.Child("attributes"), string(name))
		c.attribute(p.Child("attributes").Key(short(string(name))), &a)
	}
	shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	for _, name := range keysOf(d.Capacity) {
		q := d.Capacity[name]
		c.deviceName(p.Child("capacity"), string(name))
		c.capacity(p.Child("capacity").Key(short(string(name))), &q, shared)
	}
	if c.atMost(p.Child("taints"), len(d.Taints), resourcev1.DeviceTaintsMaxLength) {
		for i := range d.Taints {
			c.deviceTaint(p.Child("taints").Index(i), &d.Taints[i])
		}
	}
	c.consumes(p.Child("consumesCounters"), d.ConsumesCounters)
	c.deviceReach(d, perDevice, p)
	c.bindingConditions(p, d.BindingConditions, d.BindingFailureConditions)
}

// deviceReach checks from which nodes a device is in reach, where its slice leaves that to it.
func (c *checker) deviceReach(d *resourcev1.Device, perDevice bool, p *field.Path) {
	if !perDevice {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			c.invalid(p, "", "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "+
				"in the ResourceSlice spec")
		}
		return
	}
	const want = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true " +
		"in the ResourceSlice spec"
	switch ways := c.reach(p, d.NodeName, d.NodeSelector, d.AllNodes); len(ways) {
	case 0:
		c.add(field.Required(p, want))
	case 1:
	default:
		c.invalid(p, "{"+strings.Join(ways, ", ")+"}", want)
	}
}

// deviceName checks the name of an attribute or capacity: a C identifier, with or without a domain.
func (c *checker) deviceName(p *field.Path, s string) {
	domain, id, qualified := strings.Cut(s, "/")
	if !qualified {
		domain, id = "", s
	} else if domain == "" {
		c.invalid(p, short(s), "the domain must not be empty")
	} else {
		c.csiDriverName(p, domain)
	}
	switch {
	case id == "":
		c.invalid(p, short(s), "the name must not be empty")
	case len(id) > resourcev1.DeviceMaxIDLength:
		c.add(field.TooLong(p, "", resourcev1.DeviceMaxIDLength))
	default:
		for _, message := range validation.IsCIdentifier(id) {
			c.invalid(p, id, "%s", message)
		}
	}
}

// attribute checks that an attribute has one value.
func (c *checker) attribute(p *field.Path, a *resourcev1.DeviceAttribute) {
	if len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues) > 0 {
		c.add(field.Forbidden(p, "lists of values are not implemented: the feature gate DRAListTypeAttributes is off"))
		return
	}
	values := 0
	for _, has := range []bool{a.BoolValue != nil, a.IntValue != nil, a.StringValue != nil, a.VersionValue != nil} {
		if has {
			values++
		}
	}
	if values != 1 {
		c.invalid(p, "", "exactly one value must be specified")
	}
	if a.StringValue != nil && len(*a.StringValue) > resourcev1.DeviceAttributeMaxValueLength {
		c.add(field.TooLong(p.Child("string"), "", resourcev1.DeviceAttributeMaxValueLength))
	}
	if v := a.VersionValue; v != nil {
		if len(*v) > resourcev1.DeviceAttributeMaxValueLength {
			c.add(field.TooLong(p.Child("version"), "", resourcev1.DeviceAttributeMaxValueLength))
		} else if _, err := semver.Parse(*v); err != nil {
			c.invalid(p.Child("version"), *v, "must be a string compatible with semver.org spec 2.0.0")
		}
	}
}

func (c *checker) deviceTaint(p *field.Path, t *resourcev1.DeviceTaint) {
	c.qualifiedName(p.Child("key"), t.Key)
	c.labelValue(p.Child("value"), t.Value)
	if t.Effect == "" {
		c.add(field.Required(p.Child("effect"), ""))
		return
	}
	c.deviceEffect(p.Child("effect"), t.Effect)
}

func (c *checker) deviceEffect(p *field.Path, e resourcev1.DeviceTaintEffect) {
	oneOf(c, p, e, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone)
}

func (c *checker) counterSets(p *field.Path, sets []resourcev1.CounterSet) {
	if !c.atMost(p, len(sets), resourcev1.ResourceSliceMaxCounterSets) {
		return
	}
	names := map[string]bool{}
	for i := range sets {
		c.dnsLabel(p.Index(i).Child("name"), sets[i].Name)
		unique(c, names, p.Index(i), short(sets[i].Name))
		c.counters(p.Index(i).Child("counters"), sets[i].Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet)
	}
}

func (c *checker) consumes(p *field.Path, list []resourcev1.DeviceCounterConsumption) {
	if !c.atMost(p, len(list), resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice) {
		return
	}
	names := map[string]bool{}
	for i := range list {
		c.dnsLabel(p.Index(i).Child("counterSet"), list[i].CounterSet)
		unique(c, names, p.Index(i), short(list[i].CounterSet))
		c.counters(p.Index(i).Child("counters"), list[i].Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption)
	}
}

func (c *checker) counters(p *field.Path, counters map[string]resourcev1.Counter, limit int) {
	if len(counters) == 0 {
		c.add(field.Required(p, ""))
	}
	if c.atMost(p, len(counters), limit) {
		for _, name := range keysOf(counters) {
			c.dnsLabel(p, name)
		}
	}
}

// bindingConditions checks what a device's driver tells before the pod may be bound.
func (c *checker) bindingConditions(p *field.Path, ready, failed []string) {
	readyPath, failedPath := p.Child("bindingConditions"), p.Child("bindingFailureConditions")
	isReady, isFailed := map[string]bool{}, map[string]bool{}
	if c.atMost(readyPath, len(ready), resourcev1.BindingConditionsMaxSize) {
		for i, name := range ready {
			c.qualifiedName(readyPath.Index(i), name)
			unique(c, isReady, readyPath.Index(i), short(name))
		}
	}
	if c.atMost(failedPath, len(failed), resourcev1.BindingFailureConditionsMaxSize) {
		for i, name := range failed {
			c.qualifiedName(failedPath.Index(i), name)
			unique(c, isFailed, failedPath.Index(i), short(name))
			if isReady[short(name)] {
				c.invalid(failedPath.Index(i), short(name), "bindingFailureConditions must not overlap with bindingConditions")
			}
		}
	}
	const both = "%s are required to use %s"
	switch {
	case len(ready) == 0 && len(failed) > 0:
		c.invalid(readyPath, "", both, "bindingConditions", "bindingFailureConditions")
	case len(failed) == 0 && len(ready) > 0:
		c.invalid(failedPath, "", both, "bindingFailureConditions", "bindingConditions")
	}
}
