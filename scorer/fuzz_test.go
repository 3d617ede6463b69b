package scorer

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// fuzzRows keeps the rows of fuzzed messages few, so that tables stay small.
const fuzzRows = 1 << 10

func marshal(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	must(err)
	return b
}

// FuzzApply applies deltas as they may come from outside. None panics, one that is
// refused changes nothing, and what became of the table is one that can be sent on.
func FuzzApply(f *testing.F) {
	for seed := range uint64(20) {
		r, m, d := newRandom(seed), model{}, &pb.ShardDeltas{}
		for range 30 {
			d.Deltas = append(d.Deltas, proto.CloneOf(m.step(r, 5)))
		}
		f.Add(marshal(d))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var in pb.ShardDeltas
		if proto.Unmarshal(data, &in) != nil {
			return
		}
		table := NewTable(1)
		for _, d := range in.Deltas {
			if d.GetRow() >= fuzzRows && d.GetRow() < pb.MaxRow {
				d.Row %= fuzzRows
			}
			before, generation := encode(t, snapshot(table)), table.Generation()
			if table.Apply(d) == nil {
				generation++
			} else if got := encode(t, snapshot(table)); !bytes.Equal(got, before) {
				t.Fatalf("a refused delta changed the table: %v", d)
			}
			if table.Generation() != generation {
				t.Fatalf("got generation %d, want %d", table.Generation(), generation)
			}
		}
		if err := table.check(); err != nil {
			t.Fatal(err)
		}
		rows := snapshot(table)
		if got := snapshot(loadTable(t, 1, rows)); !bytes.Equal(encode(t, got), encode(t, rows)) {
			t.Fatal("a snapshot of a snapshot differs")
		}
	})
}

// FuzzLoadTable loads snapshots as they may come from outside.
func FuzzLoadTable(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(marshal(&pb.LoadSnapshotRequest{Rows: newRandom(seed).rows(5)}))
	}
	slice := parseDevice("d0;model=a;cap.mem=4;taint=k;takes=set/c/1;multi;on=node:n01")
	f.Add(marshal(&pb.LoadSnapshotRequest{Rows: newRandom(1).rows(3), Devices: []*pb.RowDevices{
		{Row: 1, Slices: []*pb.DeviceSlice{{Name: "s", Driver: "d", Pool: "p", Devices: []*pb.Device{slice}}}},
		{Shared: true, Slices: []*pb.DeviceSlice{{Name: "s", Driver: "d", Pool: "q", Reach: parseReach("each"), Devices: []*pb.Device{slice}}}},
		{Row: 1, Uses: &pb.DeviceUses{Uses: []*pb.DeviceUse{{Driver: "d", Pool: "p", Device: "d0", Dedicated: true}}}},
	}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in pb.LoadSnapshotRequest
		if proto.Unmarshal(data, &in) != nil {
			return
		}
		for _, x := range in.Rows {
			if x.GetRow() < pb.MaxRow {
				x.Row %= fuzzRows
			}
		}
		for _, c := range in.Counters {
			for i := range c.Rows {
				c.Rows[i] %= fuzzRows
			}
		}
		for _, x := range in.Devices {
			x.Row %= fuzzRows
		}
		table, err := LoadTable(1, 2, in.Rows, in.Counters, in.Devices...)
		if err != nil {
			return
		}
		if err := table.check(); err != nil {
			t.Fatal(err)
		}
		rows := snapshot(table)
		if got := snapshot(loadTable(t, 1, rows)); !bytes.Equal(encode(t, got), encode(t, rows)) {
			t.Fatal("a snapshot of a snapshot differs")
		}
	})
}

// FuzzQuery evaluates queries as they may come from outside, and holds the columns
// against single rows.
func FuzzQuery(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(marshal(newRandom(seed).query()))
	}
	r := newRandom(99)
	nodes := r.groupNodes(100)
	tables, at := groupTables(f, r, nodes, 1)
	for seed := range uint64(40) {
		spec, q := newRandom(seed).groupSpec()
		compileGroups(spec, q, uniqueAmong(nodes), seed%2 == 0)
		f.Add(marshal(q))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var q pb.Query
		if proto.Unmarshal(data, &q) != nil {
			return
		}
		c, err := NewClass(&q)
		if err != nil {
			return
		}
		c = c.Pin(slices.Values(tables))
		e, table, s := NewEvaluator(nil), tables[0], Standing{}
		for _, diagnose := range []bool{true, false} {
			r, moved, v := evaluate(e, table, c, Options{Candidates: 3, Diagnose: diagnose}), &Result{}, Verdict{}
			for _, n := range nodes {
				e.Row(table, at[n].Row, nil, c, diagnose, &v)
				moved.Move(c, &v, 1)
			}
			if d := diff(tell(moved), tell(r)); d != "" && !r.Overflow {
				t.Fatalf("rows against columns: %s", d)
			}
			c.Settle(r, &s)
			for i := range r.Groups {
				c.GroupReasons(r, &s, i)
				c.GroupScores(r, &s, i)
			}
			evaluate(e, table, c, Options{Candidates: 3, Normalise: true, Extrema: r.Extrema})
		}
	})
}

// FuzzAddNext merges answers as a worker gone wrong may send them.
func FuzzAddNext(f *testing.F) {
	for seed := range uint64(20) {
		r := newRandom(seed)
		c := newClass(f, r.query())
		f.Add(marshal(response([]uint32{0}, evaluate(NewEvaluator(nil), loadTable(f, 0, r.rows(50)), c, Options{Candidates: 5, Diagnose: true}))))
	}
	for seed := range uint64(20) {
		r := newRandom(seed)
		nodes := r.groupNodes(50)
		tables, _ := groupTables(f, r, nodes, 1)
		spec, q := r.groupSpec()
		compileGroups(spec, q, uniqueAmong(nodes), false)
		answer := evaluate(NewEvaluator(nil), tables[0], newClass(f, q), Options{Candidates: 5, Diagnose: true})
		f.Add(marshal(response([]uint32{0, 3}, answer, answer)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p pb.EvaluateResponse
		if proto.Unmarshal(data, &p) != nil {
			return
		}
		locate := func(shard int, row uint32) Candidate {
			return Candidate{Shard: uint32(shard), Row: row, LastDecision: uint64(row), NameHash: uint64(shard)}
		}
		skipped := p.Reader()
		for _, result := range p.GetResults() {
			skipped.Skip(result)
		}
		r := &Result{}
		r.Reset(1, 3)
		for range 2 {
			r.addAll(&p, locate)
		}
		for i := 1; i < len(r.Groups); i++ {
			if r.Groups[i-1].Key.Compare(&r.Groups[i].Key) >= 0 {
				t.Fatalf("got groups %v", r.Groups)
			}
		}
		if !r.grouped && len(r.Groups) > MaxGroups {
			t.Fatalf("got %d groups, want an overflow", len(r.Groups))
		}
		for i := range r.Measures {
			if m := r.Measures[i]; !slices.IsSortedFunc(m.Cells, MeasureCell.compare) {
				t.Fatalf("got measure %v", m)
			}
		}
		if p.Validate() != nil || p.GetGroups().GetShards() > 1<<10 {
			return
		}
		shards := make([]uint32, p.GetGroups().GetShards())
		for i := range shards {
			shards[i] = uint32(i)
		}
		again := &Result{}
		again.Reset(1, 3)
		again.addAll(response(shards, r), locate)
		if d := diff(tell(again), tell(r)); d != "" {
			t.Fatalf("a message of a result differs: %s", d)
		}
	})
}
