package conformance

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Drivers of devices, a label by which pools reach nodes, and an extended resource that devices may
// stand for.
const (
	driverGPU   = "gpu.example.com"
	driverNIC   = "nic.example.com"
	island      = "devices.example.com/island"
	accelerator = "example.com/accelerator"
)

// Classes of devices. Of some models there are few.
const (
	classGPU     = "gpu"
	classNIC     = "nic"
	classAny     = "any"
	classBig     = "big"
	classLarge   = "large"
	classFast    = "fast"
	classRare    = "rare"    // its selector fails on devices without the attribute
	classWrong   = "wrong"   // its selector does not compile
	classNothing = "nothing" // there is no such class
)

// deviceFamily publishes devices, in pools of a node and of many, and gives pods claims of them, or
// extended resources that they stand for.
type deviceFamily struct {
	g      *generator
	made   int
	style  deviceStyle
	slices []*resourcev1.ResourceSlice // that are published
	// of are the claims that were made for pods, by namespace and name; shared those that further pods may use.
	of     map[string]*resourcev1.ResourceClaim
	shared []*resourcev1.ResourceClaim
	// taken are the devices that claims have had from the start.
	taken map[string]bool
	// late are claims of pods that wait for them.
	late []lateClaim
}

// deviceStyle is what a scenario's devices are about, besides models and numbers.
type deviceStyle struct {
	counters, shares, taints, network, broken, conditions, extended bool
	// plugins says that some nodes serve the extended resource by a device plugin. Pods that ask for it
	// have no other claims then: upstream never binds one which such a node serves.
	plugins bool
}

func newDeviceFamily(g *generator) *deviceFamily {
	f := &deviceFamily{g: g, of: map[string]*resourcev1.ResourceClaim{}, taken: map[string]bool{}}
	f.style = deviceStyle{
		counters: g.chance(30), shares: g.chance(30), taints: g.chance(30), network: g.chance(40), broken: g.chance(25),
		conditions: g.chance(25), extended: g.chance(40), plugins: g.chance(50),
	}
	return f
}

// hasDevices tells whether a scenario has devices.
func (g *generator) hasDevices() bool {
	return slices.ContainsFunc(g.families, func(f family) bool {
		switch f.(type) {
		case *deviceFamily, poolFamily:
			return true
		}
		return false
	})
}

func (f *deviceFamily) first() (out Round) {
	for _, name := range []string{classGPU, classNIC, classAny, classBig, classLarge, classFast} {
		out = append(out, set(f.class(name)))
	}
	if f.style.broken {
		out = append(out, set(f.class(classRare)), set(f.class(classWrong)))
	}
	for _, n := range f.g.cluster.Nodes {
		out = append(out, f.publish(n.Name)...)
	}
	if f.style.network {
		for i := range 1 + f.g.IntN(2) {
			out = append(out, f.network(fmt.Sprintf("net-%d", i))...)
		}
	}
	return out
}

func (f *deviceFamily) node(n *v1.Node) {
	n.Labels[island] = oneOf(f.g.strange, "a", "b", "c")
	delete(n.Status.Allocatable, accelerator)
	if f.style.extended && f.style.plugins && f.g.chance(35) {
		n.Status.Allocatable[accelerator] = resource.MustParse(oneOf(f.g.strange, "0", "1", "2", "4"))
	}
}

// selectors are the expressions of classes.
var selectors = map[string]string{
	classGPU: `device.driver == "` + driverGPU + `"`,
	classNIC: `device.driver == "` + driverNIC + `"`,
	classBig: `device.driver == "` + driverGPU + `" && device.attributes["` + driverGPU + `"].model == "big"`,
	classLarge: `"memory" in device.capacity["` + driverGPU + `"] && ` +
		`device.capacity["` + driverGPU + `"].memory.compareTo(quantity("8Gi")) >= 0`,
	classFast:  `"fast" in device.attributes["` + driverGPU + `"] && device.attributes["` + driverGPU + `"].fast`,
	classRare:  `device.attributes["` + driverGPU + `"].rare`,
	classWrong: `device.nothing == 1`,
}

// class is a class as it may be: its name says which devices it has, the rest differs.
func (f *deviceFamily) class(name string) *resourcev1.DeviceClass {
	g := f.g
	c := &resourcev1.DeviceClass{}
	c.Name, c.CreationTimestamp = name, metav1.Time{Time: time.Unix(epoch+g.Int64N(3), 0)}
	if expression := selectors[name]; expression != "" {
		c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
	}
	if g.chance(20) {
		c.Spec.Config = []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: f.opaque("class")}}
	}
	if f.style.extended && (name == classGPU || name == classBig || name == classAny) && g.chance(60) {
		c.Spec.ExtendedResourceName = ptr.To(accelerator)
	}
	return c
}

func (f *deviceFamily) opaque(of string) resourcev1.DeviceConfiguration {
	return resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
		Driver: driverGPU, Parameters: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"of":%q}`, of)},
	}}
}

// publish publishes a node's pools, which are called like the node.
func (f *deviceFamily) publish(node string) (out Round) {
	local := func(s *resourcev1.ResourceSlice) { s.Spec.NodeName = ptr.To(node) }
	if f.g.chance(85) {
		out = append(out, f.pool(driverGPU, node, local)...)
	}
	if f.g.chance(35) {
		out = append(out, f.pool(driverNIC, node, local)...)
	}
	return out
}

// network publishes a pool that several nodes reach.
func (f *deviceFamily) network(name string) Round {
	g := f.g
	driver := oneOf(g.strange, driverNIC, driverNIC, driverGPU)
	within := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
		build.Labels(build.Match(island, v1.NodeSelectorOpIn, oneOf(g.strange, "a", "b"))),
	}}
	switch g.IntN(3) {
	case 0:
		return f.pool(driver, name, func(s *resourcev1.ResourceSlice) { s.Spec.AllNodes = ptr.To(true) })
	case 1:
		return f.pool(driver, name, func(s *resourcev1.ResourceSlice) { s.Spec.NodeSelector = within })
	}
	return f.pool(driver, name, func(s *resourcev1.ResourceSlice) {
		s.Spec.PerDeviceNodeSelection = ptr.To(true)
		for i := range s.Spec.Devices {
			switch d := &s.Spec.Devices[i]; g.IntN(3) {
			case 0:
				d.AllNodes = ptr.To(true)
			case 1:
				d.NodeSelector = within
			default:
				d.NodeName = &oneOf(g.strange, g.cluster.Nodes...).Name
			}
		}
	})
}

// pool publishes a pool of one slice or several, in place of those of an older generation.
func (f *deviceFamily) pool(driver, name string, reach func(*resourcev1.ResourceSlice)) (out Round) {
	g := f.g
	generation := oneOf[int64](g.strange, 0, 0, 1)
	for _, s := range f.slicesOf(driver, name) {
		generation = max(generation, s.Spec.Pool.Generation+1)
		if !f.style.broken || g.chance(70) { // otherwise it stays behind
			out = append(out, f.withdraw(s)...)
		}
	}
	list := []*resourcev1.ResourceSlice{f.slice(driver, name)}
	for i := range oneOf(g.strange, 0, 1, 2, 2, 3, 3, 4) {
		list[0].Spec.Devices = append(list[0].Spec.Devices, f.device(driver, name, i))
	}
	if n := len(list[0].Spec.Devices); n > 1 && g.chance(20) {
		more := f.slice(driver, name)
		more.Spec.Devices = slices.Clone(list[0].Spec.Devices[n/2:])
		list[0].Spec.Devices = list[0].Spec.Devices[:n/2]
		list = append(list, more)
	}
	if f.style.counters && driver == driverGPU && g.chance(70) {
		for _, s := range list {
			for i := range s.Spec.Devices {
				f.consume(&s.Spec.Devices[i])
			}
		}
		counters := f.slice(driver, name)
		counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "board", Counters: map[string]resourcev1.Counter{
			"memory": {Value: resource.MustParse(oneOf(g.strange, "10Gi", "16Gi"))}, "lanes": {Value: resource.MustParse("4")},
		}}}
		list = append(list, counters)
	}
	for _, s := range list {
		reach(s)
		s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount = generation, int64(len(list))
	}
	if f.style.broken && g.chance(25) {
		list = f.broken(list)
	}
	for _, s := range list {
		f.slices = append(f.slices, s)
		out = append(out, set(s))
	}
	return out
}

// broken is a pool that is not whole yet, or can't be used.
func (f *deviceFamily) broken(list []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	last := list[len(list)-1]
	switch f.g.IntN(4) {
	case 0:
		return list[:len(list)-1]
	case 1:
		for _, s := range list {
			s.Spec.Pool.ResourceSliceCount++
		}
	case 2:
		if n := len(list[0].Spec.Devices); n > 0 { // one of another slice has the name too
			twice := f.slice(last.Spec.Driver, last.Spec.Pool.Name)
			twice.Spec = *list[0].Spec.DeepCopy()
			twice.Spec.Devices = twice.Spec.Devices[n-1:]
			list = append(list, twice)
			for _, s := range list {
				s.Spec.Pool.ResourceSliceCount = int64(len(list))
			}
		}
	case 3:
		if len(last.Spec.Devices) > 0 {
			last.Spec.Devices[0].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{
				CounterSet: oneOf(f.g.strange, "board", "none"), Counters: map[string]resourcev1.Counter{"nothing": {Value: resource.MustParse("1")}},
			}}
		}
	}
	return list
}

// slice is an empty one of a pool. Names sort otherwise than slices are made.
func (f *deviceFamily) slice(driver, pool string) *resourcev1.ResourceSlice {
	f.made++
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("slice-%d-%d", f.g.IntN(10), f.made)},
		Spec:       resourcev1.ResourceSliceSpec{Driver: driver, Pool: resourcev1.ResourcePool{Name: pool}},
	}
}

func (f *deviceFamily) slicesOf(driver, pool string) (out []*resourcev1.ResourceSlice) {
	for _, s := range f.slices {
		if s.Spec.Driver == driver && s.Spec.Pool.Name == pool {
			out = append(out, s)
		}
	}
	return out
}

func (f *deviceFamily) withdraw(s *resourcev1.ResourceSlice) Round {
	f.slices = slices.DeleteFunc(f.slices, func(x *resourcev1.ResourceSlice) bool { return x == s })
	return Round{{Type: Removed, Object: s}}
}

// device is one of a few models.
func (f *deviceFamily) device(driver, pool string, i int) resourcev1.Device {
	g := f.g
	d := resourcev1.Device{Name: fmt.Sprintf("dev-%d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"model":                   {StringValue: ptr.To(oneOf(g.strange, "big", "small", "small"))},
		"numa":                    {IntValue: ptr.To(g.Int64N(2))},
		"driverVersion":           {VersionValue: ptr.To(oneOf(g.strange, "1.2.3", "2.0.0"))},
		"uuid":                    {StringValue: ptr.To(fmt.Sprintf("%s/%s/%d", driver, pool, i))},
		"shared.example.com/rack": {StringValue: ptr.To(oneOf(g.strange, "r1", "r2"))},
	}, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
		"memory": {Value: resource.MustParse(oneOf(g.strange, "4Gi", "8Gi", "16Gi"))},
	}}
	if g.chance(70) {
		d.Attributes["fast"] = resourcev1.DeviceAttribute{BoolValue: ptr.To(g.chance(60))}
	}
	if !f.style.broken || g.chance(60) {
		d.Attributes["rare"] = resourcev1.DeviceAttribute{BoolValue: ptr.To(g.chance(40))}
	}
	if f.style.taints && g.chance(30) {
		d.Taints = f.taints()
	}
	if f.style.shares && g.chance(60) {
		f.share(&d)
	}
	if f.style.conditions && g.chance(30) {
		d.BindingConditions, d.BindingFailureConditions = []string{"ready"}, []string{"failed"}
		if g.chance(50) {
			d.BindsToNode = ptr.To(true)
		}
	}
	return d
}

func (f *deviceFamily) taints() []resourcev1.DeviceTaint {
	return []resourcev1.DeviceTaint{{
		Key: oneOf(f.g.strange, "broken", "reserved"), Value: oneOf(f.g.strange, "", "yes"),
		Effect: oneOf(f.g.strange, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute,
			resourcev1.DeviceTaintEffectNone),
		TimeAdded: &metav1.Time{Time: time.Unix(epoch, 0)},
	}}
}

// share lets a device be allocated to several claims.
func (f *deviceFamily) share(d *resourcev1.Device) {
	g := f.g
	d.AllowMultipleAllocations = ptr.To(true)
	quantity := func(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }
	memory := resourcev1.DeviceCapacity{Value: resource.MustParse(oneOf(g.strange, "8Gi", "16Gi"))}
	switch g.IntN(5) {
	case 0:
		d.Capacity = nil
		return
	case 1:
		memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: quantity("2Gi"), ValidRange: &resourcev1.CapacityRequestPolicyRange{
			Min: quantity("2Gi"), Max: quantity("8Gi"), Step: quantity("2Gi"),
		}}
	case 2:
		memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{
			Default: quantity("1Gi"), ValidValues: []resource.Quantity{*quantity("1Gi"), *quantity("4Gi"), *quantity("8Gi")},
		}
	case 3:
		memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: quantity("4Gi")}
		d.Capacity["streams"] = resourcev1.DeviceCapacity{
			Value: resource.MustParse("2"), RequestPolicy: &resourcev1.CapacityRequestPolicy{Default: quantity("1")},
		}
	}
	d.Capacity["memory"] = memory
}

// consume has a device consume counters of its pool's board.
func (f *deviceFamily) consume(d *resourcev1.Device) {
	if f.g.chance(15) {
		return
	}
	counters := map[string]resourcev1.Counter{"memory": {Value: resource.MustParse(oneOf(f.g.strange, "4Gi", "5Gi", "10Gi"))}}
	if f.g.chance(50) {
		counters["lanes"] = resourcev1.Counter{Value: resource.MustParse(oneOf(f.g.strange, "1", "2", "3"))}
	}
	d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "board", Counters: counters}}
}

// change publishes anew, alters a device or a class, has a claim come or go, or lets drivers do their part.
func (f *deviceFamily) change() Round {
	g := f.g
	switch g.IntN(12) {
	case 0, 1:
		if len(g.nodes) > 0 {
			return f.publish(oneOf(g.strange, g.nodes...).Name)
		}
	case 2:
		if f.style.network {
			return f.network(fmt.Sprintf("net-%d", g.IntN(2)))
		}
	case 3, 4:
		return f.alter()
	case 5:
		if len(f.slices) > 0 {
			return f.withdraw(oneOf(g.strange, f.slices...))
		}
	case 6:
		name := oneOf(g.strange, classGPU, classNIC, classAny, classBig, classLarge, classFast)
		if g.chance(15) {
			return Round{{Type: Removed, Object: f.class(name)}}
		}
		return Round{set(f.class(name))}
	case 7:
		if len(f.shared) > 0 {
			return f.replace(g.IntN(len(f.shared)))
		}
	case 8, 9:
		return f.makeLate()
	}
	return Round{{Type: Settled, Fate: g.Uint64()}}
}

// replace deletes a claim that pods share, and mostly makes another of its name, unless the first is in use.
func (f *deviceFamily) replace(i int) Round {
	out := Round{{Type: Removed, Object: f.shared[i]}}
	if f.g.chance(70) {
		f.made++
		again := f.shared[i].DeepCopy()
		again.UID, again.Status, again.Finalizers = types.UID(fmt.Sprint(again.Name, "-", f.made)), resourcev1.ResourceClaimStatus{}, nil
		f.shared[i] = again
		out = append(out, set(again))
	}
	return out
}

// alter publishes a slice with one of its devices altered.
func (f *deviceFamily) alter() Round {
	i := slices.IndexFunc(f.slices, func(s *resourcev1.ResourceSlice) bool { return len(s.Spec.Devices) > 0 && f.g.chance(20) })
	if i < 0 {
		return nil
	}
	s := f.slices[i].DeepCopy()
	d := &s.Spec.Devices[f.g.IntN(len(s.Spec.Devices))]
	switch {
	case f.style.taints && f.g.chance(50) && len(d.Taints) > 0:
		d.Taints = nil
	case f.style.taints && f.g.chance(70):
		d.Taints = f.taints()
	case f.style.broken && f.g.chance(40):
		s.Spec.Pool.ResourceSliceCount = int64(len(f.slicesOf(s.Spec.Driver, s.Spec.Pool.Name)))
	default:
		d.Attributes["model"] = resourcev1.DeviceAttribute{StringValue: ptr.To(oneOf(f.g.strange, "big", "small"))}
	}
	f.slices[i] = s
	return Round{set(s)}
}
