package scorer

import (
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// compileGroups writes a spec into a query, as the coordinator does: a label that no two
// nodes share is the row's own where unique says so, else a domain. With pin, what may be is pinned.
func compileGroups(spec *groupSpec, q *pb.Query, unique func(key string) bool, pin bool) {
	b := &groupCompiler{q: q, unique: unique, pin: pin}
	q.Spread = &pb.SpreadQuery{RequireAllTopologies: !spec.systemDefault}
	for _, c := range spec.hard {
		in := &pb.Inclusion{TopologyKeys: keysOf(spec.hard), HonourAffinity: c.affinity, HonourTaints: c.taints}
		q.Spread.Hard = append(q.Spread.Hard, &pb.HardConstraint{
			Place: b.hardPlace(c.key, counting(c.counter), in), MaxSkew: c.maxSkew, MinDomains: c.minDomains, SelfMatch: c.self,
		})
	}
	for _, c := range spec.soft {
		in := &pb.Inclusion{HonourAffinity: c.affinity, HonourTaints: c.taints}
		if !spec.systemDefault {
			in.TopologyKeys = keysOf(spec.soft)
		}
		q.Spread.Soft = append(q.Spread.Soft, &pb.SoftConstraint{Place: b.softPlace(c.key, counting(c.counter), in), MaxSkew: c.maxSkew})
	}
	a := &pb.InterPodAffinityQuery{SelfMatch: spec.self}
	forbids := slices.Contains(q.Filters, pb.Plugin_PLUGIN_INTER_POD_AFFINITY)
	for _, x := range spec.required {
		p := b.place(x, &pb.RowValue{Clamp: true})
		if _, row := p.In.(*pb.Place_RowValue); row {
			p.Measure = b.measure(&pb.Measure{By: pb.Breakdown_BREAKDOWN_TOTAL, Counters: x.counters, Inclusion: &pb.Inclusion{TopologyKeys: []string{x.key}}})
		}
		a.Required = append(a.Required, p)
	}
	refusing := func() *pb.RowValue { return &pb.RowValue{Clamp: true, Forbids: forbids} }
	a.Anti = b.places(spec.anti, refusing)
	a.ExistingAnti = b.places(spec.existing, refusing)
	a.Preferred = b.places(spec.preferred, func() *pb.RowValue { return &pb.RowValue{} })
	q.InterPodAffinity = a
	q.VolumeRestrictions = &pb.VolumeRestrictionsQuery{
		Disks: q.GetVolumeRestrictions().GetDisks(), Named: q.GetVolumeRestrictions().GetNamed(),
	}
	for _, counter := range spec.claims {
		m := b.measure(&pb.Measure{By: pb.Breakdown_BREAKDOWN_TOTAL, Counters: counting(counter)})
		q.VolumeRestrictions.Claims = append(q.VolumeRestrictions.Claims, m)
	}
}

func counting(counter uint32) []*pb.CounterTerm {
	if counter == 0 {
		return nil
	}
	return []*pb.CounterTerm{{Counter: counter, Weight: 1}}
}

func keysOf(list []spreadSpec) []string {
	var out []string
	for i := range list {
		out = append(out, list[i].key)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

type groupCompiler struct {
	q      *pb.Query
	unique func(string) bool
	pin    bool
}

// places are those of terms, or the one pinned value of those that count anything.
func (b *groupCompiler) places(terms []affinitySpec, own func() *pb.RowValue) (out []*pb.Place) {
	pinned := own()
	for _, x := range terms {
		if b.pin && len(x.counters) > 0 {
			pinned.Pinned = append(pinned.Pinned, &pb.PinnedTerms{TopologyKey: x.key, Counters: x.counters})
		} else {
			out = append(out, b.place(x, own()))
		}
	}
	if len(pinned.Pinned) > 0 {
		out = append(out, &pb.Place{In: b.value(pinned)})
	}
	return out
}

func (b *groupCompiler) domain(key string) *pb.Place_Domain {
	i := slices.Index(b.q.DomainKeys, key)
	if i < 0 {
		i = len(b.q.DomainKeys)
		b.q.DomainKeys = append(b.q.DomainKeys, key)
	}
	return &pb.Place_Domain{Domain: uint32(i)}
}

func (b *groupCompiler) value(v *pb.RowValue) *pb.Place_RowValue {
	b.q.RowValues = append(b.q.RowValues, v)
	return &pb.Place_RowValue{RowValue: uint32(len(b.q.RowValues) - 1)}
}

func (b *groupCompiler) measure(m *pb.Measure) uint32 {
	b.q.Measures = append(b.q.Measures, m)
	return uint32(len(b.q.Measures) - 1)
}

func (b *groupCompiler) byDomain(key string, counters []*pb.CounterTerm, in *pb.Inclusion) *pb.Place {
	m := b.measure(&pb.Measure{By: pb.Breakdown_BREAKDOWN_DOMAIN, TopologyKey: key, Counters: counters, Inclusion: in})
	return &pb.Place{In: b.domain(key), Measure: m}
}

func (b *groupCompiler) hardPlace(key string, counters []*pb.CounterTerm, in *pb.Inclusion) *pb.Place {
	if !b.unique(key) {
		return b.byDomain(key, counters, in)
	}
	m := b.measure(&pb.Measure{By: pb.Breakdown_BREAKDOWN_VALUE, Counters: counters, Inclusion: in})
	return &pb.Place{In: b.value(&pb.RowValue{TopologyKey: key, Counters: counters, Inclusion: in}), Measure: m}
}

func (b *groupCompiler) softPlace(key string, counters []*pb.CounterTerm, in *pb.Inclusion) *pb.Place {
	switch {
	case key == "kubernetes.io/hostname":
		return &pb.Place{In: b.value(&pb.RowValue{TopologyKey: key, Counters: counters})}
	case b.unique(key):
		return &pb.Place{In: b.value(&pb.RowValue{TopologyKey: key, Counters: counters, Inclusion: in})}
	}
	return b.byDomain(key, counters, in)
}

func (b *groupCompiler) place(x affinitySpec, own *pb.RowValue) *pb.Place {
	if !b.unique(x.key) {
		return b.byDomain(x.key, x.counters, nil)
	}
	own.TopologyKey, own.Counters = x.key, x.counters
	return &pb.Place{In: b.value(own)}
}

// Counters of random specs: these count pods, those are weights of preferred terms.
var (
	podCounters    = []uint32{0, 1, 2, 3, 90}
	signedCounters = []uint32{4, 5, 6}
)

// topologies are labels that nodes may share, and those that they mostly do not.
var topologies = []string{"zone", "zone", "disk", "rare", "none", "kubernetes.io/hostname", "kubernetes.io/hostname", "~hostname", "~hostname"}

func (r random) spread() spreadSpec {
	return spreadSpec{
		key: pick(r, topologies...), counter: pick(r, podCounters...), maxSkew: int32(1 + r.IntN(4)), minDomains: int32(1 + max(0, r.IntN(12)-6)),
		self: r.chance(70), affinity: r.chance(70), taints: r.chance(30),
	}
}

func (r random) affinityTerm(signed bool) affinitySpec {
	out := affinitySpec{key: pick(r, topologies...)}
	if !signed {
		out.counters = counting(pick(r, podCounters...))
		return out
	}
	for range 1 + r.IntN(3) {
		c := pick(r, append(signedCounters, podCounters[1:]...)...)
		out.counters = append(out.counters, &pb.CounterTerm{Counter: c, Weight: pick(r, int64(-100), -3, 1, 7, 100)})
	}
	return out
}

func repeat[T any](n int, f func() T) []T {
	var out []T
	for range n {
		out = append(out, f())
	}
	return out
}

// groupSpec makes a spec and the query that holds it, but for the group part.
func (r random) groupSpec() (*groupSpec, *pb.Query) {
	q := r.query()
	q.Narrowed = nil
	if r.chance(80) {
		q.NodeName = ""
	}
	if r.chance(60) { // few filters that are not of the group part, so that many nodes are feasible
		q.Filters = q.Filters[:min(len(q.Filters), r.IntN(2))]
		q.Fit.BestEffort, q.NodeName = true, ""
	}
	few := func() int { return max(0, r.IntN(5)-2) }
	s := &groupSpec{
		hard: repeat(few(), r.spread), soft: repeat(few(), r.spread), systemDefault: r.chance(40), self: r.chance(50),
		required:  repeat(few(), func() affinitySpec { return r.affinityTerm(false) }),
		anti:      repeat(few(), func() affinitySpec { return r.affinityTerm(false) }),
		existing:  repeat(few(), func() affinitySpec { return r.affinityTerm(false) }),
		preferred: repeat(few(), func() affinitySpec { return r.affinityTerm(true) }),
	}
	if r.chance(30) {
		q.VolumeRestrictions = &pb.VolumeRestrictionsQuery{Disks: []uint32{3}}
	}
	if r.chance(20) {
		s.claims = r.ids(60, 1, 90, 91)
	}
	for _, p := range []pb.Plugin{pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, pb.Plugin_PLUGIN_INTER_POD_AFFINITY, pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS} {
		if r.chance(85) {
			q.Filters = slices.Insert(q.Filters, r.IntN(len(q.Filters)+1), p)
		}
	}
	if len(s.soft) > 0 && r.chance(90) {
		w := &pb.ScoreWeight{Plugin: pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, Weight: 2}
		q.Scores = slices.Insert(q.Scores, r.IntN(len(q.Scores)+1), w)
	}
	if r.chance(90) {
		w := &pb.ScoreWeight{Plugin: pb.Plugin_PLUGIN_INTER_POD_AFFINITY, Weight: 2}
		q.Scores = slices.Insert(q.Scores, r.IntN(len(q.Scores)+1), w)
	}
	return s, q
}

// groupNodes are nodes with counters, most of them with a hostname.
func (r random) groupNodes(n int) []*groupNode {
	var out []*groupNode
	huge, share := r.chance(10), pick(r, 0, 20, 50, 97)
	for _, x := range r.rows(n) {
		if r.chance(90) {
			name := x.Node.Name
			if r.chance(3) {
				name = "n0" // a name of two
			}
			x.Node.Labels = append(x.Node.Labels, &pb.Label{Key: "kubernetes.io/hostname", Value: name})
			slices.SortFunc(x.Node.Labels, func(a, b *pb.Label) int { return strings.Compare(a.Key, b.Key) })
		}
		if r.chance(70) { // mostly feasible
			x.Node.Taints, x.Node.Unschedulable, x.Node.AllowedPods = nil, false, 100
		}
		node := &groupNode{x, map[uint32]int64{}}
		for _, c := range podCounters[1:4] {
			if r.chance(share) {
				node.counters[c] = int64(1 + r.IntN(4))
			}
		}
		for _, c := range signedCounters {
			if r.chance(30) {
				node.counters[c] = pick(r, int64(-200), -1, 1, 3, 100)
			}
		}
		for _, c := range slices.Concat(podCounters, signedCounters) {
			if huge && node.counters[c] != 0 {
				node.counters[c] = 1 + r.Int64N(1<<40)
			}
		}
		out = append(out, node)
	}
	return out
}

// uniqueAmong tells whether no two nodes share a value of the label.
func uniqueAmong(nodes []*groupNode) func(string) bool {
	seen := map[string]map[string]bool{}
	shared := map[string]bool{}
	for _, n := range nodes {
		for _, l := range n.Node.Labels {
			if seen[l.Key] == nil {
				seen[l.Key] = map[string]bool{}
			}
			shared[l.Key] = shared[l.Key] || seen[l.Key][l.Value] || l.Value == ""
			seen[l.Key][l.Value] = true
		}
	}
	return func(key string) bool { return !shared[key] }
}

// groupTables deals nodes out to tables, at new places.
func groupTables(t interface{ Fatalf(string, ...any) }, r random, nodes []*groupNode, shards int) (tables []*Table, at map[*groupNode]Candidate) {
	at = map[*groupNode]Candidate{}
	rows := make([][]*pb.SnapshotRow, shards)
	counters := make([]map[uint32]*pb.CounterColumn, shards)
	for _, n := range nodes {
		s := r.IntN(shards)
		row := uint32(len(rows[s]))
		at[n] = Candidate{Shard: uint32(s), Row: row}
		rows[s] = append(rows[s], &pb.SnapshotRow{Row: row, Node: n.Node, Totals: n.Totals})
		for c, v := range n.counters {
			if v == 0 {
				continue
			}
			if counters[s] == nil {
				counters[s] = map[uint32]*pb.CounterColumn{}
			}
			if counters[s][c] == nil {
				counters[s][c] = &pb.CounterColumn{Counter: c}
			}
			counters[s][c].Rows = append(counters[s][c].Rows, row)
			counters[s][c].Values = append(counters[s][c].Values, v)
		}
	}
	for s := range shards {
		var columns []*pb.CounterColumn
		for _, c := range counters[s] {
			columns = append(columns, c)
		}
		table, err := LoadTable(uint32(s), 1, rows[s], columns)
		if err != nil {
			t.Fatalf("LoadTable: %v", err)
		}
		tables = append(tables, table)
	}
	return tables, at
}
