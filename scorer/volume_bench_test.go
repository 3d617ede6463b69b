package scorer

import (
	"fmt"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// localVolumes is a claim that 10,000 local volumes compete for, two on each of 5,000 nodes.
func localVolumes() *pb.VolumeBindingQuery {
	b := &pb.VolumeBindingQuery{Claims: []*pb.UnboundClaim{{}}}
	for i := range 10000 {
		b.Volumes = append(b.Volumes, &pb.CandidateVolume{Key: "kubernetes.io/hostname", Value: benchNode(i / 2).Name})
		b.Claims[0].Volumes = append(b.Claims[0].Volumes, uint32(i))
	}
	return b
}

// segments is a claim to be provisioned where one of 5,000 nodes has room.
func segments() *pb.VolumeBindingQuery {
	c := &pb.UnboundClaim{Provision: true, CheckCapacity: true}
	for i := range 5000 {
		c.Capacities = append(c.Capacities, &pb.NodeSelector{Terms: []*pb.SelectorTerm{{Labels: []*pb.LabelRequirement{
			{Key: "kubernetes.io/hostname", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_IN, Values: []string{benchNode(i).Name}},
		}}}})
	}
	return &pb.VolumeBindingQuery{Claims: []*pb.UnboundClaim{c}}
}

// zonal is two claims that share 1,000 volumes in three zones.
func zonal() *pb.VolumeBindingQuery {
	b := &pb.VolumeBindingQuery{Claims: []*pb.UnboundClaim{{}, {}}}
	for i := range 1000 {
		b.Volumes = append(b.Volumes, &pb.CandidateVolume{NodeAffinity: &pb.NodeSelector{Terms: []*pb.SelectorTerm{{Labels: []*pb.LabelRequirement{
			{Key: "topology.kubernetes.io/zone", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_IN, Values: []string{fmt.Sprintf("eu-west-1%c", 'a'+i%3)}},
			{Key: "kubernetes.io/arch", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_IN, Values: []string{"amd64", "arm64"}},
		}}}}})
		b.Claims[0].Volumes = append(b.Claims[0].Volumes, uint32(i))
		b.Claims[1].Volumes = append(b.Claims[1].Volumes, uint32(i))
	}
	return b
}

// volumeRows are nodes with two CSI drivers.
func volumeRows(b *testing.B, n int) *Table {
	t := NewTable(0)
	for i := range n {
		node := benchNode(i)
		node.VolumeLimits = []*pb.VolumeLimit{{Driver: "ebs.csi.aws.com", Volumes: 25}, {Driver: "efs.csi.aws.com", Volumes: 1000}}
		deltas := []*pb.Delta{
			{Row: uint32(i), Change: &pb.Delta_SetNode{SetNode: node}},
			{Row: uint32(i), Change: &pb.Delta_ChangeCounters{ChangeCounters: &pb.CounterChange{Counters: []*pb.CounterValue{{Counter: 1, Value: int64(1 + i%30)}}}}},
		}
		for _, d := range deltas {
			if err := t.Apply(d); err != nil {
				b.Fatal(err)
			}
		}
	}
	return t
}

// BenchmarkVolumes is one filter over 5,000 rows, with the reasons and without. Without,
// nothing is allocated.
func BenchmarkVolumes(b *testing.B) {
	table := volumeRows(b, 5000)
	binding := pb.Plugin_PLUGIN_VOLUME_BINDING
	for _, c := range []struct {
		name  string
		query *pb.Query
	}{
		{"local", &pb.Query{ClassId: 1, Filters: []pb.Plugin{binding}, VolumeBinding: localVolumes()}},
		{"segments", &pb.Query{ClassId: 1, Filters: []pb.Plugin{binding}, VolumeBinding: segments()}},
		{"zonal", &pb.Query{ClassId: 1, Filters: []pb.Plugin{binding}, VolumeBinding: zonal()}},
		{"limits", &pb.Query{ClassId: 1, Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS}, VolumeLimits: &pb.VolumeLimitsQuery{
			Drivers: []*pb.DriverVolumes{{Driver: "ebs.csi.aws.com", Volumes: 2, Attached: 1}},
		}}},
		{"zone", &pb.Query{ClassId: 1, Filters: []pb.Plugin{pb.Plugin_PLUGIN_VOLUME_ZONE}, VolumeZones: []*pb.ZoneRequirement{
			{Key: "topology.kubernetes.io/zone", Values: []string{"eu-west-1a"}},
		}}},
	} {
		for _, diagnose := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/reasons=%t", c.name, diagnose), func(b *testing.B) {
				class, e, into := newClass(b, c.query), NewEvaluator(nil), &Result{}
				o := Options{Candidates: 64, Diagnose: diagnose}
				b.ReportAllocs()
				for b.Loop() {
					into.Reset(class.ID(), o.Candidates)
					e.Evaluate(table, class, o, into)
				}
			})
		}
	}
}

// BenchmarkLocalVolumeClass is what a worker pays for a class with 10,000 local volumes,
// once.
func BenchmarkLocalVolumeClass(b *testing.B) {
	q := &pb.Query{ClassId: 1, Filters: []pb.Plugin{pb.Plugin_PLUGIN_VOLUME_BINDING}, VolumeBinding: localVolumes()}
	b.ReportAllocs()
	for b.Loop() {
		newClass(b, q)
	}
}
