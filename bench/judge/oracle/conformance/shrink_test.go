package conformance

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// What is left is what the difference needs.
func TestShrink(t *testing.T) {
	s := &Scenario{Config: newConfiguration()}
	s.Rounds = []Round{
		{set(build.Node("a").CPU("4").Label("zone", "x").Label("disk", "ssd").Obj()), set(build.Node("b").CPU("4").Obj())},
		{set(build.Pod("p").CPU("1").Obj()), {Type: Settled}, {Type: Removed, Object: build.Node("b").Obj()}},
	}
	tries := 0
	small, d := shrink(s, func(s *Scenario) *Difference {
		if tries++; tries > 10_000 {
			t.Fatal("there is no end to it")
		}
		node, pod := false, false
		for _, r := range s.Rounds {
			for _, e := range r {
				switch obj := e.Object.(type) {
				case *v1.Node:
					node = node || e.Type == Set && obj.Labels["zone"] == "x"
				case *v1.Pod:
					pod = true
				}
			}
		}
		if !node || !pod {
			return nil
		}
		return &Difference{What: "score"}
	})
	if d == nil || d.What != "score" {
		t.Fatalf("got %v, want the difference", d)
	}
	text, err := Format(small, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "rounds:\n- - object:\n      apiVersion: v1\n      kind: Node\n      metadata:\n        labels:\n          zone: x\n        name: a\n        uid: node-a\n"
	if got := string(text); !slices.Equal([]int{len(small.Rounds[0]), len(small.Rounds[1])}, []int{1, 1}) || !strings.Contains(got, want) {
		t.Errorf("got\n%swant within\n%s", got, want)
	}
	if _, d := shrink(s, func(*Scenario) *Difference { return nil }); d != nil {
		t.Errorf("got %v of a scenario that shows nothing", d)
	}
}

// A scenario that is written down and read is the same.
func TestFormat(t *testing.T) {
	for seed := range uint64(12) {
		s := Random(seed, 8, AllFamilies())
		s.Split = SplitOf(seed)
		first, err := Format(s, &Difference{What: "score", Got: "1", Want: "2"})
		if err != nil {
			t.Fatal(err)
		}
		read, err := Read(first)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		second, err := Format(read, &Difference{What: "score", Got: "1", Want: "2"})
		if err != nil {
			t.Fatal(err)
		}
		if string(first) != string(second) {
			t.Errorf("seed %d: got\n%swant\n%s", seed, second, first)
		}
	}
}

func TestParseFamilies(t *testing.T) {
	for text, want := range map[string][]Family{
		"": nil, "none": nil, "spread, gates": {Spread, Gates}, "evaluated": Evaluated(), "all": AllFamilies(),
		"all,-volumes": slices.DeleteFunc(AllFamilies(), func(f Family) bool { return f == Volumes }),
	} {
		got, err := ParseFamilies(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v (%v), want %v", text, got, err, want)
		}
	}
	if _, err := ParseFamilies("spread,nothing"); err == nil {
		t.Error("a family that there isn't is taken")
	}
}
