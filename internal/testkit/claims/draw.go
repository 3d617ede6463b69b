package claims

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/scorer/devices"
)

// Draw draws a small scene: names and values are few, so that they meet. Equal seeds draw equal scenes.
func Draw(seed uint64) *Scene {
	d := draws{Rand: rand.New(rand.NewPCG(seed, 0x5ca1ab1e)), scene: &Scene{Features: devices.DefaultFeatures()}}
	d.breakage = d.IntN(4) == 0
	if d.IntN(10) == 0 {
		d.features()
	}
	for i := range 1 + d.IntN(3) {
		d.scene.Nodes = append(d.scene.Nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"zone": d.one("a", "b"), "disk": d.one("ssd", "hdd")},
		}})
	}
	d.classes()
	for range min(1+d.IntN(5), 1+d.IntN(5)) + d.IntN(3) {
		d.pool()
	}
	d.Shuffle(len(d.scene.Slices), func(i, j int) {
		d.scene.Slices[i], d.scene.Slices[j] = d.scene.Slices[j], d.scene.Slices[i]
	})
	d.used()
	for i := range 1 + d.IntN(1+d.IntN(3)) {
		d.claim(i)
	}
	return d.scene
}

type draws struct {
	*rand.Rand
	scene *Scene
	// breakage draws what a driver or a user gets wrong.
	breakage bool
	slices   int
}

func (d *draws) one(of ...string) string { return of[d.IntN(len(of))] }

// sorted walks a map by its keys.
func sorted[K ~string, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// often is true in n of 10 draws.
func (d *draws) often(n int) bool { return d.IntN(10) < n }

func (d *draws) rarely() bool { return d.breakage && d.IntN(15) == 0 }

func (d *draws) hardly() bool {
	rarely := d.rarely()
	return rarely && d.rarely()
}

func (d *draws) quantity(of ...string) resource.Quantity { return resource.MustParse(d.one(of...)) }

func (d *draws) features() {
	f := &d.scene.Features
	for _, gate := range []*bool{&f.PrioritizedList, &f.PartitionableDevices, &f.DeviceTaints, &f.BindingConditions, &f.ConsumableCapacity} {
		*gate = d.often(7)
	}
}

// expressions of classes and requests; the last few go wrong.
var expressions = []string{
	`device.driver == "gpu.example.com"`,
	`device.attributes["gpu.example.com"].model == "a"`,
	`"model" in device.attributes["gpu.example.com"]`,
	`device.attributes["gpu.example.com"].?numa.orValue(0) < 2`,
	`device.capacity["gpu.example.com"].?memory.orValue(quantity("0")).compareTo(quantity("20Gi")) >= 0`,
	`!device.allowMultipleAllocations`,
	`device.attributes["nic.example.com"].?link == optional.of("x")`,
	`true`,
	`has(device.attributes["gpu.example.com"].fast)`,
	`device.attributes["gpu.example.com"].fast`,
	`device.attributes["gpu.example.com"].numa == 1`,
	`device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.0.0"))`,
	`device.nothing`,
	`device.driver`,
}

func (d *draws) expression() string {
	switch {
	case d.rarely():
		return expressions[d.IntN(len(expressions))]
	case d.breakage:
		return expressions[d.IntN(len(expressions)-2)]
	}
	return expressions[d.IntN(len(expressions)-5)]
}

func (d *draws) selectors(most int) (out []resourceapi.DeviceSelector) {
	for range d.IntN(most + 1) {
		s := resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: d.expression()}}
		if d.hardly() {
			s.CEL = nil
		}
		out = append(out, s)
	}
	return out
}

func (d *draws) classes() {
	d.scene.Classes = map[string]*resourceapi.DeviceClass{
		"any": {ObjectMeta: metav1.ObjectMeta{Name: "any"}},
		"gpu": {ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expressions[0]}}}}},
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "drawn"}}
	for _, s := range d.selectors(2) {
		if s.CEL != nil {
			class.Spec.Selectors = append(class.Spec.Selectors, s)
		}
	}
	d.scene.Classes["drawn"] = class
}

// selection draws which nodes reach a slice.
func (d *draws) selection(spec *resourceapi.ResourceSliceSpec, home string) {
	switch yes := true; {
	case d.often(5):
		spec.NodeName = &home
	case d.often(4):
		spec.AllNodes = &yes
	case d.often(5):
		spec.NodeSelector = d.nodeSelector()
	case d.rarely():
	default:
		spec.PerDeviceNodeSelection = &yes
	}
}

func (d *draws) nodeSelector() *v1.NodeSelector {
	s := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
		{Key: d.one("zone", "disk"), Operator: v1.NodeSelectorOpIn, Values: []string{d.one("a", "b", "ssd")}},
	}}}}
	if d.rarely() {
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: "zone", Operator: v1.NodeSelectorOpExists},
		}})
	}
	return s
}

// pool draws the slices of a pool, now and then of two generations, or too few.
func (d *draws) pool() {
	driver, name := d.one("gpu.example.com", "gpu.example.com", "nic.example.com"), d.one("p0", "p1", "p2", "n0", "n1")
	home := d.node()
	partitioned, multiple := d.often(3), d.often(3)
	many := 1 + d.IntN(3)
	if d.often(6) {
		many = 1
	}
	pool := resourceapi.ResourcePool{Name: name, Generation: int64(d.IntN(2)), ResourceSliceCount: int64(many)}
	var sets []resourceapi.CounterSet
	if partitioned {
		sets = d.counterSets()
		pool.ResourceSliceCount++
		d.publish(driver, pool, resourceapi.ResourceSliceSpec{SharedCounters: sets}, home)
		if d.rarely() {
			d.publish(driver, pool, resourceapi.ResourceSliceSpec{SharedCounters: sets}, home)
		}
	}
	devices := 0
	for range many {
		spec := resourceapi.ResourceSliceSpec{}
		for range 1 + d.IntN(5) {
			device := fmt.Sprintf("d%d", devices)
			if !d.rarely() {
				devices++
			}
			spec.Devices = append(spec.Devices, d.device(device, sets, multiple))
		}
		if d.rarely() {
			pool.Generation += int64(1 - d.IntN(3))
		}
		if d.often(2) {
			home = d.node()
		}
		if !d.rarely() {
			d.publish(driver, pool, spec, home)
		}
	}
}

func (d *draws) node() string { return d.scene.Nodes[d.IntN(len(d.scene.Nodes))].Name }

func (d *draws) publish(driver string, pool resourceapi.ResourcePool, spec resourceapi.ResourceSliceSpec, home string) {
	spec.Driver, spec.Pool = driver, pool
	d.selection(&spec, home)
	if spec.PerDeviceNodeSelection != nil {
		for i := range spec.Devices {
			d.deviceSelection(&spec.Devices[i])
		}
	}
	d.slices++
	name := fmt.Sprintf("s%d-%d", d.IntN(3), d.slices)
	d.scene.Slices = append(d.scene.Slices, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
}

func (d *draws) deviceSelection(device *resourceapi.Device) {
	switch yes, home := true, d.node(); d.IntN(4) {
	case 0, 1:
		device.NodeName = &home
	case 2:
		device.AllNodes = &yes
	case 3:
		device.NodeSelector = d.nodeSelector()
	}
}

func (d *draws) counterSets() (out []resourceapi.CounterSet) {
	for i := range 1 + d.IntN(2) {
		set := resourceapi.CounterSet{Name: fmt.Sprintf("set%d", i), Counters: map[string]resourceapi.Counter{}}
		for range 1 + d.IntN(2) {
			set.Counters[d.one("memory", "cores")] = resourceapi.Counter{Value: d.quantity("4", "10", "2500m", "40Gi")}
		}
		out = append(out, set)
	}
	return out
}

func (d *draws) device(name string, sets []resourceapi.CounterSet, multiple bool) resourceapi.Device {
	yes, no := true, false
	out := resourceapi.Device{Name: name, Attributes: d.attributes(), Capacity: d.capacities(multiple)}
	for i := range sets {
		if d.often(5) {
			out.ConsumesCounters = append(out.ConsumesCounters, d.consumption(&sets[i]))
		}
	}
	if multiple {
		out.AllowMultipleAllocations = &yes
		if d.often(2) {
			out.AllowMultipleAllocations = &no
		}
	}
	for range d.IntN(9) - 6 {
		out.Taints = append(out.Taints, resourceapi.DeviceTaint{
			Key: d.one("k", "l"), Value: d.one("", "v"), Effect: resourceapi.DeviceTaintEffect(d.one("NoSchedule", "NoExecute", "None", "Other")),
		})
	}
	if d.IntN(12) == 0 {
		out.BindingConditions, out.BindingFailureConditions = []string{"ready"}, []string{"broken"}
	}
	if d.IntN(8) == 0 {
		out.BindsToNode = &yes
	}
	return out
}

func (d *draws) consumption(set *resourceapi.CounterSet) resourceapi.DeviceCounterConsumption {
	c := resourceapi.DeviceCounterConsumption{CounterSet: set.Name, Counters: map[string]resourceapi.Counter{}}
	for name := range sorted(set.Counters) {
		if d.often(8) {
			c.Counters[name] = resourceapi.Counter{Value: d.quantity("1", "2", "4", "500m", "20Gi")}
		}
	}
	if d.rarely() {
		c.CounterSet = "nowhere"
	}
	if d.rarely() {
		c.Counters["nothing"] = resourceapi.Counter{Value: resource.MustParse("1")}
	}
	return c
}

func (d *draws) attributes() map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	text := func(s string) *string { return &s }
	number, yes := int64(d.IntN(3)), d.often(5)
	if d.often(8) {
		out["model"] = resourceapi.DeviceAttribute{StringValue: text(d.one("a", "b"))}
	}
	if d.often(7) {
		out["numa"] = resourceapi.DeviceAttribute{IntValue: &number}
	}
	if d.often(3) {
		out["fast"] = resourceapi.DeviceAttribute{BoolValue: &yes}
	}
	if d.often(3) {
		out["version"] = resourceapi.DeviceAttribute{VersionValue: text(d.one("1.0.0", "1.2.0", "2.0.0"))}
	}
	if d.often(3) {
		out["nic.example.com/link"] = resourceapi.DeviceAttribute{StringValue: text(d.one("x", "y"))}
	}
	switch {
	case d.hardly():
		out["version"] = resourceapi.DeviceAttribute{VersionValue: text("1.x")}
	case d.hardly():
		out["numa"] = resourceapi.DeviceAttribute{IntValues: []int64{1}}
	case d.rarely():
		out["numa"] = resourceapi.DeviceAttribute{StringValue: text("1")}
	}
	return out
}

func (d *draws) capacities(multiple bool) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	for _, name := range []resourceapi.QualifiedName{"memory", "gpu.example.com/bandwidth"} {
		if !d.often(4) {
			continue
		}
		c := resourceapi.DeviceCapacity{Value: d.quantity("10Gi", "40Gi", "8", "1500m")}
		if multiple && d.often(7) {
			c.RequestPolicy = d.policy()
		}
		out[name] = c
	}
	return out
}

// policy draws a policy whose default is one of its portions, as the API server wants it: whether an amount is the
// default upstream tells by the text that it was read from.
func (d *draws) policy() *resourceapi.CapacityRequestPolicy {
	p := &resourceapi.CapacityRequestPolicy{}
	amount := func(n int, unit string) *resource.Quantity {
		q := resource.MustParse(fmt.Sprint(n, unit))
		return &q
	}
	unit := d.one("", "Gi", "m")
	switch d.IntN(3) {
	case 0:
		least := 1 + d.IntN(2)
		p.ValidRange = &resourceapi.CapacityRequestPolicyRange{Min: amount(least, unit)}
		if d.often(5) {
			p.ValidRange.Max = amount(6+d.IntN(10), unit)
		}
		p.Default = amount(least+d.IntN(4), unit)
		if step := 1 + d.IntN(3); d.often(5) && unit != "m" {
			p.ValidRange.Step = amount(step, unit)
			p.Default = amount(least+step, unit)
		}
	case 1:
		for _, v := range []string{"1", "4", "2Gi", "8Gi"} {
			p.ValidValues = append(p.ValidValues, resource.MustParse(v))
		}
		q := p.ValidValues[d.IntN(4)].DeepCopy()
		p.Default = &q
	default:
		if d.often(7) {
			p.Default = amount(1+d.IntN(4), unit)
		}
	}
	return p
}

// used draws what is in use.
func (d *draws) used() {
	busy := max(0, d.IntN(7)-2)
	for _, s := range d.scene.Slices {
		for i := range s.Spec.Devices {
			device := &s.Spec.Devices[i]
			if d.IntN(8) >= busy {
				continue
			}
			u := Used{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: device.Name}
			if device.AllowMultipleAllocations == nil || !*device.AllowMultipleAllocations || d.rarely() {
				u.Whole = !d.rarely()
			} else {
				u.Share = true
			}
			if (u.Share || !u.Whole) && d.often(8) {
				u.Holds = map[string]resource.Quantity{}
				for name := range sorted(device.Capacity) {
					if d.often(8) {
						u.Holds[string(name)] = d.quantity("1", "4Gi", "500m", "10Gi", "0")
					}
				}
			}
			d.scene.Used = append(d.scene.Used, u)
		}
	}
}

func (d *draws) claim(i int) {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("c%d", i)}}
	var names []string
	for r := range 1 + d.IntN(1+d.IntN(4)) {
		request, named := d.request(fmt.Sprintf("r%d", r))
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, request)
		names = append(names, named...)
	}
	for range max(0, d.IntN(6)-4) {
		k := resourceapi.DeviceConstraint{}
		name := resourceapi.FullyQualifiedName(d.one("gpu.example.com/model", "gpu.example.com/numa", "gpu.example.com/fast",
			"nic.example.com/link", "gpu.example.com/version"))
		switch {
		case d.hardly():
		case d.often(6):
			k.MatchAttribute = &name
		default:
			k.DistinctAttribute = &name
		}
		for _, n := range names {
			if d.often(3) {
				k.Requests = append(k.Requests, n)
			}
		}
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, k)
	}
	d.scene.Claims = append(d.scene.Claims, c)
}

// request draws a request, and the names by which constraints know it.
func (d *draws) request(name string) (resourceapi.DeviceRequest, []string) {
	r, names := resourceapi.DeviceRequest{Name: name}, []string{name}
	if !d.often(3) {
		a := d.alternative(name)
		r.Exactly = &resourceapi.ExactDeviceRequest{
			DeviceClassName: a.DeviceClassName, Selectors: a.Selectors, AllocationMode: a.AllocationMode, Count: a.Count,
			Tolerations: a.Tolerations, Capacity: a.Capacity,
		}
		if yes := true; d.IntN(8) == 0 {
			r.Exactly.AdminAccess = &yes
		}
		return r, names
	}
	for i := range 1 + d.IntN(3) {
		sub := fmt.Sprintf("s%d", i)
		r.FirstAvailable = append(r.FirstAvailable, d.alternative(sub))
		names = append(names, name+"/"+sub)
	}
	return r, names
}

func (d *draws) alternative(name string) resourceapi.DeviceSubRequest {
	a := resourceapi.DeviceSubRequest{
		Name: name, DeviceClassName: d.one("any", "gpu", "drawn"), AllocationMode: resourceapi.DeviceAllocationModeExactCount,
		Count: int64(1 + d.IntN(1+d.IntN(3))), Selectors: d.selectors(d.IntN(2)),
	}
	switch {
	case d.rarely():
		a.DeviceClassName = d.one("", "missing")
	case d.rarely():
		a.Count = int64(20 + d.IntN(20))
	case d.hardly():
		a.AllocationMode = "Other"
	case d.IntN(6) == 0:
		a.AllocationMode, a.Count = resourceapi.DeviceAllocationModeAll, 0
	}
	for range d.IntN(5) - 3 {
		a.Tolerations = append(a.Tolerations, resourceapi.DeviceToleration{
			Key: d.one("", "k", "l"), Operator: resourceapi.DeviceTolerationOperator(d.one("Exists", "Equal", "")), Value: d.one("", "v"),
			Effect: resourceapi.DeviceTaintEffect(d.one("", "NoSchedule", "NoExecute")),
		})
	}
	if d.IntN(4) == 0 {
		a.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{}}
		for _, name := range []resourceapi.QualifiedName{"memory", "gpu.example.com/bandwidth"} {
			if d.often(6) {
				a.Capacity.Requests[name] = d.quantity("1", "3Gi", "5Gi", "700m", "4", "12Gi")
			}
		}
	}
	return a
}
