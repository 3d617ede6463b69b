package cache

import (
	"fmt"
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/selector"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// A counter is filled from as few pods as may add to it: those of its namespaces, or those with a label.
func TestACounterIsFilledFromTheFewestPods(t *testing.T) {
	c := New(1)
	for i := range fewPods + 50 {
		name, namespace := fmt.Sprint("p", i), "large"
		if i < 10 {
			namespace = "small"
		}
		on(t, c, build.Pod(name).UID(name).Namespace(namespace).Label("app", "web").Label("name", name).Obj(), "n")
	}
	web, one := selector.Demand{Key: "app", Values: []string{"web"}}, selector.Demand{Key: "name", Values: []string{"p99", "p98"}}
	for i, x := range []struct {
		demands    []selector.Demand
		namespaces []string
		want       bool // by a label
		wantKeys   int
	}{
		{nil, nil, false, 0},
		{[]selector.Demand{web}, []string{"small"}, false, 0},
		{[]selector.Demand{web}, []string{"large"}, true, 1},
		{[]selector.Demand{web}, []string{"small"}, false, 1},
		{[]selector.Demand{web, one}, []string{"small", "nobody's"}, false, 1},
		{[]selector.Demand{web, one}, []string{"large"}, true, 2},
		{[]selector.Demand{web, one}, []string{"small"}, true, 2},
		{[]selector.Demand{one}, nil, true, 2},
	} {
		_, by, err := c.FillCounter(uint32(i+1), x.demands, x.namespaces, math.MaxInt)
		if err != nil || by != x.want || len(c.labelled) != x.wantKeys {
			t.Errorf("counter %d: by a label %t, %d keys, %v; want %t, %d", i+1, by, len(c.labelled), err, x.want, x.wantKeys)
		}
	}
}

// A key that many pods are to be found by is looked up in as many pods at once as there are steps for, and then in
// parts; a pod that comes meanwhile is found, one that goes is not.
func TestPodsAreLookedThroughInParts(t *testing.T) {
	const pods, most = fewPods + 50, 100
	c := New(1)
	for i := range pods {
		name := fmt.Sprint("p", i)
		on(t, c, build.Pod(name).UID(name).Label("app", "web").Obj(), "n")
	}
	demands := []selector.Demand{{Key: "app", Values: []string{"web"}}}
	fill := func(most int) (int, bool) {
		steps, filled, err := c.FillCounter(1, demands, nil, most)
		if err != nil {
			t.Fatal(err)
		}
		return steps, filled
	}
	if steps, filled := fill(most); steps != most || filled || !c.Indexing() {
		t.Errorf("the first time: got %d steps, filled %t, going on %t; want %d", steps, filled, c.Indexing(), most)
	}
	if steps, filled := fill(most); steps != 0 || filled {
		t.Errorf("the second time: got %d steps, filled %t; want none", steps, filled)
	}
	on(t, c, build.Pod("new").UID("new").Label("app", "web").Obj(), "n")
	for _, gone := range []string{"p0", "p7"} {
		if _, _, err := c.RemovePod(types.UID(gone)); err != nil {
			t.Fatal(err)
		}
	}
	turns := 0
	for ; c.Indexing(); turns++ {
		c.Index(most)
	}
	if want := (pods - 1) / most; turns != want {
		t.Errorf("got %d parts, want %d", turns, want)
	}
	if got := len(c.labelled["app"].pods["web"]); got != pods-1 {
		t.Errorf("got %d pods with the label, want %d", got, pods-1)
	}
	if steps, filled := fill(pods); steps != 0 || filled {
		t.Errorf("among all pods: got %d steps, filled %t; want none, they are no fewer", steps, filled)
	}
	on(t, c, build.Pod("other").UID("other").Obj(), "n")
	if steps, filled := fill(pods); steps != pods-1 || !filled {
		t.Errorf("by label: got %d steps, filled %t; want %d", steps, filled, pods-1)
	}
}
