package lru

import (
	"testing"

	"pgregory.net/rapid"
)

// The cache is held against a list in the order of use.
func TestCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type kept struct {
			key, value int
			bytes      int64
			used       uint64
		}
		entries, budget := rapid.IntRange(1, 5).Draw(t, "entries"), rapid.Int64Range(1, 6*EntryBytes).Draw(t, "budget")
		var model []kept // last used first
		periods := uint64(0)
		gone, goneWant := map[int]int{}, map[int]int{}
		c := New(entries, budget, func(_, value int) { gone[value]++ })
		find := func(key int) int {
			for i := range model {
				if model[i].key == key {
					return i
				}
			}
			return -1
		}
		remove := func(i int) {
			goneWant[model[i].value]++
			model = append(model[:i:i], model[i+1:]...)
		}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := rapid.IntRange(0, 6).Draw(t, "key")
			at := find(key)
			switch rapid.IntRange(0, 4).Draw(t, "do") {
			case 0:
				value, ok := c.Get(key)
				if ok != (at >= 0) || ok && value != model[at].value {
					t.Fatalf("get %d: got %d, %t, want %v", key, value, ok, model)
				}
				if ok {
					used := model[at]
					used.used = periods
					model = append([]kept{used}, append(model[:at:at], model[at+1:]...)...)
				}
			case 1:
				if value, ok := c.Peek(key); ok != (at >= 0) || ok && value != model[at].value {
					t.Fatalf("peek %d: got %d, %t, want %v", key, value, ok, model)
				}
			case 4:
				idle, most := rapid.Uint64Range(0, 3).Draw(t, "periods"), rapid.IntRange(0, 2).Draw(t, "most")
				c.Age(idle, most)
				periods++
				for n := len(model) - 1; most > 0 && n >= 0 && periods-model[n].used > idle; n, most = n-1, most-1 {
					remove(n)
				}
			case 2:
				c.Remove(key)
				if at >= 0 {
					remove(at)
				}
			default:
				if at >= 0 {
					remove(at)
				}
				bytes, evicted := rapid.Int64Range(0, 3*EntryBytes).Draw(t, "bytes"), 0
				if bytes+EntryBytes <= budget {
					model = append([]kept{{key, step, bytes + EntryBytes, periods}}, model...)
					for sum := int64(0); ; sum, evicted = 0, evicted+1 {
						for _, k := range model {
							sum += k.bytes
						}
						if len(model) <= entries && sum <= budget {
							break
						}
						remove(len(model) - 1)
					}
				}
				if got := c.Add(key, step, bytes); got != evicted {
					t.Fatalf("add %d: got %d evicted, want %d", key, got, evicted)
				}
			}
			sum := int64(0)
			for _, k := range model {
				sum += k.bytes
			}
			if c.Len() != len(model) || c.Bytes() != sum || c.Bytes() > budget {
				t.Fatalf("got %d entries of %d bytes, want %d of %d, at most %d", c.Len(), c.Bytes(), len(model), sum, budget)
			}
			if len(gone) != len(goneWant) {
				t.Fatalf("told of %v, want %v", gone, goneWant)
			}
		}
	})
}
