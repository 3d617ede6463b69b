package placement

import (
	"slices"
)

// Absent stands for a value where a node has no label of a key. No label has it.
const Absent = "\x00"

// Domain is a domain of a [Tree]: the number of its key, and its place among the values of the key.
type Domain struct{ Key, At int }

// nowhere is the domain of what lies in none of a key, or in several.
const nowhere = int32(-1)

// Tree says which domains the keys of a gang have, and which lie in which. It is made of labels alone: copies are given with each
// question.
//
// The keys need not nest. A domain lies in a domain of another key if all of its cells do. Behind the keys there is one more,
// [Tree.Anywhere], with a single domain of all cells, those without labels too.
type Tree struct {
	// cells[k][c] is the domain of cell c of key k, or nowhere.
	cells [][]int32
	// values[k] are the values of key k in order.
	values [][]string
	// inside[a][b][d] is the domain of key b in which domain d of key a lies, or nowhere.
	inside [][][]int32
}

// NewTree makes the tree of so many keys. Each cell has a value for each key, or Absent.
func NewTree(keys int, cells [][]string) *Tree {
	t := &Tree{cells: make([][]int32, keys+1), values: make([][]string, keys+1)}
	for k := range keys {
		t.cells[k], t.values[k] = domains(cells, k)
	}
	t.cells[keys], t.values[keys] = make([]int32, len(cells)), []string{""}
	t.inside = make([][][]int32, keys+1)
	for a := range t.inside {
		t.inside[a] = make([][]int32, keys+1)
		for b := range t.inside[a] {
			t.inside[a][b] = t.insides(a, b)
		}
	}
	return t
}

// domains numbers the values of a key.
func domains(cells [][]string, key int) (of []int32, values []string) {
	for _, c := range cells {
		if c[key] != Absent {
			values = append(values, c[key])
		}
	}
	slices.Sort(values)
	values = slices.Compact(values)
	of = make([]int32, len(cells))
	for i, c := range cells {
		of[i] = nowhere
		if at, found := slices.BinarySearch(values, c[key]); found {
			of[i] = int32(at)
		}
	}
	return of, values
}

// insides finds for each domain of key a the domain of key b that has all of its cells.
func (t *Tree) insides(a, b int) []int32 {
	const unseen = int32(-2)
	in := make([]int32, len(t.values[a]))
	for d := range in {
		in[d] = unseen
	}
	for c, d := range t.cells[a] {
		if d == nowhere {
			continue
		}
		switch e := t.cells[b][c]; {
		case in[d] == unseen:
			in[d] = e
		case in[d] != e:
			in[d] = nowhere
		}
	}
	for d := range in {
		in[d] = max(in[d], nowhere) // the domain of no cells: there are no nodes at all
	}
	return in
}

// Anywhere is the number of the key behind all keys, with one domain: the whole cluster.
func (t *Tree) Anywhere() int { return len(t.cells) - 1 }

// Values are the values of a key, in order: Domain.At is the place in them.
func (t *Tree) Values(key int) []string { return t.values[key] }

// Value is the value of a domain; "" for the whole cluster, and for no domain (At -1).
func (t *Tree) Value(d Domain) string {
	if d.At < 0 {
		return ""
	}
	return t.values[d.Key][d.At]
}

// Find is the domain of a key with a value; false: no node has it.
func (t *Tree) Find(key int, value string) (Domain, bool) {
	at, found := slices.BinarySearch(t.values[key], value)
	return Domain{Key: key, At: at}, found
}

// In is the domain of a key in which d lies; false: in none, or in several.
func (t *Tree) In(d Domain, key int) (Domain, bool) {
	at := t.in(d, key)
	return Domain{Key: key, At: int(at)}, at != nowhere
}

// in is the domain of key b in which d lies, or nowhere.
func (t *Tree) in(d Domain, b int) int32 { return t.inside[d.Key][b][d.At] }

// nests tells whether each domain of key a lies in one of key b.
func (t *Tree) nests(a, b int) bool { return !slices.Contains(t.inside[a][b], nowhere) }
