package devices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// sliceMessage makes the message of a slice. One that is its node's own has no reach.
func sliceMessage(s *resourcev1.ResourceSlice, own bool) *pb.DeviceSlice {
	m := &pb.DeviceSlice{
		Name: s.Name, Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name,
		Generation: s.Spec.Pool.Generation, SliceCount: s.Spec.Pool.ResourceSliceCount,
	}
	each := s.Spec.PerDeviceNodeSelection != nil && *s.Spec.PerDeviceNodeSelection
	if !own {
		m.Reach = reach(s.Spec.NodeName, s.Spec.AllNodes, s.Spec.NodeSelector)
		if each && m.Reach.Of == nil {
			m.Reach.Of = &pb.DeviceReach_PerDevice{PerDevice: true}
		}
	}
	for i := range s.Spec.Devices {
		d := deviceMessage(&s.Spec.Devices[i])
		if each {
			of := &s.Spec.Devices[i]
			d.Reach = reach(of.NodeName, of.AllNodes, of.NodeSelector)
		}
		m.Devices = append(m.Devices, d)
	}
	for i := range s.Spec.SharedCounters {
		set := &s.Spec.SharedCounters[i]
		m.CounterSets = append(m.CounterSets, &pb.CounterSet{Name: set.Name, Counters: counterList(set.Counters)})
	}
	return m
}

// reach says which nodes a name, a flag or a selector stand for, the first that is set.
func reach(name *string, all *bool, selector *v1.NodeSelector) *pb.DeviceReach {
	switch {
	case name != nil && *name != "":
		return &pb.DeviceReach{Of: &pb.DeviceReach_NodeName{NodeName: *name}}
	case all != nil && *all:
		return &pb.DeviceReach{Of: &pb.DeviceReach_AllNodes{AllNodes: true}}
	case selector == nil:
		return &pb.DeviceReach{}
	}
	if _, err := nodeaffinity.NewNodeSelector(selector); err != nil {
		text := fmt.Sprintf("failed to parse node selector %s: %v", selector.String(), err)
		return &pb.DeviceReach{Of: &pb.DeviceReach_Unreadable{Unreadable: text}}
	}
	m := compile.NodeSelector(selector)
	if m == nil {
		return &pb.DeviceReach{Of: &pb.DeviceReach_AllNodes{AllNodes: true}}
	}
	return &pb.DeviceReach{Of: &pb.DeviceReach_Selector{Selector: m}}
}

func deviceMessage(d *resourcev1.Device) *pb.Device {
	m := &pb.Device{
		Name:           d.Name,
		Attributes:     attributeList(d.Attributes),
		BindsToNode:    d.BindsToNode != nil && *d.BindsToNode,
		Conditioned:    d.BindingConditions != nil,
		AllowsMultiple: d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations,
	}
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		of := d.Capacity[name]
		m.Capacities = append(m.Capacities, &pb.DeviceCapacity{
			Name: string(name), Quantity: amountOf(&of.Value), Policy: policyMessage(of.RequestPolicy),
		})
	}
	for i := range d.Taints {
		t := &d.Taints[i]
		if effect := taintEffects[t.Effect]; effect != 0 {
			m.Taints = append(m.Taints, &pb.Taint{Key: t.Key, Value: t.Value, Effect: effect})
		}
	}
	for i := range d.ConsumesCounters {
		of := &d.ConsumesCounters[i]
		m.Consumes = append(m.Consumes, &pb.CounterUse{CounterSet: of.CounterSet, Counters: counterList(of.Counters)})
	}
	return m
}

// taintEffects are those that keep requests from a device.
var taintEffects = map[resourcev1.DeviceTaintEffect]pb.TaintEffect{
	resourcev1.DeviceTaintEffectNoSchedule: pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE,
	resourcev1.DeviceTaintEffectNoExecute:  pb.TaintEffect_TAINT_EFFECT_NO_EXECUTE,
}

func attributeList(list map[resourcev1.QualifiedName]resourcev1.DeviceAttribute) (out []*pb.DeviceAttribute) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		m, of := &pb.DeviceAttribute{Name: string(name)}, list[name]
		switch {
		case of.IntValue != nil:
			m.Value = &pb.DeviceAttribute_Int{Int: *of.IntValue}
		case of.BoolValue != nil:
			m.Value = &pb.DeviceAttribute_Bool{Bool: *of.BoolValue}
		case of.StringValue != nil:
			m.Value = &pb.DeviceAttribute_String_{String_: *of.StringValue}
		case of.VersionValue != nil:
			m.Value = &pb.DeviceAttribute_Version{Version: *of.VersionValue}
		}
		out = append(out, m)
	}
	return out
}

func policyMessage(p *resourcev1.CapacityRequestPolicy) *pb.CapacityPolicy {
	if p == nil {
		return nil
	}
	m := &pb.CapacityPolicy{Default: optionalAmount(p.Default)}
	for i := range p.ValidValues {
		m.ValidValues = append(m.ValidValues, amountOf(&p.ValidValues[i]))
	}
	if r := p.ValidRange; r != nil {
		m.Range = &pb.CapacityRange{Min: optionalAmount(r.Min), Max: optionalAmount(r.Max), Step: optionalAmount(r.Step)}
	}
	return m
}

func counterList(list map[string]resourcev1.Counter) []*pb.DeviceAmount {
	out := make([]*pb.DeviceAmount, 0, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		of := list[name]
		out = append(out, &pb.DeviceAmount{Name: name, Quantity: amountOf(&of.Value)})
	}
	return out
}

// tolerationList makes messages of tolerations; those that tolerate nothing are left out.
func tolerationList(list []resourcev1.DeviceToleration) (out []*pb.Toleration) {
	for i := range list {
		t := &list[i]
		m := &pb.Toleration{Key: t.Key, Effect: taintEffects[t.Effect]}
		if t.Effect != "" && m.Effect == 0 {
			continue
		}
		switch cmp.Or(t.Operator, resourcev1.DeviceTolerationOpEqual) {
		case resourcev1.DeviceTolerationOpEqual:
			m.Operator, m.Value = pb.TolerationOperator_TOLERATION_OPERATOR_EQUAL, t.Value
		case resourcev1.DeviceTolerationOpExists:
			m.Operator = pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS
		default:
			continue
		}
		out = append(out, m)
	}
	return out
}
