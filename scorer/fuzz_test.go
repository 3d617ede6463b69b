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
		table, err := LoadTable(1, 2, in.Rows, in.Counters)
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
	rows := newRandom(99).rows(100)
	f.Fuzz(func(t *testing.T, data []byte) {
		var q pb.Query
		if proto.Unmarshal(data, &q) != nil {
			return
		}
		c, err := NewClass(&q)
		if err != nil {
			return
		}
		e, table := NewEvaluator(nil), loadTable(t, 0, rows)
		r := evaluate(e, table, c, Options{Candidates: 3, Diagnose: true})
		feasible := 0
		for _, x := range rows {
			feasible += asInt(judge(e, table, x.Row, nil, c).Passed)
		}
		if r.Feasible != feasible {
			t.Fatalf("columns: %d feasible rows, rows: %d", r.Feasible, feasible)
		}
		evaluate(e, table, c, Options{Candidates: 3, Normalise: true, Extrema: r.Extrema})
	})
}

// FuzzAddProto merges answers as a worker gone wrong may send them.
func FuzzAddProto(f *testing.F) {
	for seed := range uint64(20) {
		r := newRandom(seed)
		c := newClass(f, r.query())
		f.Add(marshal(evaluate(NewEvaluator(nil), loadTable(f, 0, r.rows(50)), c, Options{Candidates: 5, Diagnose: true}).Proto()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p pb.ClassResult
		if proto.Unmarshal(data, &p) != nil {
			return
		}
		r := &Result{}
		r.Reset(1, 3)
		for range 2 {
			r.AddProto(&p, func(shard, row uint32) (uint64, uint64, string) { return uint64(row), uint64(shard), "" })
		}
		sorted := slices.IsSortedFunc(r.Groups, func(a, b Group) int { return a.Key.Compare(&b.Key) })
		if !sorted || len(r.Groups) > MaxGroups {
			t.Fatalf("got groups %v", r.Groups)
		}
	})
}
