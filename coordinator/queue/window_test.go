package queue

import (
	"testing"

	"pgregory.net/rapid"
)

// TestWindowAgainstSlice holds a window against a list that never forgets.
func TestWindowAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window[*int]
		var all []*int
		first := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				x := new(int)
				w.push(x)
				all = append(all, x)
			},
			"trim": func(t *rapid.T) {
				first = rapid.IntRange(first, len(all)).Draw(t, "first")
				w.trim(uint64(first))
			},
			"": func(t *rapid.T) {
				if int(w.first) != first || int(w.end()) != len(all) || w.len() != len(all)-first {
					t.Fatalf("got %d to %d, %d elements; want %d to %d", w.first, w.end(), w.len(), first, len(all))
				}
				for i := first; i < len(all); i++ {
					if *w.at(uint64(i)) != all[i] {
						t.Fatalf("element %d: got another", i)
					}
				}
				for i := range w.head {
					if w.items[i] != nil {
						t.Fatalf("a forgotten element is still held at %d", i)
					}
				}
			},
		})
	})
}
