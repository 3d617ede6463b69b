package placement

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// cluster is nodes by their labels, and how many members each takes.
type cluster struct {
	keys   []string
	cells  [][]string
	copies []int64
}

// read reads nodes such as "b1 r1 h1 4": a value of each key, "-" for none, and how many members the node takes.
func read(keys, nodes string) *cluster {
	c := &cluster{keys: strings.Fields(keys)}
	for line := range strings.SplitSeq(strings.TrimSpace(nodes), "\n") {
		words := strings.Fields(line)
		var copies int64
		fmt.Sscan(words[len(words)-1], &copies)
		cell := slices.Clone(words[:len(words)-1])
		for i := range cell {
			if cell[i] == "-" {
				cell[i] = Absent
			}
		}
		c.cells, c.copies = append(c.cells, cell), append(c.copies, copies)
	}
	return c
}

func (c *cluster) tree() *Tree { return NewTree(len(c.keys), c.cells) }

// sums are the copies by domain, added up the simple way.
func (c *cluster) sums(t *Tree) [][]int64 {
	of := make([][]int64, len(c.keys)+1)
	for k := range of {
		of[k] = make([]int64, len(t.Values(k)))
		for i, cell := range c.cells {
			if k == len(c.keys) {
				of[k][0] += c.copies[i]
			} else if d, found := t.Find(k, cell[k]); found {
				of[k][d.At] += c.copies[i]
			}
		}
	}
	return of
}

// word is a domain as tests write it: rack=r1.
func (c *cluster) word(t *Tree, d Domain) string {
	if d.Key == len(c.keys) {
		return "anywhere"
	}
	return c.keys[d.Key] + "=" + t.Value(d)
}

func (c *cluster) words(t *Tree, p Plan) string {
	words := []string{fmt.Sprintf("%s fits %d", c.word(t, p.Domain), p.Fits)}
	for _, s := range p.Shares {
		words = append(words, fmt.Sprintf("%s:%d", c.word(t, s.Domain), s.Members))
	}
	return strings.Join(words, " ")
}

// building has two blocks of two racks of two hosts.
const building = `
	b1 r1 h1 4
	b1 r1 h2 2
	b1 r2 h3 3
	b1 r2 h4 3
	b2 r3 h5 4
	b2 r3 h6 4
	b2 r4 h7 1
	b2 r4 h8 1`

const (
	block = iota
	rack
	host
	anywhere
)

func TestPlans(t *testing.T) {
	c := read("block rack host", building)
	levels := []int{host, rack, block}
	for _, x := range []struct {
		what, want string
		ask        Question
	}{
		{"no key: anywhere", "anywhere fits 5 anywhere:5", Question{Members: 5, Need: 5, Required: anywhere}},
		{"no scope takes enough: the one that takes the most is told", "rack=r3 fits 8", Question{Members: 9, Need: 9, Required: rack}},
		{"the smallest host that takes all", "host=h2 fits 2 host=h2:2", Question{Members: 2, Need: 2, Required: anywhere, Preferred: levels}},
		{"no host takes all: the smallest rack, and in it the fewest hosts", "rack=r1 fits 5 host=h1:4 host=h2:1",
			Question{Members: 5, Need: 5, Required: anywhere, Preferred: levels}},
		{"no rack takes all: the smallest block, and in it the fewest racks", "block=b2 fits 9 host=h5:4 host=h6:4 host=h7:1",
			Question{Members: 9, Need: 9, Required: anywhere, Preferred: levels}},
		{"no block takes all: the whole cluster, with the fewest blocks", "anywhere fits 14 host=h1:4 host=h2:2 host=h4:3 host=h3:3 host=h7:1 host=h8:1",
			Question{Members: 14, Need: 14, Required: anywhere, Preferred: levels}},
		{"a quorum does not do where all find room: no member is lost to a preference", "rack=r1 fits 5 host=h1:4 host=h2:1",
			Question{Members: 5, Need: 2, Required: anywhere, Preferred: levels}},
		{"not all find room anywhere", "anywhere fits 22", Question{Members: 30, Need: 25, Required: anywhere, Preferred: levels}},
		{"a preference inside a required key", "rack=r3 fits 8 rack=r3:8", Question{Members: 8, Need: 8, Required: block, Preferred: []int{rack}}},
		{"a pinned scope", "rack=r2 fits 4 host=h4:3 host=h3:1", Question{Members: 4, Need: 4, Required: rack, Pinned: &Domain{rack, 1}, Preferred: levels[:1]}},
		{"mates in a rack draw the others there", "rack=r3 fits 2 rack=r3:2",
			Question{Members: 2, Need: 1, Required: anywhere, Preferred: []int{rack}, Near: []*Domain{{rack, 2}}}},
		{"a level over which mates are spread is given up", "block=b1 fits 2 rack=r1:2",
			Question{Members: 2, Need: 1, Required: anywhere, Preferred: []int{rack, block}, Near: []*Domain{nil, {block, 0}}}},
		{"slices of 3: whole ones only, in racks", "anywhere fits 12 rack=r3:6 rack=r1:6",
			Question{Members: 12, Need: 12, Required: anywhere, Slice: rack, SliceSize: 3}},
		{"slices of 3 in hosts: those of 4 take one each", "block=b1 fits 9 host=h4:3 host=h3:3 host=h1:3",
			Question{Members: 9, Need: 9, Required: block, Slice: host, SliceSize: 3}},
		{"slices of 4 in hosts: three, and not one more", "anywhere fits 12", Question{Members: 16, Need: 16, Required: anywhere, Slice: host, SliceSize: 4}},
		{"the last slice is smaller", "block=b2 fits 9 host=h5:4 host=h6:4 host=h7:1",
			Question{Members: 9, Need: 9, Required: block, Slice: host, SliceSize: 4}},
		{"a slice that lacks a member gets it first", "anywhere fits 5 host=h7:1 host=h5:4",
			Question{Members: 5, Need: 5, Required: anywhere, Slice: host, SliceSize: 4, Held: []int64{0, 0, 0, 0, 0, 0, 3, 0}}},
		{"what a slice lacks goes nowhere else", "anywhere fits 5",
			Question{Members: 6, Need: 6, Required: anywhere, Slice: host, SliceSize: 4, Held: []int64{0, 0, 0, 0, 0, 0, 2, 0}}},
		{"all on one host: so is each slice", "host=h5 fits 4 host=h5:4",
			Question{Members: 4, Need: 4, Required: block, Pinned: &Domain{block, 1}, Preferred: []int{host}, Slice: rack, SliceSize: 2}},
	} {
		tree := c.tree()
		x.ask.Copies, x.ask.Weights, x.ask.Fit = c.sums(tree), Weights{1, 1}, func(Domain, int64) int64 { return 0 }
		plan, err := tree.Plan(&x.ask)
		if got := c.words(tree, plan); err != nil || got != x.want {
			t.Errorf("%s: got %s, %v, want %s", x.what, got, err, x.want)
		}
	}
}

// TestNoScope has no node with the key.
func TestNoScope(t *testing.T) {
	for _, c := range []*cluster{read("rack", "- 3"), {keys: []string{"rack"}}} {
		tree := c.tree()
		plan, err := tree.Plan(&Question{Copies: c.sums(tree), Members: 1, Need: 1, Required: 0})
		if err != nil || plan.At != -1 || plan.Fits != 0 || tree.Value(plan.Domain) != "" {
			t.Errorf("got %v, %v, want no domain", plan, err)
		}
	}
}

// drawn is a random cluster and a random question to it, and the tree.
func drawn(t *rapid.T) (*cluster, *Tree, *Question) {
	keys := rapid.IntRange(1, 3).Draw(t, "keys")
	c := &cluster{keys: []string{"a", "b", "c"}[:keys]}
	nested := rapid.Bool().Draw(t, "nested")
	for range rapid.IntRange(1, 9).Draw(t, "nodes") {
		cell := make([]string, keys)
		for k := range cell {
			cell[k] = rapid.SampledFrom([]string{"x", "y", "z", Absent}).Draw(t, "value")
			if nested && k > 0 && cell[k] != Absent {
				cell[k] = cell[k-1] + cell[k]
			}
		}
		c.cells, c.copies = append(c.cells, cell), append(c.copies, rapid.Int64Range(0, 5).Draw(t, "copies"))
	}
	tree := c.tree()
	q := &Question{
		Copies: c.sums(tree), Members: rapid.Int64Range(1, 12).Draw(t, "members"), Required: rapid.IntRange(0, keys).Draw(t, "required"),
		Weights: Weights{1, 1}, Fit: func(d Domain, members int64) int64 { return (int64(d.At)*37 + members) % 101 },
	}
	q.Need = rapid.Int64Range(1, q.Members).Draw(t, "need")
	q.Preferred = rapid.SliceOfNDistinct(rapid.IntRange(0, keys-1), 0, keys, rapid.ID[int]).Draw(t, "preferred")
	if rapid.Bool().Draw(t, "slices") {
		q.Slice, q.SliceSize = rapid.IntRange(0, keys-1).Draw(t, "slice"), rapid.Int64Range(1, 4).Draw(t, "size")
		if rapid.Bool().Draw(t, "begun") {
			q.Held = rapid.SliceOfN(rapid.Int64Range(0, 5), len(tree.Values(q.Slice)), len(tree.Values(q.Slice))).Draw(t, "held")
		}
	}
	return c, tree, q
}

// lies tells whether a cell is in a domain.
func (c *cluster) lies(t *Tree, cell int, d Domain) bool {
	return d.Key == len(c.keys) || c.cells[cell][d.Key] == t.Value(d)
}

// TestPlansHold plays plans: members that go into their shares' domains, to any node that still takes one, all find one, in one domain
// of the slice key for each slice.
func TestPlansHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, tree, q := drawn(t)
		plan, err := tree.Plan(q)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Fits < q.Need {
			if plan.Shares != nil {
				t.Fatalf("too few fit, got shares %v", plan.Shares)
			}
			return
		}
		left := slices.Clone(c.copies)
		held := slices.Clone(q.Held)
		if held == nil && q.SliceSize > 0 {
			held = make([]int64, len(tree.Values(q.Slice)))
		}
		placed := int64(0)
		for _, s := range plan.Shares {
			for range s.Members {
				var may []int
				for i := range c.cells {
					in := s.Key == q.Slice && q.SliceSize > 0 && q.Held != nil && s.At < len(held) // a begun slice may lie anywhere
					if left[i] > 0 && c.lies(tree, i, s.Domain) && (in || plan.At < 0 || c.lies(tree, i, plan.Domain)) {
						may = append(may, i)
					}
				}
				if len(may) == 0 {
					t.Fatalf("%s of %v: member %d finds no node", c.words(tree, plan), c, placed)
				}
				i := rapid.SampledFrom(may).Draw(t, "node")
				left[i]--
				if placed++; q.SliceSize > 0 {
					d, found := tree.Find(q.Slice, c.cells[i][q.Slice])
					if !found {
						t.Fatalf("%s: a slice on a node without the slice key", c.words(tree, plan))
					}
					held[d.At]++
				}
			}
		}
		if placed != plan.Fits || placed > q.Members {
			t.Fatalf("%s: %d are placed, of %d", c.words(tree, plan), placed, q.Members)
		}
		if q.SliceSize > 0 {
			c.checkSlices(t, q, held)
		}
	})
}

// checkSlices wants no more slices than members make: at most one that is begun here lacks any.
func (c *cluster) checkSlices(t *rapid.T, q *Question, held []int64) {
	lacking := 0
	for at, n := range held {
		before := int64(0)
		if q.Held != nil {
			before = q.Held[at]
		}
		if n > before && n%q.SliceSize != 0 {
			if before%q.SliceSize == 0 || n/q.SliceSize > before/q.SliceSize {
				lacking++
			}
		}
	}
	if lacking > 1 {
		t.Fatalf("%d slices were begun and not filled: %v, before %v", lacking, held, q.Held)
	}
}

// TestFitsAreThoseOfASearch holds how many members a scope takes, in slices, to a search through all ways.
func TestFitsAreThoseOfASearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, tree, q := drawn(t)
		q.Preferred, q.Held, q.Need = nil, nil, 1
		plan, err := tree.Plan(q)
		if err != nil {
			t.Fatal(err)
		}
		var most int64
		for at := range tree.Values(q.Required) {
			most = max(most, c.search(tree, q, Domain{q.Required, at}))
		}
		// Without a scope that takes any, nobody fits. Else the plan's scope is the search's, or one that scores higher with the quorum.
		got := c.search(tree, q, plan.Domain)
		if plan.At < 0 {
			got = 0
		}
		if plan.Fits != got || most > 0 && got == 0 {
			t.Fatalf("%s of %v with %+v: a search places %d there, and %d at the most", c.words(tree, plan), c, q, got, most)
		}
	})
}

// search is how many members a scope takes.
func (c *cluster) search(tree *Tree, q *Question, scope Domain) int64 {
	if scope.At < 0 {
		return 0
	}
	if q.SliceSize == 0 {
		return min(q.Copies[scope.Key][scope.At], q.Members)
	}
	var room []int64
	if tree.in(scope, q.Slice) != nowhere {
		room = []int64{q.Copies[scope.Key][scope.At]}
	} else {
		for sub, in := range tree.inside[q.Slice][scope.Key] {
			if int(in) == scope.At {
				room = append(room, q.Copies[q.Slice][sub])
			}
		}
	}
	return searchSlices(room, q.Members/q.SliceSize, q.SliceSize, q.Members%q.SliceSize)
}

// searchSlices tries each place for each slice.
func searchSlices(room []int64, whole, size, odd int64) int64 {
	best := int64(0)
	try := func(n int64, whole, odd int64) {
		for i := range room {
			if n > 0 && room[i] >= n {
				room[i] -= n
				best = max(best, n+searchSlices(room, whole, size, odd))
				room[i] += n
				if whole == 0 {
					return
				}
			}
		}
	}
	if whole > 0 {
		try(size, whole-1, odd)
	}
	try(odd, whole, 0)
	return best
}

// TestAPreferenceCostsNobody has the plan with preferences take as many as the best scope.
func TestAPreferenceCostsNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, tree, q := drawn(t)
		q.Required, q.Held = tree.Anywhere(), nil
		with, err := tree.Plan(q)
		if err != nil {
			t.Fatal(err)
		}
		narrow := with
		levels := q.Preferred
		q.Preferred = nil
		without, _ := tree.Plan(q)
		if with.Fits != without.Fits {
			t.Fatalf("%s, without a preference %s", c.words(tree, with), c.words(tree, without))
		}
		// No domain of a narrower level takes them all.
		for _, key := range levels {
			if key == narrow.Key || narrow.Fits < q.Need {
				break
			}
			for at := range tree.Values(key) {
				if c.search(tree, q, Domain{key, at}) >= narrow.Fits {
					t.Fatalf("%s, want %s", c.words(tree, narrow), c.word(tree, Domain{key, at}))
				}
			}
		}
	})
}

// TestFewDomains holds the number of domains that members spread over to the least there is.
func TestFewDomains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{keys: []string{"a"}}
		for i, n := range rapid.SliceOfN(rapid.Int64Range(1, 6), 1, 8).Draw(t, "copies") {
			c.cells, c.copies = append(c.cells, []string{fmt.Sprint("v", i)}), append(c.copies, n)
		}
		tree := c.tree()
		q := &Question{Copies: c.sums(tree), Required: 1, Preferred: []int{0}, Weights: Weights{1, 1}, Fit: func(Domain, int64) int64 { return 0 }}
		q.Members = rapid.Int64Range(1, q.Copies[1][0]).Draw(t, "members")
		q.Need = q.Members
		plan, err := tree.Plan(q)
		if err != nil {
			t.Fatal(err)
		}
		sorted, least, sum := slices.Sorted(slices.Values(c.copies)), 0, int64(0)
		for _, n := range slices.Backward(sorted) {
			if sum < q.Members {
				least, sum = least+1, sum+n
			}
		}
		if len(plan.Shares) != least {
			t.Fatalf("%s of %v, want %d domains", c.words(tree, plan), c.copies, least)
		}
	})
}

// FuzzPlan has any numbers of a cluster neither panic nor overflow, nor place more members than wait.
func FuzzPlan(f *testing.F) {
	f.Add(int64(4), int64(math.MaxInt64), int64(0), int64(3), int64(2), int64(2), int64(5), uint8(0))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(-1), int64(math.MaxInt32), int64(math.MaxInt32), int64(1), int64(math.MaxInt64), uint8(7))
	f.Fuzz(func(t *testing.T, a, b, c, members, need, size, held int64, how uint8) {
		tree := NewTree(2, [][]string{{"x", "1"}, {"x", "2"}, {"y", "3"}, {Absent, "4"}})
		copies := []int64{max(a, 0), max(b, 0), max(c, 0), 1}
		q := &Question{
			Members: min(max(members, 1), math.MaxInt32), Need: min(max(need, 1), math.MaxInt32), Required: int(how & 3 % 3),
			Preferred: []int{1, 0}[:how>>2&1+how>>3&1], Weights: Weights{1, 1}, Fit: func(Domain, int64) int64 { return 100 },
			Copies: [][]int64{{Sum(copies[0], copies[1]), copies[2]}, copies, {Sum(Sum(copies[0], copies[1]), Sum(copies[2], 1))}},
		}
		if how>>4&1 == 1 {
			q.Slice, q.SliceSize, q.Held = int(how>>5&1), min(max(size, 1), math.MaxInt32), nil
			if how>>6 == 1 {
				q.Held = make([]int64, len(tree.Values(q.Slice)))
				q.Held[0] = max(held, 0)
			}
		}
		plan, err := tree.Plan(q)
		var placed int64
		for _, s := range plan.Shares {
			placed += s.Members
		}
		if err != nil || plan.Fits < 0 || plan.Fits > q.Members || plan.Shares != nil && placed != plan.Fits {
			t.Fatalf("%+v of %+v, %v", plan, q, err)
		}
	})
}
