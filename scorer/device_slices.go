package scorer

import (
	"crypto/sha256"
	"encoding/binary"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/devices"
)

// digest stands for a content: contents of one digest are equal.
type digest [16]byte

// digestOf is the first half of SHA-256: nobody finds two contents of one digest.
func digestOf(encoded []byte) digest {
	sum := sha256.Sum256(encoded)
	return digest(sum[:])
}

// add makes d stand for one item more of a set, whatever the order in which they come; each item is in the set once.
func (d *digest) add(o digest) {
	low := binary.LittleEndian.Uint64(d[:]) + binary.LittleEndian.Uint64(o[:])
	binary.LittleEndian.PutUint64(d[:], low)
	binary.LittleEndian.PutUint64(d[8:], binary.LittleEndian.Uint64(d[8:])+binary.LittleEndian.Uint64(o[8:]))
}

// remove takes an item from the set.
func (d *digest) remove(o digest) {
	binary.LittleEndian.PutUint64(d[:], binary.LittleEndian.Uint64(d[:])-binary.LittleEndian.Uint64(o[:]))
	binary.LittleEndian.PutUint64(d[8:], binary.LittleEndian.Uint64(d[8:])-binary.LittleEndian.Uint64(o[8:]))
}

// reachOf makes of a message what a slice or a device says of nodes. number numbers the nodes of a name, a selector, or
// one that can not be read.
func reachOf(p *pb.DeviceReach, number func(*pb.DeviceReach) int32) devices.Reach {
	switch of := p.GetOf().(type) {
	case *pb.DeviceReach_NodeName:
		return devices.Reach{Kind: devices.ReachName, Index: number(p)}
	case *pb.DeviceReach_AllNodes:
		return devices.Reach{Kind: devices.ReachAllNodes}
	case *pb.DeviceReach_Selector:
		return devices.Reach{Kind: devices.ReachSelector, Index: number(p), Terms: int32(len(of.Selector.GetTerms()))}
	case *pb.DeviceReach_Unreadable:
		return devices.Reach{Kind: devices.ReachSelector, Index: number(p)}
	case *pb.DeviceReach_PerDevice:
		return devices.Reach{Kind: devices.ReachEach}
	}
	return devices.Reach{}
}

// slice makes a slice of a message. Its contents, which it holds, are appended to held.
func (d *deviceColumns) slice(p *pb.DeviceSlice, held []uint32) (*devices.Slice, []uint32) {
	s := &devices.Slice{
		Name: p.GetName(), Driver: p.GetDriver(), Pool: p.GetPool(), Generation: p.GetGeneration(), Count: p.GetSliceCount(),
		Reach: devices.Reach{Kind: devices.ReachThisNode},
	}
	if p.GetReach() != nil {
		s.Reach = reachOf(p.GetReach(), d.shared.number)
	}
	each := s.Reach.Kind == devices.ReachEach
	if len(p.GetDevices()) > 0 {
		s.Devices = make([]devices.Device, len(p.GetDevices()))
	}
	for i, x := range p.GetDevices() {
		content, id := d.content(p.GetDriver(), x)
		held = append(held, id)
		s.Devices[i] = devices.Device{
			Name: x.GetName(), Content: content, BindsToNode: x.GetBindsToNode(), Conditioned: x.GetConditioned(),
		}
		if each { // else nobody reads it
			s.Devices[i].Reach = reachOf(x.GetReach(), d.shared.number)
		}
		for _, t := range x.GetTaints() {
			s.Devices[i].Taints = append(s.Devices[i].Taints, devices.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: effectName(t.GetEffect())})
		}
		for _, c := range x.GetConsumes() {
			s.Devices[i].Consumes = append(s.Devices[i].Consumes,
				devices.Consumption{Set: c.GetCounterSet(), Counters: countersOfDevice(c.GetCounters())})
		}
	}
	for _, c := range p.GetCounterSets() {
		s.CounterSets = append(s.CounterSets, devices.CounterSet{Name: c.GetName(), Counters: countersOfDevice(c.GetCounters())})
	}
	return s, held
}

func effectNamed(name string) pb.TaintEffect {
	for e := range pb.TaintEffect_name {
		if effectName(pb.TaintEffect(e)) == name {
			return pb.TaintEffect(e)
		}
	}
	return 0
}

// content is what selectors read of a device: equal contents are one.
func (d *deviceColumns) content(driver string, x *pb.Device) (*devices.Content, uint32) {
	d.encoded = appendText(d.encoded[:0], driver)
	d.encoded = append(d.encoded, byte(asInt(x.GetAllowsMultiple())))
	for _, a := range x.GetAttributes() {
		v := valueOf(a)
		d.encoded = append(appendText(d.encoded, a.GetName()), byte(v.Kind))
		d.encoded = appendText(binary.AppendVarint(d.encoded, v.Int), v.Text)
	}
	d.encoded = append(d.encoded, 0xff) // no kind of value: the attributes end here
	capacities := len(d.encoded)
	for _, c := range x.GetCapacities() {
		d.encoded = appendPolicy(appendAmount(appendText(d.encoded, c.GetName()), c.GetQuantity()), c.GetPolicy())
	}
	id := d.contents.acquire(d.encoded, func() *devices.Content {
		c := &devices.Content{Driver: driver, Multiple: x.GetAllowsMultiple()}
		for _, a := range x.GetAttributes() {
			c.Attributes = append(c.Attributes, devices.Attribute{Name: a.GetName(), Value: valueOf(a)})
		}
		for _, q := range x.GetCapacities() {
			c.Capacities = append(c.Capacities,
				devices.Capacity{Name: q.GetName(), Value: amountOfDevice(q.GetQuantity()), Policy: policyOf(q.GetPolicy())})
		}
		return c
	})
	c := d.contents.contents[id]
	if _, known := d.known[c]; !known {
		sum := digestOf(d.encoded)
		d.encoded = append(d.encoded[capacities:], byte(asInt(x.GetAllowsMultiple())))
		d.known[c] = heldContent{id, sum, digestOf(d.encoded)}
	}
	return c, id
}

// releaseContent lets go of a content.
func (d *deviceColumns) releaseContent(id uint32) {
	if d.contents.refs[id] == 1 {
		delete(d.known, d.contents.contents[id])
	}
	d.contents.release(id)
}

func valueOf(a *pb.DeviceAttribute) devices.Value {
	switch v := a.GetValue().(type) {
	case *pb.DeviceAttribute_Int:
		return devices.Value{Kind: devices.ValueInt, Int: v.Int}
	case *pb.DeviceAttribute_Bool:
		return devices.Value{Kind: devices.ValueBool, Int: int64(asInt(v.Bool))}
	case *pb.DeviceAttribute_String_:
		return devices.Value{Kind: devices.ValueString, Text: v.String_}
	case *pb.DeviceAttribute_Version:
		return devices.Value{Kind: devices.ValueVersion, Text: v.Version}
	}
	return devices.Value{}
}

func amountOfDevice(q *pb.DeviceQuantity) devices.Amount {
	return devices.Amount{High: q.GetHigh(), Low: q.GetLow(), Format: devices.Format(q.GetFormat() - 1)}
}

func optionalAmount(q *pb.DeviceQuantity) *devices.Amount {
	if q == nil {
		return nil
	}
	a := amountOfDevice(q)
	return &a
}

func countersOfDevice(list []*pb.DeviceAmount) (out []devices.Counter) {
	for _, x := range list {
		out = append(out, devices.Counter{Name: x.GetName(), Value: amountOfDevice(x.GetQuantity())})
	}
	return out
}

func policyOf(p *pb.CapacityPolicy) *devices.Policy {
	if p == nil {
		return nil
	}
	out := &devices.Policy{Default: optionalAmount(p.GetDefault())}
	for _, v := range p.GetValidValues() {
		out.Values = append(out.Values, amountOfDevice(v))
	}
	if r := p.GetRange(); r != nil {
		out.Range = &devices.Range{Min: optionalAmount(r.GetMin()), Max: optionalAmount(r.GetMax()), Step: optionalAmount(r.GetStep())}
	}
	return out
}

func appendAmount(b []byte, q *pb.DeviceQuantity) []byte {
	b = binary.AppendUvarint(binary.AppendVarint(b, q.GetHigh()), q.GetLow())
	return append(b, byte(q.GetFormat()))
}

func appendPolicy(b []byte, p *pb.CapacityPolicy) []byte {
	b = append(b, byte(asInt(p != nil)))
	if p == nil {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(p.GetValidValues())))
	for _, v := range p.GetValidValues() {
		b = appendAmount(b, v)
	}
	b = append(b, byte(asInt(p.GetRange() != nil)))
	for _, q := range []*pb.DeviceQuantity{p.GetDefault(), p.GetRange().GetMin(), p.GetRange().GetMax(), p.GetRange().GetStep()} {
		b = appendAmount(b, q) // an absent one has no format
	}
	return b
}

// The messages of slices, for snapshots.

func amountProto(a devices.Amount) *pb.DeviceQuantity {
	return &pb.DeviceQuantity{High: a.High, Low: a.Low, Format: pb.QuantityFormat(a.Format) + 1}
}

func optionalProto(a *devices.Amount) *pb.DeviceQuantity {
	if a == nil {
		return nil
	}
	return amountProto(*a)
}

func countersProto(list []devices.Counter) (out []*pb.DeviceAmount) {
	for _, c := range list {
		out = append(out, &pb.DeviceAmount{Name: c.Name, Quantity: amountProto(c.Value)})
	}
	return out
}

// sliceProto is a slice under other names. reach gives messages of what has a number.
func sliceProto(s *devices.Slice, pool, name string, generation int64, reach func(devices.Reach) *pb.DeviceReach) *pb.DeviceSlice {
	out := &pb.DeviceSlice{Name: name, Driver: s.Driver, Pool: pool, Generation: generation, SliceCount: s.Count}
	if s.Reach.Kind != devices.ReachThisNode {
		out.Reach = reach(s.Reach)
	}
	for i := range s.Devices {
		out.Devices = append(out.Devices, deviceProto(&s.Devices[i], reach))
	}
	for _, c := range s.CounterSets {
		out.CounterSets = append(out.CounterSets, &pb.CounterSet{Name: c.Name, Counters: countersProto(c.Counters)})
	}
	return out
}

func deviceProto(d *devices.Device, reach func(devices.Reach) *pb.DeviceReach) *pb.Device {
	out := &pb.Device{Name: d.Name, BindsToNode: d.BindsToNode, Conditioned: d.Conditioned, AllowsMultiple: d.Content.Multiple}
	for _, a := range d.Content.Attributes {
		out.Attributes = append(out.Attributes, attributeProto(a))
	}
	for _, c := range d.Content.Capacities {
		out.Capacities = append(out.Capacities, &pb.DeviceCapacity{Name: c.Name, Quantity: amountProto(c.Value), Policy: policyProto(c.Policy)})
	}
	for _, t := range d.Taints {
		out.Taints = append(out.Taints, &pb.Taint{Key: t.Key, Value: t.Value, Effect: effectNamed(t.Effect)})
	}
	for _, c := range d.Consumes {
		out.Consumes = append(out.Consumes, &pb.CounterUse{CounterSet: c.Set, Counters: countersProto(c.Counters)})
	}
	if d.Reach.Kind != devices.ReachNone {
		out.Reach = reach(d.Reach)
	}
	return out
}

func attributeProto(a devices.Attribute) *pb.DeviceAttribute {
	out := &pb.DeviceAttribute{Name: a.Name}
	switch a.Value.Kind {
	case devices.ValueInt:
		out.Value = &pb.DeviceAttribute_Int{Int: a.Value.Int}
	case devices.ValueBool:
		out.Value = &pb.DeviceAttribute_Bool{Bool: a.Value.Int != 0}
	case devices.ValueString:
		out.Value = &pb.DeviceAttribute_String_{String_: a.Value.Text}
	case devices.ValueVersion:
		out.Value = &pb.DeviceAttribute_Version{Version: a.Value.Text}
	}
	return out
}

func policyProto(p *devices.Policy) *pb.CapacityPolicy {
	if p == nil {
		return nil
	}
	out := &pb.CapacityPolicy{Default: optionalProto(p.Default)}
	for _, v := range p.Values {
		out.ValidValues = append(out.ValidValues, amountProto(v))
	}
	if r := p.Range; r != nil {
		out.Range = &pb.CapacityRange{Min: optionalProto(r.Min), Max: optionalProto(r.Max), Step: optionalProto(r.Step)}
	}
	return out
}
