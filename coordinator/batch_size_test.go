package coordinator

import (
	"slices"
	"testing"
)

// Batches are short where nearly every pod has a class of its own, and grow again.
func TestBatchesByTheirClassesWithoutAnAnswer(t *testing.T) {
	b := newBatchSize(512)
	if b.next() != 16 {
		t.Errorf("first: got %d, want 16", b.next())
	}
	for _, x := range []struct{ pods, classes, want int }{
		{16, 16, 16}, {16, 8, 32}, {32, 32, 16}, {1, 1, 16}, {16, 4, 32}, {32, 0, 64}, {64, 50, 20}, {20, 1, 40}, {40, 1, 80}, {80, 1, 160},
		{160, 1, 320}, {320, 1, 512}, {512, 17, 481}, {481, 481, 16},
	} {
		if b.asked(x.pods, x.classes); b.next() != x.want {
			t.Errorf("after %d pods of %d classes: got %d, want %d", x.pods, x.classes, b.next(), x.want)
		}
	}
}

// After tables have changed under a batch the next has one pod, and those after it grow again; the smaller bound counts.
func TestBatchesAfterAnInvalidOne(t *testing.T) {
	b := newBatchSize(8)
	b.cut(3)
	var got []int
	for i := range 6 {
		if i == 1 {
			b.invalidate()
			b.invalidate()
		}
		if b.invalid != (i == 1) {
			t.Errorf("batch %d: invalid is %t", i, b.invalid)
		}
		b.end()
		got = append(got, b.next())
	}
	if want := []int{3, 1, 2, 3, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
