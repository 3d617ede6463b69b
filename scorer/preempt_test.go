package scorer

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// preemptTrial is one random cluster with one random preemptor.
type preemptTrial struct {
	t      *rapid.T
	r      random
	e      *Evaluator
	ref    refPreemption
	class  *Class
	tables []*Table
	at     []RowRef
	number uint64
}

const preemptNow = 1_000_000

// placed draws a pod of a row.
func (x *preemptTrial) placed(now int64) *pb.PlacedPod {
	r := x.r
	x.number++
	p := &pb.PlacedPod{
		Number: x.number, Priority: pick(r, int32(-5), 0, 0, 0, 10, 100, 2_000_000_000), Usage: r.pod(),
		StartMicros: pick(r, int64(0), 500, 600, now-1, now, now+7),
	}
	if r.chance(30) {
		for id := uint32(1); id <= 4; id++ {
			if r.chance(50) {
				p.Budgets = append(p.Budgets, id)
			}
		}
	}
	if r.chance(50) { // few kinds, so that pods share them
		p.Usage = &pb.PodUsage{Requests: &pb.Resources{MilliCpu: pick(r, int64(0), 100, 500), MemoryBytes: pick(r, int64(0), 1<<28, 1<<30)}}
	}
	for _, id := range []uint32{1, 2, 3, 6, 7, 8, 90} {
		if r.chance(15) {
			p.Usage.Counters = append(p.Usage.Counters, &pb.CounterValue{Counter: id, Value: int64(1 + r.IntN(2))})
		} else if r.chance(4) {
			p.Leaving = append(p.Leaving, &pb.CounterValue{Counter: id, Value: int64(1 + r.IntN(2))})
		}
	}
	for _, id := range []uint32{5, 9} {
		for token := uint64(1); token <= 3; token++ {
			if r.chance(6) {
				p.Shared = append(p.Shared, &pb.SharedCount{Counter: id, Token: token})
			}
		}
	}
	return p
}

// preemptNode is a node with pods that mostly have not left much room.
func (x *preemptTrial) node(base *groupNode, pods int) *refPlaced {
	r := x.r
	n := &refPlaced{base: base}
	for range pods {
		n.pods = append(n.pods, x.placed(preemptNow))
	}
	held := map[sharedCount]bool{}
	for _, p := range n.pods {
		for _, v := range p.Leaving {
			base.counters[v.Counter] += v.Value // no count falls below 0
		}
		for _, s := range p.Shared {
			if key := (sharedCount{s.Counter, s.Token}); !held[key] {
				held[key] = true
				base.counters[s.Counter]++
			}
		}
	}
	if base.Totals == nil {
		base.Totals = &pb.NodeTotals{}
	}
	full := n.with(nil, nil).Totals
	if r.chance(70) {
		a := base.Node.Allocatable
		a.MilliCpu = full.Requested.GetMilliCpu() + r.Int64N(3000)
		a.MemoryBytes = full.Requested.GetMemoryBytes() + r.Int64N(1<<32)
		a.EphemeralStorageBytes += full.Requested.GetEphemeralStorageBytes()
	}
	if r.chance(50) {
		base.Node.AllowedPods = full.Pods + r.Int64N(3)
	}
	for _, d := range r.some(50, drivers...) {
		base.Node.VolumeLimits = append(base.Node.VolumeLimits, &pb.VolumeLimit{Driver: d, Volumes: r.Int64N(6)})
	}
	return n
}

func newPreemptTrial(t *rapid.T, e *Evaluator, rows int) *preemptTrial {
	seed := rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "seed")
	x := &preemptTrial{t: t, r: newRandom(binary.LittleEndian.Uint64(seed)), e: e}
	for _, base := range x.r.groupNodes(rows) {
		x.ref.nodes = append(x.ref.nodes, x.node(base, x.r.IntN(8)))
	}
	for _, n := range x.ref.nodes {
		x.ref.whole = append(x.ref.whole, n.with(nil, nil))
	}
	x.deal(rapid.IntRange(1, 5).Draw(t, "shards"))
	return x
}

// deal puts the nodes into tables: some pods come with the rows, some as deltas.
func (x *preemptTrial) deal(shards int) {
	var bases []*groupNode
	for _, n := range x.ref.nodes {
		bases = append(bases, n.base)
	}
	tables, at := groupTables(x.t, x.r, bases, shards)
	x.tables, x.at = tables, nil
	for _, n := range x.ref.nodes {
		c := at[n.base]
		x.at = append(x.at, RowRef{c.Shard, c.Row})
		for _, i := range x.r.Perm(len(n.pods)) {
			p := proto.CloneOf(n.pods[i])
			p.Usage = nil
			d := &pb.Delta{Row: c.Row, Change: &pb.Delta_AddPod{AddPod: n.pods[i].Usage}, Pod: p}
			if err := x.tables[c.Shard].Apply(d); err != nil {
				x.t.Fatalf("%v", err)
			}
		}
	}
	for i, table := range x.tables {
		if x.r.chance(50) {
			x.tables[i] = reload(x.t, table)
		}
	}
}

// reload sends a table as a snapshot.
func reload(t interface{ Fatalf(string, ...any) }, table *Table) *Table {
	var counters []*pb.CounterColumn
	for c := range table.Counters {
		counters = append(counters, c)
	}
	out, err := LoadTable(table.Shard(), table.Generation(), slices.Collect(table.Snapshot), counters)
	if err != nil {
		t.Fatalf("LoadTable: %v", err)
	}
	return out
}

// ask draws a preemptor.
func (x *preemptTrial) ask(byRow bool) {
	r := x.r
	spec, q := r.groupSpec()
	if r.chance(40) { // a pod that only looks at resources
		spec = &groupSpec{}
		q.VolumeRestrictions, q.HostPorts, q.NodeName = nil, nil, ""
		q.Fit.BestEffort = false
		if !slices.Contains(q.Filters, pb.Plugin_PLUGIN_NODE_RESOURCES_FIT) {
			q.Filters = append(q.Filters, pb.Plugin_PLUGIN_NODE_RESOURCES_FIT)
		}
	}
	if r.chance(30) {
		q.VolumeLimits = &pb.VolumeLimitsQuery{}
		for _, d := range r.some(50, drivers...) {
			v := &pb.DriverVolumes{Driver: d, Volumes: 1 + r.Int64N(3), Attached: pick(r, uint32(5), 9)}
			for _, id := range []uint32{7, 8} {
				if r.chance(40) && int64(len(v.Shared)) < v.Volumes {
					v.Shared = append(v.Shared, id)
				}
			}
			q.VolumeLimits.Drivers = append(q.VolumeLimits.Drivers, v)
		}
		q.Filters = slices.Insert(q.Filters, r.IntN(len(q.Filters)+1), pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS)
	}
	if r.chance(30) {
		spec.claims = r.ids(60, 1, 90, 91)
		if q.VolumeRestrictions == nil {
			q.VolumeRestrictions = &pb.VolumeRestrictionsQuery{}
		}
		if len(spec.claims) > 0 {
			q.VolumeRestrictions.Named = r.ids(60, 1, 2, 8, 90)
		}
		if !slices.Contains(q.Filters, pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS) {
			q.Filters = append(q.Filters, pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS)
		}
	}
	unique := uniqueAmong(x.ref.whole)
	compileGroups(spec, q, func(key string) bool { return byRow && unique(key) }, r.chance(40))
	x.ref.spec, x.ref.query, x.class = spec, q, newClass(x.t, q).Pin(slices.Values(x.tables))
	p := &Preemption{Priority: pick(r, int32(1), 11, 101, 2_000_000_001), NowMicros: preemptNow}
	for id := uint32(1); id <= 3; id++ {
		if r.chance(80) {
			p.Budgets = append(p.Budgets, Budget{id, int32(r.IntN(4) - 1)})
		}
	}
	x.ref.asked = p
}

// whole is the class's answer over the cluster.
func (x *preemptTrial) whole() *Result {
	out := &Result{}
	out.Reset(x.class.ID(), 1)
	for _, t := range x.tables {
		x.e.Evaluate(t, x.class, Options{Candidates: 1}, out)
	}
	return out
}

func describePreemption(r *PreemptionResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "class %d: %d tried\n", r.ClassID, r.Tried)
	for _, c := range r.Candidates {
		fmt.Fprintf(&b, "%s: victims %v and %d, %d violations, top %d, sum %d, earliest %d\n", c.Name, c.Victims, c.Elsewhere, c.Violations, c.TopPriority, c.PrioritySum, c.EarliestStart)
	}
	for _, c := range r.Reasons {
		fmt.Fprintf(&b, "%d × %s: %s (unresolvable %t)\n", c.Nodes, c.Plugin, c.Text, c.Unresolvable)
	}
	return b.String()
}

// want is the reference's answer.
func (x *preemptTrial) want(limit int) *PreemptionResult {
	out := &PreemptionResult{ClassID: x.class.ID()}
	for i := range x.ref.nodes {
		if p := x.ref.asked; p.Skips(x.at[i]) || p.Only != nil && !slices.Contains(p.Only, x.at[i]) {
			continue
		}
		outcome, why, c := x.ref.try(i, nil)
		if outcome == NotTried {
			continue
		}
		out.Tried++
		for _, r := range why {
			out.AddReason(r, 1)
		}
		if outcome == Preemptable {
			k := x.tables[x.at[i].Shard].Candidate(x.at[i].Row, 0)
			c.LastDecision, c.NameHash, c.Name = k.LastDecision, k.NameHash, k.Name
			out.Candidates = append(out.Candidates, c)
		}
	}
	slices.SortFunc(out.Candidates, x.ref.better)
	out.Candidates = out.Candidates[:min(limit, len(out.Candidates))]
	return out
}

// got asks all tables and merges their answers in a random order, some as messages.
func (x *preemptTrial) got(p *Preemption) *PreemptionResult {
	var parts []*PreemptionResult
	for _, t := range x.tables {
		for from := 0; from < t.capacity; from += wordRows {
			part := &PreemptionResult{}
			part.Reset(x.class.ID(), p.Limit())
			x.e.PreemptRange(t, x.class, p, from, from+wordRows, part)
			parts = append(parts, part)
		}
	}
	out := &PreemptionResult{}
	out.Reset(x.class.ID(), p.Limit())
	for _, i := range x.r.Perm(len(parts)) {
		if p.Units != nil || x.r.chance(50) {
			out.Merge(parts[i])
			continue
		}
		message := parts[i].Proto()
		if err := message.Validate(); err != nil {
			x.t.Fatalf("the answer is not valid: %v", err)
		}
		out.AddProto(message, func(shard, row uint32) (uint64, uint64, string) {
			c := x.tables[shard].Candidate(row, 0)
			return c.LastDecision, c.NameHash, c.Name
		})
	}
	return out
}

// units has pods leave with others, now and then, and looks at some rows alone.
func (x *preemptTrial) units() {
	r, p := x.r, x.ref.asked
	if x.ref.units = nil; r.chance(50) {
		return
	}
	x.ref.units = map[uint64]*Unit{}
	units := refUnits{of: x.ref.units, on: map[string]bool{}}
	var all []*Unit
	for range 1 + r.IntN(4) {
		u := &Unit{Priority: pick(r, int32(-5), 0, 0, 10, 100), Pods: r.IntN(6), Start: pick(r, int64(0), 500, 600), Violates: r.chance(10)}
		for id := uint32(1); id <= 4; id++ {
			if r.chance(30) {
				u.Budgets = append(u.Budgets, UnitBudget{id, r.IntN(3)})
			}
		}
		all = append(all, u)
	}
	for i, n := range x.ref.nodes {
		for _, placed := range n.pods {
			if r.chance(40) {
				units.of[placed.Number], units.on[n.base.Node.Name] = pick(r, all...), true
			}
		}
		if r.chance(50) {
			p.Only = append(p.Only, x.at[i])
		}
	}
	slices.SortFunc(p.Only, RowRef.Compare)
	p.Units = units
}

// refUnits are units by number, and the nodes that have pods of them.
type refUnits struct {
	of map[uint64]*Unit
	on map[string]bool
}

func (u refUnits) On(node string) bool    { return u.on[node] }
func (u refUnits) Of(number uint64) *Unit { return u.of[number] }

// Whatever the shards, the dry run finds what upstream's SelectVictimsOnNode finds on each
// node, and orders the nodes by upstream's criteria.
func TestPreemptEqualsReference(t *testing.T) {
	e := NewEvaluator(nil)
	seen := map[PreemptOutcome]int{}
	rapid.Check(t, func(t *rapid.T) {
		x := newPreemptTrial(t, e, rapid.IntRange(1, 24).Draw(t, "size"))
		for range 3 {
			x.ask(x.r.chance(70))
			p := x.ref.asked
			p.Whole, p.All = x.whole(), pick(x.r, 0, 1, 2, 1000)
			for i := range x.ref.nodes {
				if x.r.chance(5) {
					p.Skip = append(p.Skip, x.at[i])
				}
			}
			slices.SortFunc(p.Skip, RowRef.Compare)
			if x.units(); x.ref.units == nil && x.r.chance(50) {
				message := p.Proto(x.class.ID())
				if err := message.Validate(); err != nil {
					t.Fatalf("the question is not valid: %v", err)
				}
				p = NewPreemption(message)
			}
			if d := diff(describePreemption(x.got(p)), describePreemption(x.want(p.Limit()))); d != "" {
				t.Fatalf("query %v\npreemption %+v\n%s", x.ref.query, p, d)
			}
			x.checkRows(p, seen)
		}
	})
	for _, outcome := range []PreemptOutcome{NotTried, NoVictims, StillRefused, Preemptable} {
		if seen[outcome] == 0 {
			t.Errorf("no row came to outcome %d", outcome)
		}
	}
}

// checkRows compares rows one by one, now and then with nominated pods.
func (x *preemptTrial) checkRows(p *Preemption, seen map[PreemptOutcome]int) {
	for i := range x.ref.nodes {
		var nominated []*pb.PodUsage
		var check *RowCheck
		table := x.tables[x.at[i].Shard]
		if x.r.chance(40) {
			u := x.placed(preemptNow).Usage
			nominated = []*pb.PodUsage{u}
			check = &RowCheck{Join: func(r *RowTotals) { r.AddPod(u) }}
		}
		want, why, c := x.ref.try(i, nominated)
		got, found, reasons := x.e.PreemptRow(table, x.at[i].Row, x.class, p, check)
		seen[got]++
		if got != want || want != NotTried && got != AlreadyFits && !slices.Equal(reasons, why) {
			x.t.Fatalf("%s: got outcome %d %v, want %d %v\nquery %v", x.ref.nodes[i].base.Node.Name, got, reasons, want, why, x.ref.query)
		}
		if got == Preemptable && (!slices.Equal(found.Victims, c.Victims) || found.Elsewhere != c.Elsewhere || found.Violations != c.Violations ||
			found.TopPriority != c.TopPriority || found.PrioritySum != c.PrioritySum || found.EarliestStart != c.EarliestStart) {
			x.t.Fatalf("%s: got %+v, want %+v\nquery %v", x.ref.nodes[i].base.Node.Name, found, c, x.ref.query)
		}
	}
}

// An expression that looks at what pods use is asked again for each pod that returns.
func TestPreemptAsksExpressionsThatReadPods(t *testing.T) {
	table := NewTable(0)
	must(table.Apply(&pb.Delta{Change: &pb.Delta_SetNode{SetNode: &pb.Node{Name: "n", AllowedPods: 10, Allocatable: &pb.Resources{MilliCpu: 4000}}}}))
	for number := uint64(1); number <= 4; number++ {
		u := &pb.PodUsage{Requests: &pb.Resources{MilliCpu: 1000}}
		must(table.Apply(&pb.Delta{Change: &pb.Delta_AddPod{AddPod: u}, Pod: &pb.PlacedPod{Number: number, Priority: int32(number)}}))
	}
	c, e := newClass(t, celQuery([]string{"node.free['cpu'] >= quantity('2')"}, nil, 0)), NewEvaluator(nil)
	var r PreemptionResult
	r.Reset(c.ID(), 1)
	e.Preempt(table, c, &Preemption{Priority: 5}, &r)
	if best := r.Best(); best == nil || !slices.Equal(best.Victims, []uint64{2, 1}) {
		t.Fatalf("got %s, want pods 2 and 1 as victims: they leave two CPUs", describePreemption(&r))
	}
	e.Preempt(table, c, &Preemption{Priority: 2}, &r)
	if r.Tried != 2 || len(r.Reasons) != 1 || r.Reasons[0].Text != CelReason("f0") {
		t.Fatalf("got %s, want the expression's reason where only pod 1 may leave", describePreemption(&r))
	}
}

// TestPodsOfManyVolumesLeave has a row's pod with more volumes than could be held against each other in minutes.
func TestPodsOfManyVolumesLeave(t *testing.T) {
	const volumes, attached = 60_000, 4
	table, low := NewTable(0), &pb.PlacedPod{Number: 1}
	for token := range uint64(volumes) {
		low.Shared = append(low.Shared, &pb.SharedCount{Counter: attached, Token: token + 1})
	}
	must(table.Apply(&pb.Delta{Change: &pb.Delta_SetNode{SetNode: &pb.Node{
		Name: "n", AllowedPods: 9, VolumeLimits: []*pb.VolumeLimit{{Driver: "d", Volumes: volumes}},
	}}}))
	must(table.Apply(&pb.Delta{Change: &pb.Delta_AddPod{AddPod: &pb.PodUsage{}}, Pod: low}))
	must(table.Apply(&pb.Delta{Change: &pb.Delta_ChangeCounters{ChangeCounters: &pb.CounterChange{
		Counters: []*pb.CounterValue{{Counter: attached, Value: volumes}},
	}}}))
	class := newClass(t, &pb.Query{
		ClassId: 1, Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS},
		VolumeLimits: &pb.VolumeLimitsQuery{Drivers: []*pb.DriverVolumes{{Driver: "d", Volumes: 1, Attached: attached}}},
	})
	e, asked := NewEvaluator(nil), &Preemption{Priority: 1}
	for range 30 {
		if outcome, c, why := e.PreemptRow(table, 0, class, asked, nil); outcome != Preemptable || !slices.Equal(c.Victims, []uint64{1}) {
			t.Fatalf("got outcome %d, %v, %v, want pod 1 to leave", outcome, c, why)
		}
	}
}

// TestUsesOfManyResources has pods of a resource each, and a preemptor that asks for as many resources: what is looked
// up is what the pods take, not each request for each usage.
func TestUsesOfManyResources(t *testing.T) {
	const resources = 1000
	table, all := NewTable(0), &pb.Resources{}
	for i := range resources {
		all.Scalars = append(all.Scalars, &pb.ScalarResource{Name: fmt.Sprintf("example.com/r%04d", i), Quantity: 1})
	}
	must(table.Apply(&pb.Delta{Change: &pb.Delta_SetNode{SetNode: &pb.Node{Name: "n", AllowedPods: 2 * resources, Allocatable: all}}}))
	for i, x := range all.Scalars {
		must(table.Apply(&pb.Delta{
			Change: &pb.Delta_AddPod{AddPod: &pb.PodUsage{Requests: &pb.Resources{Scalars: []*pb.ScalarResource{x}}}}, Pod: &pb.PlacedPod{Number: uint64(i + 1)},
		}))
	}
	e, q := NewEvaluator(nil), &pb.Query{ClassId: 1, Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_RESOURCES_FIT}, Fit: &pb.FitQuery{Requests: all}}
	outcome, c, why := e.PreemptRow(table, 0, newClass(t, q), &Preemption{Priority: 1}, nil)
	if outcome != Preemptable || len(c.Victims) != resources {
		t.Fatalf("got outcome %d, %d victims, %v, want all %d pods to leave", outcome, len(c.Victims), why, resources)
	}
	if len(e.preempt.use) > 2*resources {
		t.Errorf("%d uses of resources were looked up, want %d at the most", len(e.preempt.use), 2*resources)
	}
}
