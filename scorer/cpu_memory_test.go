package scorer

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// drawCapacity draws what a node has of a resource: usual amounts, those at which the quick loops end,
// and none.
func drawCapacity(t *rapid.T) int64 {
	return rapid.OneOf(
		rapid.Int64Range(1, 500), rapid.Int64Range(1, 1<<40),
		rapid.SampledFrom([]int64{0, 1, 2, 3, maxExact - 1, maxExact, maxExact + 1, maxRegular, math.MaxInt64 / 2}),
	).Draw(t, "capacity")
}

// drawUse draws what is used of a capacity: shares on either side of a hundredth, too.
func drawUse(t *rapid.T, capacity int64, name string) int64 {
	hundredth := capacity / maxNodeScore * rapid.Int64Range(0, 101).Draw(t, "percent")
	return rapid.OneOf(
		rapid.Just(int64(0)), rapid.Int64Range(max(0, hundredth-2), hundredth+2),
		rapid.Int64Range(0, max(1, capacity)), rapid.SampledFrom([]int64{capacity, maxRegular, maxRegular + 1}),
	).Draw(t, name)
}

// The loop over cpu and memory scores as the formulas do, with vectors and without.
func TestCPUMemoryLoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.IntRange(1, 3).Draw(t, "words")
		from := rapid.IntRange(0, words-1).Draw(t, "from")
		p := &cpuMemory{leastWeight: rapid.Int64Range(0, 1000).Draw(t, "weight"), balanceWeight: rapid.Int64Range(0, 1000).Draw(t, "weight")}
		for r := range p.all {
			p.leastRequest[r] = min(drawUse(t, 1<<35, "request"), maxRegular)
			p.balanceRequest[r] = min(drawUse(t, 1<<35, "request"), maxRegular)
		}
		rows, want := make(bitmap, words), make([]int64, words*wordRows)
		for row := range want {
			regular := true
			for r := range p.all {
				all := drawCapacity(t)
				p.all[r] = append(p.all[r], all)
				p.nonZero[r] = append(p.nonZero[r], drawUse(t, all, "nonzero"))
				p.requested[r] = append(p.requested[r], drawUse(t, all, "requested"))
				regular = regular && exact(all) && max(p.nonZero[r][row], p.requested[r][row]) <= maxRegular
			}
			rows.put(uint32(row), regular)
			p.balance = append(p.balance, 0)
			if regular {
				want[row] = p.formula(row)
			}
		}
		p.checkCeilings(t, rows, want)
		one, other := make([]int64, len(want)), make([]int64, len(want))
		p.scores(rows[from:], from, one[from*wordRows:])
		p.scoresGeneric(rows[from:], from, other[from*wordRows:])
		for row := range rows.all {
			if int(row) < from*wordRows {
				continue
			}
			if one[row] != want[row] || other[row] != want[row] {
				t.Fatalf("row %d: got %d and %d, want %d", row, one[row], other[row], want[row])
			}
		}
	})
}

// checkCeilings checks the loop that bounds scores, for the rows that have room for the pod.
func (p *cpuMemory) checkCeilings(t *rapid.T, rows bitmap, scores []int64) {
	table := NewTable(0)
	table.grow(len(scores))
	fitting := rows.copyOf(nil)
	for row := range rows.all {
		for r := range p.all {
			table.fixed[r].allocatable.dense[row], table.fixed[r].requested.dense[row] = p.all[r][row], p.requested[r][row]
			table.nonZero[r].dense[row] = p.nonZero[r][row]
			if p.balanceRequest[r] > p.all[r][row]-p.requested[r][row] {
				fitting.remove(row)
			}
		}
		table.derived.shares.renew(table, row)
	}
	p.shares = &table.derived.shares
	if !p.makeReady(p.balanceRequest) {
		t.Fatalf("got no ceilings for weights %d and %d", p.leastWeight, p.balanceWeight)
	}
	one, other := make([]int64, len(scores)), make([]int64, len(scores))
	p.ceilings(rows, 0, one)
	p.ceilingsGeneric(rows, 0, other)
	for row := range fitting.all {
		low, high := scores[row], scores[row]+p.leastWeight+p.balanceWeight
		if got := one[row]; got < low || got > high {
			t.Fatalf("row %d: got %d with vectors, want %d to %d", row, got, low, high)
		}
		if got := other[row]; got < low || got > high {
			t.Fatalf("row %d: got %d, want %d to %d", row, got, low, high)
		}
	}
}

// formula is what the loop should make of a row, of which it writes the balance.
func (p *cpuMemory) formula(row int) int64 {
	sum := leastAllocated(p.nonZero[cpu][row]+p.leastRequest[cpu], p.all[cpu][row]) +
		leastAllocated(p.nonZero[memory][row]+p.leastRequest[memory], p.all[memory][row])
	with := deviationOf(p.requested[cpu][row]+p.balanceRequest[cpu], p.all[cpu][row],
		p.requested[memory][row]+p.balanceRequest[memory], p.all[memory][row])
	without := deviationOf(p.requested[cpu][row], p.all[cpu][row], p.requested[memory][row], p.all[memory][row])
	p.balance[row] = uint8(balanceOf(without))
	return p.leastWeight*(sum/2) + p.balanceWeight*balanceScore(with, without)
}

// A bar lets the rows pass that are not below it.
func TestBar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.IntRange(1, 9).Draw(t, "words")
		score := rapid.OneOf(rapid.Int64Range(-2, 2), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}), rapid.Int64())
		tie := rapid.OneOf(rapid.Uint64Range(0, 2), rapid.SampledFrom([]uint64{1 << 63, math.MaxUint64}), rapid.Uint64())
		rows := make(bitmap, words)
		var scores []int64
		var ties []uint64
		for w := range rows {
			rows[w] = rapid.OneOf(rapid.Just(uint64(math.MaxUint64)), rapid.Uint64()).Draw(t, "rows")
			for range wordRows {
				scores, ties = append(scores, score.Draw(t, "score")), append(ties, tie.Draw(t, "tie"))
			}
		}
		b := bar{score.Draw(t, "bar"), tie.Draw(t, "bar")}
		want, one, other := make(bitmap, words), make(bitmap, words), make(bitmap, words)
		for row := range rows.all {
			want.put(row, b.passes(scores[row], ties[row]))
		}
		b.pass(rows, scores, ties, one)
		b.passGeneric(rows, scores, ties, other)
		if !slices.Equal(one, want) || !slices.Equal(other, want) {
			t.Fatalf("got %x and %x, want %x", one, other, want)
		}
	})
}

// A row's number in the tie rule never contradicts the rule.
func TestTieOf(t *testing.T) {
	number := func(t *rapid.T) uint64 {
		return rapid.OneOf(rapid.Uint64Range(0, 3), rapid.SampledFrom([]uint64{1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64}), rapid.Uint64()).Draw(t, "number")
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := Candidate{LastDecision: number(t), NameHash: number(t)}, Candidate{LastDecision: number(t), NameHash: number(t)}
		x, y := tieOf(a.LastDecision, a.NameHash), tieOf(b.LastDecision, b.NameHash)
		if order := compareCandidates(&a, &b); order < 0 && x > y || order > 0 && x < y {
			t.Fatalf("got %x for %v and %x for %v", x, a, y, b)
		}
	})
}

// Whatever the amounts, a table's rows have the scores that each of them has alone, and the best of
// them are the best.
func TestColumnsEqualRows(t *testing.T) {
	e, one := NewEvaluator(nil), NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		r := newRandom(rapid.Uint64().Draw(t, "seed"))
		rows := r.rows(size(t))
		for _, x := range rows {
			x.Node.AllowedPods = 100
			x.Node.Allocatable.MilliCpu, x.Node.Allocatable.MemoryBytes = drawCapacity(t), drawCapacity(t)
			x.Totals.Requested.MilliCpu = drawUse(t, x.Node.Allocatable.MilliCpu, "cpu")
			x.Totals.Requested.MemoryBytes = drawUse(t, x.Node.Allocatable.MemoryBytes, "memory")
			x.Totals.NonZeroMilliCpu = drawUse(t, x.Node.Allocatable.MilliCpu, "nonzero cpu")
			x.Totals.NonZeroMemoryBytes = drawUse(t, x.Node.Allocatable.MemoryBytes, "nonzero memory")
		}
		table := loadTable(t, 0, rows)
		if err := table.check(); err != nil {
			t.Fatal(err)
		}
		q := r.query()
		q.Fit.ScoringType = pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED
		cpu, memory := drawUse(t, 1<<35, "request"), drawUse(t, 1<<35, "request")
		q.Fit.Scored = []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: cpu}, {Name: "memory", Weight: 1, Request: memory}}
		q.Balanced.Scored = []*pb.ScoredResource{{Name: "memory", Weight: 1, Request: memory}, {Name: "cpu", Weight: 2, Request: cpu}}
		c := newClass(t, q)
		if got, want := describe(evaluate(e, table, c, Options{Candidates: 1000})), describe(byRows(one, table, c, 1000)); got != want {
			t.Fatal(diff(got, want))
		}
		limit := rapid.IntRange(1, 9).Draw(t, "limit")
		if got, want := describe(evaluate(e, table, c, Options{Candidates: limit})), describe(byRows(one, table, c, limit)); got != want {
			t.Fatal(diff(got, want))
		}
	})
}

// byRows is a class's result, put together row by row.
func byRows(e *Evaluator, t *Table, c *Class, limit int) *Result {
	out := &Result{ClassID: c.ID(), Rows: t.nodes, Extrema: make([]int64, c.KeyLen())}
	of := map[string]int{}
	for row := range t.All() {
		v := judge(e, t, row, nil, c)
		if !v.Passed {
			continue
		}
		out.Feasible++
		for i := range out.Extrema {
			out.Extrema[i] = max(out.Extrema[i], v.Key.Raw[i])
		}
		key := fmt.Sprint(v.Key)
		if _, there := of[key]; !there {
			of[key] = len(out.Groups)
			out.Groups = append(out.Groups, Group{Key: v.Key})
		}
		g := &out.Groups[of[key]]
		g.Rows++
		g.Candidates = append(g.Candidates, t.Candidate(row, v.Local))
	}
	sortGroups(out.Groups)
	if out.Overflow = len(out.Groups) > MaxGroups; out.Overflow {
		out.Groups = nil
	}
	for i := range out.Groups {
		g := &out.Groups[i]
		slices.SortFunc(g.Candidates, func(a, b Candidate) int { return compareCandidates(&a, &b) })
		g.Candidates = g.Candidates[:min(limit, len(g.Candidates))]
	}
	return out
}
