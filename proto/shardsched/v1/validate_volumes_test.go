package shardschedv1

import (
	"fmt"
	"testing"
)

// validVolumes asks for something of each volume plugin.
func validVolumes() *Query {
	selector := &NodeSelector{Terms: []*SelectorTerm{validTerm()}}
	return &Query{
		ClassId: 43,
		Filters: []Plugin{
			Plugin_PLUGIN_VOLUME_RESTRICTIONS, Plugin_PLUGIN_NODE_VOLUME_LIMITS, Plugin_PLUGIN_VOLUME_BINDING,
			Plugin_PLUGIN_VOLUME_ZONE, Plugin_PLUGIN_NODE_DECLARED_FEATURES,
		},
		Measures:           []*Measure{{By: Breakdown_BREAKDOWN_TOTAL, Counters: []*CounterTerm{{Counter: 9, Weight: 1}}}},
		VolumeRestrictions: &VolumeRestrictionsQuery{Disks: []uint32{3, 4}, Claims: []uint32{0}, Named: []uint32{5, 8}},
		VolumeLimits: &VolumeLimitsQuery{
			Drivers:      []*DriverVolumes{{Driver: "a", Volumes: 2, Attached: 5, Shared: []uint32{6, 7}}, {Driver: "b", Volumes: 1}},
			MissingClaim: "looking up PVC",
		},
		VolumeBinding: &VolumeBindingQuery{
			Bound: []*NodeSelector{selector}, MissingVolume: true,
			Volumes: []*CandidateVolume{{Key: "kubernetes.io/hostname", Value: "n1"}, {NodeAffinity: selector}, {}},
			Claims: []*UnboundClaim{
				{SelectedNode: "n1", Provision: true},
				{Volumes: []uint32{2, 0}, Prebound: 1, Provision: true, Topologies: selector, CheckCapacity: true, Capacities: []*NodeSelector{selector}},
			},
			Migratable: []*MigratableVolume{{Plugin: "kubernetes.io/gce-pd", InTree: selector, Csi: selector}},
		},
		VolumeZones:      []*ZoneRequirement{{Key: "zone", FallbackKey: "new", Values: []string{"a", "b"}}},
		RequiredFeatures: []string{"A", "B"},
	}
}

func TestBrokenVolumes(t *testing.T) {
	if err := validVolumes().Validate(); err != nil {
		t.Fatalf("got %v, want no error", err)
	}
	broken := func(f func(*Query)) message { return change(validVolumes(), f) }
	bind := func(f func(*VolumeBindingQuery)) message {
		return broken(func(x *Query) { f(x.VolumeBinding) })
	}
	for _, c := range []struct {
		name string
		m    message
		want string
	}{
		{"features out of order", node(func(x *Node) { x.DeclaredFeatures = []string{"B", "A"} }), `declared_features[1]: expected a name after "B", got "A"`},
		{"plugins out of order", node(func(x *Node) { x.MigratedPlugins = []string{"B", "B"} }), `migrated_plugins[1]: expected a name after "B", got "B"`},
		{"a limit without a driver", node(func(x *Node) { x.VolumeLimits[0].Driver = "" }), "volume_limits[0].driver: expected a value, got none"},
		{"a limit below zero", node(func(x *Node) { x.VolumeLimits[0].Volumes = -1 }), "volume_limits[0].volumes: expected 0 or more, got -1"},
		{"a driver twice", node(func(x *Node) { x.VolumeLimits[1].Driver = x.VolumeLimits[0].Driver }), `volume_limits[1].driver: expected a driver after "csi.a", got "csi.a"`},

		{"restrictions without their part", broken(func(x *Query) { x.VolumeRestrictions = nil }), "volume_restrictions: expected for VolumeRestrictions, got none"},
		{"limits without their part", broken(func(x *Query) { x.VolumeLimits = nil }), "volume_limits: expected for NodeVolumeLimits, got none"},
		{"binding without its part", broken(func(x *Query) { x.VolumeBinding = nil }), "volume_binding: expected for VolumeBinding, got none"},
		{"a disk that is no counter", broken(func(x *Query) { x.VolumeRestrictions.Disks[0] = 0 }), "volume_restrictions.disks[0]: expected 1 or more, got 0"},
		{"a disk twice", broken(func(x *Query) { x.VolumeRestrictions.Disks[1] = 3 }), "volume_restrictions.disks[1]: expected a counter after 3, got 3"},
		{"a claim that is not measured", broken(func(x *Query) { x.VolumeRestrictions.Claims[0] = 1 }), "volume_restrictions.claims[0]: expected an index below 1, got 1"},
		{"a claim that is measured otherwise", broken(func(x *Query) { x.Measures[0].By = Breakdown_BREAKDOWN_VALUE }), "volume_restrictions.claims[0]: expected a measure by BREAKDOWN_TOTAL, got one by BREAKDOWN_VALUE"},
		{"drivers out of order", broken(func(x *Query) { x.VolumeLimits.Drivers[1].Driver = "a" }), `volume_limits.drivers[1].driver: expected a driver after "a", got "a"`},
		{"a driver without volumes", broken(func(x *Query) { x.VolumeLimits.Drivers[1].Volumes = 0 }), "volume_limits.drivers[1].volumes: expected 1 to 1048576, got 0"},
		{"more shared volumes than volumes", broken(func(x *Query) { x.VolumeLimits.Drivers[0].Volumes = 1 }), "volume_limits.drivers[0].shared: expected at most as many as volumes, 1, got 2"},
		{"shared volumes out of order", broken(func(x *Query) { x.VolumeLimits.Drivers[0].Shared[1] = 6 }), "volume_limits.drivers[0].shared[1]: expected a counter after 6, got 6"},
		{"a missing claim of a text without end", broken(func(x *Query) { x.VolumeLimits.MissingClaim = string(make([]byte, 1<<17)) }), "volume_limits.missing_claim: expected at most 65536 bytes, got 131072"},

		{"a bound volume of an empty term", bind(func(x *VolumeBindingQuery) { x.Bound = []*NodeSelector{{Terms: []*SelectorTerm{{}}}} }), "volume_binding.bound[0].terms[0]: expected at least one requirement, got none"},
		{"a candidate of two affinities", bind(func(x *VolumeBindingQuery) { x.Volumes[1].Key = "a" }), "volume_binding.volumes[1].node_affinity: expected none with key, got one"},
		{"a candidate of a value alone", bind(func(x *VolumeBindingQuery) { x.Volumes[2].Value = "a" }), `volume_binding.volumes[2].value: expected none without key, got "a"`},
		{"a volume that is not there", bind(func(x *VolumeBindingQuery) { x.Claims[1].Volumes[1] = 3 }), "volume_binding.claims[1].volumes[1]: expected an index below 3, got 3"},
		{"more prebound volumes than volumes", bind(func(x *VolumeBindingQuery) { x.Claims[1].Prebound = 3 }), "volume_binding.claims[1].prebound: expected at most as many as volumes, 2, got 3"},
		{"a capacity of an empty term", bind(func(x *VolumeBindingQuery) { x.Claims[1].Capacities = []*NodeSelector{{Terms: []*SelectorTerm{{}}}} }), "volume_binding.claims[1].capacities[0].terms[0]: expected at least one requirement, got none"},
		{"a topology of an empty term", bind(func(x *VolumeBindingQuery) { x.Claims[1].Topologies = &NodeSelector{Terms: []*SelectorTerm{{}}} }), "volume_binding.claims[1].topologies.terms[0]: expected at least one requirement, got none"},
		{"a migratable volume of no plugin", bind(func(x *VolumeBindingQuery) { x.Migratable[0].Plugin = "" }), "volume_binding.migratable[0].plugin: expected a value, got none"},
		{"a migratable volume of an empty term", bind(func(x *VolumeBindingQuery) { x.Migratable[0].Csi = &NodeSelector{Terms: []*SelectorTerm{{}}} }), "volume_binding.migratable[0].csi.terms[0]: expected at least one requirement, got none"},

		{"a zone without a label", broken(func(x *Query) { x.VolumeZones[0].Key = "" }), "volume_zones[0].key: expected a value, got none"},
		{"a zone without values", broken(func(x *Query) { x.VolumeZones[0].Values = nil }), "volume_zones[0].values: expected at least one, got none"},
		{"zones out of order", broken(func(x *Query) { x.VolumeZones[0].Values[1] = "a" }), `volume_zones[0].values[1]: expected a name after "a", got "a"`},
		{"required features out of order", broken(func(x *Query) { x.RequiredFeatures[1] = "A" }), `required_features[1]: expected a name after "A", got "A"`},
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
