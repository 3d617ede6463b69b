package observe

import (
	"slices"
	"testing"
)

// However many nodes there are, an explanation keeps few of them, and the best.
func TestTheBestAreKept(t *testing.T) {
	best := bestOf[int]{most: 3, sort: slices.Sort[[]int]}
	for i := range 3 * keptBeside {
		best.add(7 * i % 10007)
		if len(best.list) >= best.most+keptBeside {
			t.Fatalf("after %d: got %d kept, want less than %d", i+1, len(best.list), best.most+keptBeside)
		}
	}
	best.trim()
	if want := []int{0, 3, 6}; !slices.Equal(best.list, want) {
		t.Errorf("got %d, want %d", best.list, want)
	}
}
