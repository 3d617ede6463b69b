package scorer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// volumeFilters are the plugins of this file.
func volumeFilters() []pb.Plugin {
	return []pb.Plugin{
		pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS, pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS, pb.Plugin_PLUGIN_VOLUME_BINDING,
		pb.Plugin_PLUGIN_VOLUME_ZONE, pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES,
	}
}

var (
	drivers = []string{"csi.a", "csi.b", "csi.c"}
	plugins = []string{"kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"}
	traits  = []string{"FeatureA", "FeatureB", "FeatureC"}
)

// volumeNode is a node with zones and traits.
func (r random) volumeNode(name string) *pb.Node {
	n := r.node(name)
	n.DeclaredFeatures = r.some(60, traits...)
	n.MigratedPlugins = r.some(40, plugins...)
	for _, d := range r.some(50, drivers...) {
		n.VolumeLimits = append(n.VolumeLimits, &pb.VolumeLimit{Driver: d, Volumes: r.Int64N(5)})
	}
	for _, key := range zoneLabels() {
		if r.chance(25) {
			n.Labels = append(n.Labels, &pb.Label{Key: key, Value: pick(r, "a", "b")})
		}
	}
	slices.SortFunc(n.Labels, func(a, b *pb.Label) int { return strings.Compare(a.Key, b.Key) })
	return n
}

// volumeQuery asks for a little of everything.
func (r random) volumeQuery() *pb.Query {
	q := &pb.Query{
		ClassId: 1, VolumeRestrictions: &pb.VolumeRestrictionsQuery{}, VolumeLimits: &pb.VolumeLimitsQuery{},
		VolumeBinding: r.bindingQuery(), RequiredFeatures: r.some(20, traits...),
	}
	for _, f := range volumeFilters() {
		if r.chance(60) {
			q.Filters = append(q.Filters, f)
		}
	}
	for id := uint32(1); id <= 4; id++ {
		if r.chance(15) {
			q.VolumeRestrictions.Disks = append(q.VolumeRestrictions.Disks, id)
		}
	}
	for _, d := range r.some(40, drivers...) {
		x := &pb.DriverVolumes{Driver: d, Volumes: 1 + r.Int64N(3), Attached: r.Uint32N(9)}
		for id := uint32(5); id <= 8 && len(x.Shared) < int(x.Volumes); id++ {
			if r.chance(50) {
				x.Shared = append(x.Shared, id)
			}
		}
		q.VolumeLimits.Drivers = append(q.VolumeLimits.Drivers, x)
	}
	if r.chance(3) {
		q.VolumeLimits.MissingClaim = "there is no such claim"
	}
	for range max(0, r.IntN(5)-2) {
		z := &pb.ZoneRequirement{Key: r.zoneLabel(), Values: append(r.some(50, "a"), "b")}
		if r.chance(50) {
			z.FallbackKey = r.zoneLabel()
		}
		q.VolumeZones = append(q.VolumeZones, z)
	}
	return q
}

func (r random) zoneLabel() string {
	labels := zoneLabels()
	return labels[r.IntN(len(labels))]
}

// bindingQuery has claims that contend for volumes.
func (r random) bindingQuery() *pb.VolumeBindingQuery {
	b := &pb.VolumeBindingQuery{MissingVolume: r.chance(5)}
	for range max(0, r.IntN(4)-2) {
		b.Bound = append(b.Bound, r.nodeSelector())
	}
	for range max(0, r.IntN(4)-2) {
		b.Migratable = append(b.Migratable, &pb.MigratableVolume{Plugin: pick(r, plugins...), InTree: r.selector(70), Csi: r.selector(70)})
	}
	for range r.IntN(8) {
		v := &pb.CandidateVolume{}
		switch r.IntN(4) {
		case 0:
			v.Key, v.Value = pick(r, "~hostname", "zone", "disk"), pick(r, append(values, r.name())...)
		case 1:
		default:
			v.NodeAffinity = r.nodeSelector()
		}
		b.Volumes = append(b.Volumes, v)
	}
	for range r.IntN(4) {
		b.Claims = append(b.Claims, r.claim(len(b.Volumes)))
	}
	return b
}

func (r random) claim(volumes int) *pb.UnboundClaim {
	c := &pb.UnboundClaim{Provision: r.chance(50), Topologies: r.selector(30), CheckCapacity: r.chance(40)}
	for _, v := range r.Perm(volumes) {
		if r.chance(60) {
			c.Volumes = append(c.Volumes, uint32(v))
		}
	}
	if r.chance(20) {
		c.Prebound = r.Uint32N(uint32(len(c.Volumes)) + 1)
	}
	if r.chance(5) {
		c.SelectedNode = r.name()
	}
	for range r.IntN(4) {
		c.Capacities = append(c.Capacities, r.nodeSelector())
	}
	return c
}

// nodeSelector is one that most terms of have an In requirement.
func (r random) nodeSelector() *pb.NodeSelector {
	s := r.selector(100)
	for _, t := range s.Terms {
		for _, l := range t.Labels {
			if r.chance(50) {
				l.Operator, l.Bound = pb.SelectorOperator_SELECTOR_OPERATOR_IN, 0
				l.Values = r.some(40, append(values, "elsewhere", r.name())...)
				l.Values = append(l.Values, pick(r, values...))
			}
		}
	}
	return s
}

// volumeTable is a table with counters 1 to 8, and what it was made of.
func (r random) volumeTable(t interface{ Fatalf(string, ...any) }, n int) (*Table, []*pb.Node, []map[uint32]int64) {
	table := NewTable(0)
	var nodes []*pb.Node
	var counters []map[uint32]int64
	for row := range n {
		node, of := r.volumeNode(fmt.Sprintf("n%d", row)), map[uint32]int64{}
		var change []*pb.CounterValue
		for id := uint32(1); id <= 8; id++ {
			if r.chance(pick(r, 2, 30, 60)) {
				of[id] = 1 + r.Int64N(4)
				change = append(change, &pb.CounterValue{Counter: id, Value: of[id]})
			}
		}
		deltas := []*pb.Delta{{Row: uint32(row), Change: &pb.Delta_SetNode{SetNode: node}}}
		if len(change) > 0 {
			deltas = append(deltas, &pb.Delta{Row: uint32(row), Change: &pb.Delta_ChangeCounters{ChangeCounters: &pb.CounterChange{Counters: change}}})
		}
		for _, d := range deltas {
			if err := table.Apply(d); err != nil {
				t.Fatalf("%v", err)
			}
		}
		nodes, counters = append(nodes, node), append(counters, of)
	}
	return table, nodes, counters
}

// What the rules say of every row, alone and together, is what the plain reference says.
func TestVolumeRulesEqualReference(t *testing.T) {
	e := NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		r := newRandom(rapid.Uint64().Draw(t, "seed"))
		table, nodes, counters := r.volumeTable(t, size(t))
		for range 8 {
			q := r.volumeQuery()
			c := newClass(t, q)
			diagnose := r.chance(50)
			got := evaluate(e, table, c, Options{Candidates: 1000, Diagnose: diagnose})
			var want Result
			for row, n := range nodes {
				why := refVolumes(n, counters[row], q)
				checkVolumeRow(t, e, table, uint32(row), c, why)
				if len(why) == 0 {
					want.Feasible++
				}
				for _, w := range why {
					if diagnose {
						want.addReason(w, 1)
					}
				}
			}
			if got.Feasible != want.Feasible || !slices.Equal(got.Reasons, want.Reasons) {
				t.Fatalf("got %d feasible, %v\nwant %d, %v\nquery %v", got.Feasible, got.Reasons, want.Feasible, want.Reasons, q)
			}
			for _, g := range got.Groups {
				for _, x := range g.Candidates {
					if why := refVolumes(nodes[x.Row], counters[x.Row], q); len(why) > 0 {
						t.Fatalf("row %d is a candidate, want %v\nquery %v", x.Row, why, q)
					}
				}
			}
		}
	})
}

func checkVolumeRow(t *rapid.T, e *Evaluator, table *Table, row uint32, c *Class, want []Reason) {
	if v := judge(e, table, row, nil, c); v.Passed != (len(want) == 0) {
		t.Fatalf("row %d: got passed %t, want reasons %v\nquery %v", row, v.Passed, want, c.Query())
	}
	if _, got := e.Reasons(table, row, nil, c); !slices.Equal(got, want) {
		t.Fatalf("row %d: got reasons %v, want %v\nquery %v", row, got, want, c.Query())
	}
}

// Traits come out of a table as they went in, and are forgotten with their last row.
func TestTraitsAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRandom(rapid.Uint64().Draw(t, "seed"))
		table, nodes, _ := r.volumeTable(t, size(t))
		for x := range table.Snapshot {
			want := nodes[x.Row]
			got := &pb.Node{DeclaredFeatures: x.Node.DeclaredFeatures, MigratedPlugins: x.Node.MigratedPlugins, VolumeLimits: x.Node.VolumeLimits}
			only := &pb.Node{DeclaredFeatures: want.DeclaredFeatures, MigratedPlugins: want.MigratedPlugins, VolumeLimits: want.VolumeLimits}
			if !proto.Equal(got, only) {
				t.Fatalf("row %d: got %v, want %v", x.Row, got, only)
			}
		}
		for row := range nodes {
			if err := table.Apply(&pb.Delta{Row: uint32(row), Change: &pb.Delta_RemoveNode{}}); err != nil {
				t.Fatalf("%v", err)
			}
		}
		if n := len(table.traits.contents.byKey); n != 0 {
			t.Fatalf("got %d traits in a table without nodes, want none", n)
		}
	})
}

// Nodes that say the same share one trait: it costs a row its number alone.
func TestTraitsAreShared(t *testing.T) {
	table := NewTable(0)
	for row := range uint32(1000) {
		n := &pb.Node{
			Name: fmt.Sprint("n", row), DeclaredFeatures: []string{"A", "B"}, MigratedPlugins: plugins,
			VolumeLimits: []*pb.VolumeLimit{{Driver: "csi.a", Volumes: 39}, {Driver: "csi.b", Volumes: 127}},
		}
		if err := table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_SetNode{SetNode: n}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := table.traits.memory() / 1000; got > 8 {
		t.Errorf("got %d bytes a row, want 8 at the most", got)
	}
}
