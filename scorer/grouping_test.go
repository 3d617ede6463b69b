package scorer

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Codes stand in the order of the columns that they were made of, and are equal where those
// are.
func TestKeyCodesOrderAsKeys(t *testing.T) {
	var k keyCodes // used again, so that leftovers would show
	rapid.Check(t, func(t *rapid.T) {
		rows := size(t)
		r := newRandom(rapid.Uint64().Draw(t, "seed"))
		in := make(bitmap, words(rows))
		for row := range uint32(rows) {
			if r.chance(80) {
				in.add(row)
			}
		}
		k.begin(in)
		keys := make([][]int64, len(in)*wordRows)
		for range rapid.IntRange(0, 6).Draw(t, "columns") {
			if r.chance(40) {
				size := pick(r, 1, 2, 7, 1<<20, math.MaxInt32)
				ranks := make([]uint32, len(keys))
				for row := range ranks {
					ranks[row] = uint32(r.IntN(size))
					keys[row] = append(keys[row], int64(ranks[row]))
				}
				k.addRanks(ranks, size)
				continue
			}
			numbers := r.numbers(len(keys))
			for row, n := range numbers {
				keys[row] = append(keys[row], n)
			}
			most := int64(math.MinInt64)
			for row := range in.all {
				most = max(most, numbers[row])
			}
			if got := k.addNumbers(numbers); got != most {
				t.Fatalf("got largest %d, want %d", got, most)
			}
		}
		for i, a := range k.rows {
			if k.codes[i] >= k.size {
				t.Fatalf("got code %d, want below %d", k.codes[i], k.size)
			}
			for j, b := range k.rows {
				if got, want := cmp.Compare(k.codes[i], k.codes[j]), slices.Compare(keys[a], keys[b]); got != want {
					t.Fatalf("rows %d and %d: got codes %d, %d of keys %v, %v", a, b, k.codes[i], k.codes[j], keys[a], keys[b])
				}
			}
		}
	})
}

// numbers is a column of counts, large, negative or missing.
func (r random) numbers(n int) []int64 {
	out := make([]int64, n)
	kind := r.IntN(6)
	for i := range out {
		switch kind {
		case 0:
			out[i] = 7
		case 1:
			out[i] = int64(r.IntN(4))
		case 2:
			out[i] = r.Int64() - r.Int64()
		case 3:
			out[i] = pick(r, int64(math.MinInt64+1), math.MaxInt64, 0)
		default:
			out[i] = int64(r.IntN(200)) - 100
		}
		if kind%2 == 0 && r.chance(10) || kind == 5 {
			out[i] = NoLabel
		}
	}
	return out
}

// Small values, large ones and those below zero stand in one ascending histogram.
func TestMeasureValues(t *testing.T) {
	e := NewEvaluator(nil)
	values := []int64{300, 0, -5, 255, 256, 0, -5, 300, 1 << 50, 7, 9, -6}
	column := append(values, make([]int64, wordRows)...)
	all := bitmap{1<<len(values) - 1 - 1<<10} // all but the 9
	var m MeasureResult
	for range 2 {
		m.reset(0)
		e.measureValues(all, column, &m)
		want := []MeasureCell{
			{Value: -6, Rows: 1}, {Value: -5, Rows: 2}, {Value: 0, Rows: 2}, {Value: 7, Rows: 1}, {Value: 255, Rows: 1},
			{Value: 256, Rows: 1}, {Value: 300, Rows: 2}, {Value: 1 << 50, Rows: 1},
		}
		if !slices.Equal(m.Cells, want) {
			t.Fatalf("got %v, want %v", m.Cells, want)
		}
	}
}

// What Move left behind without rows is no domain.
func TestLeastSkipsWhatIsEmpty(t *testing.T) {
	for _, x := range []struct {
		name           string
		measure        MeasureResult
		least, domains int64
	}{
		{"nothing", MeasureResult{By: pb.Breakdown_BREAKDOWN_VALUE}, math.MaxInt64, 0},
		{"values", MeasureResult{By: pb.Breakdown_BREAKDOWN_VALUE, Cells: []MeasureCell{{Value: 0}, {Value: 2, Rows: 3}, {Value: 5, Rows: 1}}}, 2, 4},
		{"domains", MeasureResult{By: pb.Breakdown_BREAKDOWN_DOMAIN, Cells: []MeasureCell{{Domain: "a"}, {Domain: "b", Rows: 3, Sum: 9}, {Domain: "c", Rows: 1, Sum: 4}}}, 4, 2},
	} {
		if least, domains := x.measure.least(); least != x.least || domains != x.domains {
			t.Errorf("%s: got %d of %d, want %d of %d", x.name, least, domains, x.least, x.domains)
		}
	}
}
