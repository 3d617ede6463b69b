package cache

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPriorities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x priorities
		var model []int32
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if n := len(model); n > 0 && rapid.Bool().Draw(t, "one leaves") {
				i := rapid.IntRange(0, n-1).Draw(t, "which")
				x.remove(model[i])
				model = append(model[:i], model[i+1:]...)
			} else {
				p := rapid.Int32Range(-3, 3).Draw(t, "priority")
				x.add(p)
				model = append(model, p)
			}
			asked := rapid.Int32Range(-4, 4).Draw(t, "asked")
			want := false
			for _, p := range model {
				want = want || p < asked
			}
			if got := x.below(asked); got != want {
				t.Fatalf("below %d of %v: got %t, want %t", asked, model, got, want)
			}
		}
	})
}
