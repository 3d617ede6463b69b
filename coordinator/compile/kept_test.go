package compile

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/build"
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
	const pods = 600
	c, prof := New(), DefaultProfile("x")
	for i := range pods {
		mustClass(t, c, wordy(i, 1000), prof, still{})
		if c.plans.Bytes() > planBudget || c.classes.Bytes() > classBudget {
			t.Fatalf("after %d pods: got plans of %d bytes and classes of %d, want at most %d and %d", i+1, c.plans.Bytes(), c.classes.Bytes(), planBudget, classBudget)
		}
	}
	if plans, classes := c.plans.Len(), c.classes.Len(); plans == 0 || plans >= pods || classes == 0 || classes > pods {
		t.Errorf("got %d plans and %d classes of %d pods, want some to have made room", plans, classes, pods)
	}
	for _, i := range []int{0, pods - 1} {
		if got, want := mustClass(t, c, wordy(i, 1000), prof, still{}), mustClass(t, New(), wordy(i, 1000), prof, still{}); definition(got) != definition(want) {
			t.Errorf("pod %d again: got %v, want %v", i, got.Query, want.Query)
		}
	}
}

// A class that made room is not held by its plan either.
func TestAPlanDoesNotHoldAClassThatMadeRoom(t *testing.T) {
	c, prof := New(), DefaultProfile("x")
	mustClass(t, c, wordy(0, 10), prof, still{})
	sign, _ := c.signature.pod(wordy(0, 10), prof)
	e, ok := c.plans.Peek(planKey{c.hash(sign), prof})
	if !ok || e.recent == nil {
		t.Fatal("got no plan with its class")
	}
	c.classes.Remove(classKey{e, c.hash(e.recent.setting)})
	if e.recent != nil {
		t.Error("got the plan to hold the class that is kept no longer")
	}
}
