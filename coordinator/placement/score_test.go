package placement

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestGoldenBest has what upstream's plugins choose: a rack of 4 slots with 3 free, and one with 4 free.
func TestGoldenBest(t *testing.T) {
	racks := func(members int64) []Candidate {
		var of []Candidate
		for value, free := range map[string]int64{"three": 3, "four": 4} {
			placed := min(members, free)
			of = append(of, Candidate{
				Value: value, Members: placed, Left: free - placed,
				Fit: MostAllocated([]Resource{{Weight: 1, Allocatable: 4, Requested: 4 - free + placed}}),
			})
		}
		return of
	}
	for _, c := range []struct {
		what    string
		members int64
		want    string
	}{
		{"three members: both take all, the fuller rack wins", 3, "three"},
		{"four members: both are full then, one takes more members", 4, "four"},
	} {
		of := racks(c.members)
		at, err := Best(of, Weights{PodsCount: 1, Fit: 1})
		if err != nil || of[at].Value != c.want {
			t.Errorf("%s: got %v, %v, want %s", c.what, of[at], err, c.want)
		}
	}
}

func TestScores(t *testing.T) {
	members := []int64{3, 4, 0}
	if err := PodsCount(members); err != nil || members[0] != 75 || members[1] != 100 || members[2] != 0 {
		t.Errorf("PodsCount of 3, 4 and 0 members = %v, %v, want 75, 100 and 0", members, err)
	}
	for _, c := range []struct {
		what string
		of   []Resource
		want int64
	}{
		{"nothing is scored", nil, 0},
		{"a resource that no node has is left out", []Resource{{1, 0, 5}, {1, 10, 5}}, 50},
		{"more requested than there is counts as all", []Resource{{1, 10, 11}}, 100},
		{"the mean is weighted, and cut", []Resource{{3, 100, 50}, {1, 100, 1}}, 37},
		{"sums at the end of int64 do not overflow", []Resource{{1, math.MaxInt64, math.MaxInt64 / 2}, {1, math.MaxInt64, math.MaxInt64}}, 74},
	} {
		if got := MostAllocated(c.of); got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, got, c.want)
		}
	}
}

func TestBestsErrors(t *testing.T) {
	for _, c := range []struct {
		what string
		of   []Candidate
		want string
	}{
		{"nobody is placed", make([]Candidate, 2), "running NormalizePlacementScore on PlacementScore plugins: plugin \"PodGroupPodsCount\" failed with: " +
			"no pods from pod group are assigned to any of the candidate placements"},
		{"a score out of range", []Candidate{{Members: 1, Fit: 101}, {Members: 1}}, "applying score defaultWeights on PlacementScore plugins: " +
			"plugin \"NodeResourcesFit\" returns an invalid score 101, it should in the range of [0, 100] after normalizing"},
	} {
		if _, err := Best(c.of, Weights{1, 1}); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.what, err, c.want)
		}
	}
	if at, err := Best(make([]Candidate, 1), Weights{1, 1}); at != 0 || err != nil {
		t.Errorf("a single candidate: got %d, %v, want it without a score", at, err)
	}
}

// TestTies has candidates in any order give the same one.
func TestTies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfNDistinct(rapid.StringMatching("[a-z]{1,3}"), 2, 6, rapid.ID[string]).Draw(t, "values")
		of := make([]Candidate, len(values))
		for i, v := range values {
			of[i] = Candidate{Value: v, Members: 1, Fit: 50, Left: rapid.Int64Range(0, 2).Draw(t, "left")}
		}
		a, _ := Best(of, Weights{1, 1})
		first := of[a]
		other := rapid.Permutation(of).Draw(t, "order")
		b, _ := Best(other, Weights{1, 1})
		if other[b] != first {
			t.Fatalf("of %v: %v, in another order %v", of, first, other[b])
		}
		for _, c := range of {
			if c.Left < first.Left {
				t.Fatalf("%v was chosen, %v has less room left", first, c)
			}
		}
	})
}

// FuzzMostAllocated holds the score to big integers, and to its range.
func FuzzMostAllocated(f *testing.F) {
	f.Add(int64(1), int64(10), int64(5), int64(1), int64(10), int64(20))
	f.Add(int64(100), int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(1), int64(-1))
	f.Fuzz(func(t *testing.T, w1, a1, r1, w2, a2, r2 int64) {
		of := []Resource{{1 + w1&63, a1, r1}, {1 + w2&63, a2, r2}}
		got := MostAllocated(of)
		scores, weights := new(big.Int), int64(0)
		for _, r := range of {
			if r.Allocatable > 0 {
				x := big.NewInt(min(max(r.Requested, 0), r.Allocatable))
				x.Mul(x, big.NewInt(100)).Quo(x, big.NewInt(r.Allocatable))
				scores.Add(scores, x.Mul(x, big.NewInt(r.Weight)))
				weights += r.Weight
			}
		}
		want := int64(0)
		if weights > 0 {
			want = scores.Quo(scores, big.NewInt(weights)).Int64()
		}
		if got != want || got < 0 || got > 100 {
			t.Fatalf("MostAllocated(%v) = %d, want %d", of, got, want)
		}
	})
}

func TestPin(t *testing.T) {
	for _, c := range []struct {
		what, want, err string
		of              []Member
	}{
		{"all in one domain", "r1", "", []Member{{Pod: "a/x", Value: "r1", Labelled: true}, {Pod: "a/y", Value: "r1", Labelled: true}}},
		{"two domains", "", "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: r1, r2",
			[]Member{{Pod: "a/x", Value: "r1", Labelled: true}, {Pod: "a/y", Value: "r2", Labelled: true}}},
		{"the empty value is a domain", "", "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: , r2",
			[]Member{{Pod: "a/x", Labelled: true}, {Pod: "a/y", Value: "r2", Labelled: true}}},
		{"a node that lost its label", "", "cannot determine domain for already scheduled pods: no topology domain found for pod a/y",
			[]Member{{Pod: "a/x", Value: "r1", Labelled: true}, {Pod: "a/y"}}},
		{"a node that is not known", "", "cannot determine domain for already scheduled pods: getting node for pod a/x: " +
			"nodeinfo not found for node name \"n1\"", []Member{{Pod: "a/x", Node: "n1"}}},
	} {
		got, err := Pin(c.of)
		if text := errorText(err); got != c.want || text != c.err {
			t.Errorf("%s: got %q, %q, want %q, %q", c.what, got, text, c.want, c.err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestWords(t *testing.T) {
	const want = "0/2 placements are available, first placement status: pod group is unschedulable"
	if got := NoneAvailable(2, "pod group is unschedulable"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
