package compile

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// wordy is a pod that lists so many values of 50 bytes, which no other pod has.
func wordy(i, values int) *v1.Pod {
	list := make([]string, values)
	for k := range list {
		list[k] = fmt.Sprintf("%s-%05d-%05d", strings.Repeat("x", 38), i, k)
	}
	return build.Pod(fmt.Sprint("p", i)).CPU("1").Required(build.Labels(build.Match("zone", v1.NodeSelectorOpNotIn, list...))).Obj()
}

// What is kept of plans and classes is bounded in bytes; a pod whose plan made room has the same query.
func TestPlansAndClassesAreBoundedInBytes(t *testing.T) {
	const pods, values = 2000, 200
	c, prof := New(), DefaultProfile("x")
	for i := range pods {
		mustClass(t, c, wordy(i, values), prof, still{})
		if c.plans.Bytes() > planBudget || c.classes.Bytes() > classBudget {
			t.Fatalf("after %d pods: got plans of %d bytes and classes of %d, want at most %d and %d", i+1, c.plans.Bytes(), c.classes.Bytes(), planBudget, classBudget)
		}
	}
	if plans, classes := c.plans.Len(), c.classes.Len(); plans == 0 || plans >= pods || classes == 0 || classes > pods {
		t.Errorf("got %d plans and %d classes of %d pods, want some to have made room", plans, classes, pods)
	}
	for _, i := range []int{0, pods - 1} {
		if got, want := mustClass(t, c, wordy(i, values), prof, still{}), mustClass(t, New(), wordy(i, values), prof, still{}); definition(got) != definition(want) {
			t.Errorf("pod %d again: got %v, want %v", i, got.Query, want.Query)
		}
	}
}

// A pod of a long signature is compiled each time; what it led to is not kept.
func TestLongPodsAreNotKept(t *testing.T) {
	c, prof := New(), DefaultProfile("x")
	var got [2]*Class
	for i := range got {
		got[i] = mustClass(t, c, wordy(0, maxKeptText/50), prof, still{})
	}
	if c.Kept() {
		t.Errorf("got %d plans and %d classes, want none", c.plans.Len(), c.classes.Len())
	}
	if got[0].ID() != got[1].ID() || definition(got[0]) != definition(got[1]) {
		t.Errorf("two attempts of one pod: got the classes %d and %d, want the same", got[0].ID(), got[1].ID())
	}
}

// What no pod asks for is dropped after a while, and what one asks for stays.
func TestPlansAndClassesAreKeptWhileTheyAreUsed(t *testing.T) {
	const gone = 3 * agedAtOnce
	c, prof := New(), DefaultProfile("x")
	for i := range gone {
		mustClass(t, c, wordy(i, 1), prof, still{})
	}
	used := mustClass(t, c, wordy(gone, 1), prof, still{})
	for range keptPeriods + 10 {
		if got := mustClass(t, c, wordy(gone, 1), prof, still{}); got != used {
			t.Fatal("the class of a pod that is tried again and again is another")
		}
		before := c.plans.Len()
		if c.Age(); before-c.plans.Len() > agedAtOnce {
			t.Fatalf("got %d plans dropped at once, want %d at most", before-c.plans.Len(), agedAtOnce)
		}
	}
	if c.plans.Len() != 1 || c.classes.Len() != 1 {
		t.Errorf("got %d plans and %d classes, want those of the one pod", c.plans.Len(), c.classes.Len())
	}
	for range keptPeriods + 2 {
		c.Age()
	}
	if c.Kept() {
		t.Errorf("got %d plans and %d classes once nobody asks, want none", c.plans.Len(), c.classes.Len())
	}
}

// A class that made room is not held by its plan either.
func TestAPlanDoesNotHoldAClassThatMadeRoom(t *testing.T) {
	c, prof := New(), DefaultProfile("x")
	mustClass(t, c, wordy(0, 10), prof, still{})
	sign := c.signature.pod(wordy(0, 10), prof).bytes
	e, ok := c.plans.Peek(planKey{c.hash(sign), prof})
	if !ok || e.recent == nil {
		t.Fatal("got no plan with its class")
	}
	c.classes.Remove(classKey{e, c.hash(e.recent.setting)})
	if e.recent != nil {
		t.Error("got the plan to hold the class that is kept no longer")
	}
}

// listing is a pod that asks for so many resources, under a label to match of its own.
func listing(i, resources int) *v1.Pod {
	b := build.Pod("p").NodeSelector("number", fmt.Sprint(i)).CPU("1")
	for k := range resources {
		b.Request(fmt.Sprintf("example.com/%05d", k), "1")
	}
	return b.Obj()
}

// No class is held for the sake of its variants beyond what is kept of classes, nor one of a long pod.
func TestAnOutlineHoldsNoClassThatIsNotKept(t *testing.T) {
	c, prof := New(), DefaultProfile("x")
	outlineOf := func(p *v1.Pod) *keptOutline {
		sign := c.signature.pod(p, prof)
		k, ok := c.outlines.Peek(planKey{c.hash(sign.bytes[:sign.outline]), prof})
		if !ok {
			t.Fatal("got no outline")
		}
		return k
	}
	mustClass(t, c, listing(0, 1), prof, still{})
	s := outlineOf(listing(0, 1))
	if s.original == nil {
		t.Fatal("got no class that others may be variants of")
	}
	sign := c.signature.pod(listing(0, 1), prof).bytes
	e, _ := c.plans.Peek(planKey{c.hash(sign), prof})
	c.classes.Remove(classKey{e, c.hash(s.original.setting)})
	if s.original != nil {
		t.Error("got the outline to hold a class that is kept no longer")
	}
	for i, resources := range []int{maxOriginalScalars + 1, maxKeptText / 10} {
		mustClass(t, c, listing(i+1, resources), prof, still{})
		if k := outlineOf(listing(i+1, 1)); k.original != nil {
			t.Errorf("got the outline to hold a class of %d resources", resources)
		}
	}
}

// Sizes that list many resources take as much as they would without being variants.
func TestVariantsAreBoundedInBytes(t *testing.T) {
	c, prof := New(), DefaultProfile("x")
	mustClass(t, c, listing(0, 1), prof, still{})
	const many = 2000
	got, want := mustClass(t, c, listing(0, many), prof, still{}), mustClass(t, New(), listing(0, many), prof, still{})
	if got.Scorer.Original() == nil || got.bytes() < want.bytes() {
		t.Errorf("a variant of %d resources, like %v: got %d bytes, want %d or more", many, got.Scorer.Original(), got.bytes(), want.bytes())
	}
}
