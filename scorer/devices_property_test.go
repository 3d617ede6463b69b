package scorer

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// deviceWorld is a cluster with devices, in one table and in several at once.
type deviceWorld struct {
	random
	one    *Table
	shards []*Table
	nodes  int
}

func newDeviceWorld(t *rapid.T, r random, shards int) *deviceWorld {
	w := &deviceWorld{random: r, one: NewTable(0), nodes: 1 + r.IntN(12)}
	for i := range shards {
		w.shards = append(w.shards, NewTable(uint32(i)))
	}
	for i := range w.nodes {
		w.apply(t, i, &pb.Delta{Change: &pb.Delta_SetNode{SetNode: w.deviceNode(i)}})
	}
	return w
}

// apply makes a change of a node, or of all where the node is below 0; both refuse it or none does.
func (w *deviceWorld) apply(t *rapid.T, node int, d *pb.Delta) {
	d.Row = uint32(max(node, 0))
	want := w.one.Apply(d)
	for i, table := range w.shards {
		own := proto.CloneOf(d)
		if node >= 0 {
			own.Row = uint32(node / len(w.shards))
			if node%len(w.shards) != i {
				continue
			}
		}
		got := table.Apply(own)
		if node >= 0 && (got == nil) != (want == nil) {
			t.Fatalf("%v: got %v, want %v", d, got, want)
		}
	}
}

func (w *deviceWorld) deviceNode(i int) *pb.Node {
	n := &pb.Node{Name: fmt.Sprintf("n%02d", i), AllowedPods: 9, Allocatable: &pb.Resources{MilliCpu: 4000}, Unschedulable: w.chance(10)}
	if w.chance(50) {
		n.Labels = []*pb.Label{{Key: "rack", Value: pick(w.random, "r1", "r2")}}
	}
	if w.chance(20) {
		n.Allocatable.Scalars = []*pb.ScalarResource{{Name: "example.com/gpu", Quantity: 1}}
	} else if w.chance(20) {
		n.ZeroResources = []string{"example.com/foo"}
	}
	return n
}

// change makes one random change.
func (w *deviceWorld) change(t *rapid.T) {
	node := w.IntN(w.nodes)
	pool := pick(w.random, fmt.Sprintf("n%02d", node), "shared")
	switch w.IntN(10) {
	case 0, 1, 2:
		w.apply(t, node, &pb.Delta{Change: &pb.Delta_SetSlice{SetSlice: w.deviceSlice(pool)}})
	case 3:
		w.apply(t, node, &pb.Delta{Change: &pb.Delta_RemoveSlice{RemoveSlice: &pb.DeviceSlice{Driver: pick(w.random, "gpu", "nic"), Pool: pool, Name: "s1"}}})
	case 4, 5:
		w.apply(t, node, &pb.Delta{Change: &pb.Delta_UseDevices{UseDevices: w.uses(pool)}})
	case 6:
		s := w.deviceSlice(pick(w.random, "all", "rack", "some"))
		s.Reach = w.reach(t, true)
		for _, d := range s.Devices {
			d.Reach = w.reach(t, false)
		}
		w.changeShared(t, s)
	case 7:
		w.changeShared(t, &pb.DeviceSlice{Driver: pick(w.random, "gpu", "nic"), Pool: pick(w.random, "all", "rack", "some"), Name: "s1"})
	case 8:
		uses := w.uses(pick(w.random, "all", "rack", "some"))
		w.apply(t, -1, &pb.Delta{Change: &pb.Delta_UseSharedDevices{UseSharedDevices: uses}})
	default:
		if w.chance(30) {
			w.apply(t, node, &pb.Delta{Change: &pb.Delta_RemoveNode{}})
		}
		w.apply(t, node, &pb.Delta{Change: &pb.Delta_SetNode{SetNode: w.deviceNode(node)}})
	}
}

// changeShared sets a slice, or removes it where it has no reach.
func (w *deviceWorld) changeShared(t *rapid.T, s *pb.DeviceSlice) {
	if s.Reach == nil {
		w.apply(t, -1, &pb.Delta{Change: &pb.Delta_RemoveSharedSlice{RemoveSharedSlice: s}})
		return
	}
	w.apply(t, -1, &pb.Delta{Change: &pb.Delta_SetSharedSlice{SetSharedSlice: s}})
}

func (w *deviceWorld) deviceSlice(pool string) *pb.DeviceSlice {
	s := &pb.DeviceSlice{
		Driver: pick(w.random, "gpu", "nic"), Pool: pool, Name: pick(w.random, "s1", "s1", "s2"),
		Generation: int64(w.IntN(2)), SliceCount: int64(1 + w.IntN(2)*w.IntN(2)),
	}
	if w.chance(10) {
		s.CounterSets = []*pb.CounterSet{{Name: "set", Counters: parseAmounts("c=2")}}
		return s
	}
	for i := range w.IntN(4) {
		d := parseDevice(fmt.Sprintf("d%d;model=%s", i, pick(w.random, "a", "b")))
		d.Attributes = append(d.Attributes, &pb.DeviceAttribute{Name: "uuid", Value: &pb.DeviceAttribute_Int{Int: w.Int64N(100)}})
		d.AllowsMultiple, d.Conditioned = w.chance(20), w.chance(5)
		if d.AllowsMultiple {
			d.Capacities = []*pb.DeviceCapacity{{Name: "mem", Quantity: quantityOf("10")}}
		}
		if w.chance(10) {
			d.Consumes = []*pb.CounterUse{{CounterSet: "set", Counters: parseAmounts("c=1")}}
		}
		if w.chance(10) {
			d.Taints = []*pb.Taint{{Key: "k", Effect: pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE}}
		}
		s.Devices = append(s.Devices, d)
	}
	return s
}

func (w *deviceWorld) reach(t *rapid.T, whole bool) *pb.DeviceReach {
	if whole && w.chance(30) {
		return parseReach("each")
	}
	return parseReach(rapid.SampledFrom([]string{"all", "none", "node=n01", "node=n03", "rack=r1", "rack=r2", "rack=r1,r2"}).Draw(t, "reach"))
}

func (w *deviceWorld) uses(pool string) *pb.DeviceUses {
	out := &pb.DeviceUses{}
	for i := range 1 + w.IntN(3) {
		u := &pb.DeviceUse{Driver: pick(w.random, "gpu", "nic"), Pool: pool, Device: fmt.Sprintf("d%d", i)}
		switch w.IntN(4) {
		case 0, 1:
			u.Dedicated = true
		case 2:
			u.Shares, u.Consumed = 1, &pb.DeviceAmounts{Amounts: parseAmounts("mem=6")}
		}
		out.Uses = append(out.Uses, u)
	}
	return out
}

func (w *deviceWorld) claims() *pb.Query {
	lines := []string{
		"claim\nrequest q 1", "request r 1", "request r 2", "request r 1 device.driver == \"gpu\"", "request s all", "request s 1 admin",
		"request t 1 device.attributes[\"gpu\"].model == \"a\"", "or big 2\nor small 1", "match gpu/model", "distinct nic/model",
		"request u 1 cap:mem=5", "request v 1 tolerate", "claim\nrequest r 1",
	}
	script := "filters NodeUnschedulable,DynamicResources\nscores DynamicResources:2,TaintToleration:1\nclaim\nrequest q 1\n"
	if w.chance(20) {
		script = "filters DynamicResources,NodeUnschedulable\nscores DynamicResources:1\nclaim\nrequest q 1 device.driver == \"nic\"\n"
	}
	for range w.IntN(4) {
		script += pick(w.random, lines...) + "\n"
	}
	if w.chance(20) {
		script += "allocated rack In r1\n"
	}
	if w.chance(20) {
		script += "extended example.com/foo=- example.com/gpu=c\ncontainer example.com/gpu=1\n"
	}
	return parseClaims(script)
}

// Rows that are judged one by one are judged as in the pass over all rows, and as a search says that knows neither
// interned states nor former searches; and tables of several shards answer together as one does.
func TestDevicesRowByRowAndByShards(t *testing.T) {
	e, other := NewEvaluator(nil), NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		w := newDeviceWorld(t, newRandom(rapid.Uint64().Draw(t, "seed")), 1+rapid.IntRange(0, 3).Draw(t, "shards"))
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			for range 6 {
				w.change(t)
			}
			c := newClass(t, w.claims())
			o := Options{Candidates: 3, Diagnose: rapid.Bool().Draw(t, "diagnose")}
			checkDeviceRows(t, e, w.one, c, o)
			merged := &Result{}
			for _, s := range w.shards {
				merged.Merge(throughWire(t, evaluate(other, s, c, o), s))
			}
			whole := evaluate(e, w.one, c, o)
			if got, want := deviceAnswer(c, merged), deviceAnswer(c, whole); got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
		}
	})
}

// response is a response with results of some shards.
func response(shards []uint32, results ...*Result) *pb.EvaluateResponse {
	out := &pb.EvaluateResponse{}
	for _, r := range results {
		r.AppendTo(out, shards)
	}
	return out
}

// addAll merges all results of a response.
func (r *Result) addAll(resp *pb.EvaluateResponse, locate Locate) {
	columns := resp.Reader()
	for _, p := range resp.GetResults() {
		r.AddNext(&Result{}, p, &columns, locate)
	}
}

// throughWire is a result as the coordinator reads it.
func throughWire(t *rapid.T, r *Result, table *Table) *Result {
	p := response([]uint32{table.Shard()}, r)
	if err := p.Validate(); err != nil {
		t.Fatalf("%v", err)
	}
	out := &Result{}
	out.Reset(r.ClassID, r.limit)
	out.addAll(p, func(_ int, row uint32) Candidate { return table.Candidate(row, 0) })
	return out
}

// deviceAnswer is all that matters of an answer, by names.
func deviceAnswer(c *Class, r *Result) string {
	var s Standing
	c.Settle(r, &s)
	out := fmt.Sprintf("%d rows, %d feasible, %d failing, %v\n", r.Rows, s.Feasible, s.Failing, r.Reasons)
	for i, g := range r.Groups {
		out += fmt.Sprintf("  %v ×%d %+v, unavailable %b:", g.Key, g.Rows, s.Groups[i], c.UnavailableClaims(r, &s, i))
		for _, x := range g.Candidates {
			out += fmt.Sprintf(" %s(%d)", x.Name, x.Score)
		}
		out += "\n"
	}
	return out
}

// checkDeviceRows compares a pass with rows that are judged one by one, and these with a plain search.
func checkDeviceRows(t *rapid.T, e *Evaluator, table *Table, c *Class, o Options) {
	got := evaluate(e, table, c, o)
	want := &Result{grouped: true}
	want.openMeasures(0)
	var v Verdict
	for row := range table.All() {
		e.Row(table, row, nil, c, o.Diagnose, &v)
		want.Move(c, &v, +1)
		plain := view{t: table, row: row, e: e}
		judged, found := c.claims.judge(plain), NewEvaluator(nil).Allocate(table, row, c)
		served, ok := c.claims.served(plain)
		if ok && len(c.claims.claims)+int(served) > 0 && ((judged.reason == failsPod) != (found.Fatal != nil) || (judged.reason == letsThrough) != (found.Claims != nil)) {
			t.Fatalf("row %d: judged %+v, searched %+v", row, judged, found)
		}
	}
	sortGroups(want.Groups)
	same := func(a, b Group) bool { return a.Key.Equal(&b.Key) && a.Rows == b.Rows }
	if !slices.EqualFunc(got.Groups, want.Groups, same) {
		t.Fatalf("got groups %v\nwant %v", got.Groups, want.Groups)
	}
}

// A snapshot makes a table that has the same rows and answers, and what goes takes all that was interned along.
func TestDevicesSurviveSnapshotsAndGo(t *testing.T) {
	e := NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		w := newDeviceWorld(t, newRandom(rapid.Uint64().Draw(t, "seed")), 1)
		for range rapid.IntRange(1, 60).Draw(t, "changes") {
			w.change(t)
			if err := w.one.check(); err != nil {
				t.Fatalf("%v", err)
			}
		}
		told := slices.Collect(w.one.Devices)
		loaded, err := LoadTable(0, w.one.Generation(), slices.Collect(w.one.Snapshot), nil, told...)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if !slices.EqualFunc(told, slices.Collect(loaded.Devices), func(a, b *pb.RowDevices) bool { return proto.Equal(a, b) }) {
			t.Fatalf("got %v\nwant %v", slices.Collect(loaded.Devices), told)
		}
		c := newClass(t, w.claims())
		o := Options{Candidates: 3, Diagnose: true}
		if got, want := deviceAnswer(c, evaluate(e, loaded, c, o)), deviceAnswer(c, evaluate(e, w.one, c, o)); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		w.removeAll(t)
		d := w.one.devices
		if d == nil {
			return
		}
		if n := len(d.interned.byKey) + len(d.inventories.byKey) + len(d.contents.byKey) + len(d.known) + len(d.shared.byKey) + len(d.shared.ofName); n > 0 {
			t.Fatalf("%d entries are left: %+v", n, d)
		}
		if d.shared.sum != (digest{}) || d.shared.slicesSum != (digest{}) {
			t.Fatalf("got sums %x and %x of nothing", d.shared.sum, d.shared.slicesSum)
		}
	})
}

// removeAll takes everything back.
func (w *deviceWorld) removeAll(t *rapid.T) {
	for i := range w.nodes {
		w.apply(t, i, &pb.Delta{Change: &pb.Delta_RemoveNode{}})
	}
	for _, x := range slices.Collect(w.one.Devices) {
		for _, s := range x.Slices {
			s.Devices, s.CounterSets, s.Reach = nil, nil, nil
			w.changeShared(t, s)
		}
		for _, u := range x.GetUses().GetUses() {
			free := &pb.DeviceUse{Driver: u.Driver, Pool: u.Pool, Device: u.Device}
			w.apply(t, -1, &pb.Delta{Change: &pb.Delta_UseSharedDevices{UseSharedDevices: &pb.DeviceUses{Uses: []*pb.DeviceUse{free}}}})
		}
	}
	if left := slices.Collect(w.one.Devices); len(left) > 0 {
		t.Fatalf("left: %v", left)
	}
}
