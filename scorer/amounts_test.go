package scorer

import (
	"testing"

	"pgregory.net/rapid"
)

// TestCursorReadsAsTheColumnDoes holds that a walk over some rows, some of them twice, finds what a search for each
// finds: in lists and in columns with a slot a row.
func TestCursorReadsAsTheColumnDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity = 4 * wordRows
		var a amounts
		for range rapid.IntRange(0, 3*capacity/sparseFactor/2).Draw(t, "entries") {
			a.set(rapid.Uint32Range(0, capacity-1).Draw(t, "row"), rapid.Int64Range(0, 3).Draw(t, "amount"), capacity)
		}
		c := cursor{amounts: &a}
		for row := uint32(0); row < capacity; row += rapid.Uint32Range(0, 5).Draw(t, "step") {
			if got, want := c.at(row), a.at(row); got != want {
				t.Fatalf("row %d of %v: got %d, want %d", row, a.rows, got, want)
			}
		}
	})
}
