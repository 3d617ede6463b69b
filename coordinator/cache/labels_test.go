package cache

import (
	"fmt"
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/count"
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
	if steps, filled := fill(pods); steps != 0 || filled {
		t.Errorf("among all pods: got %d steps, filled %t; want none, they are no fewer", steps, filled)
	}
	on(t, c, build.Pod("other").UID("other").Obj(), "n")
	if steps, filled := fill(pods); steps != pods-1 || !filled {
		t.Errorf("by label: got %d steps, filled %t; want %d", steps, filled, pods-1)
	}
}

// Pods that look alike are found together, in as many steps as there are kinds of them; one that is labelled anew, in place even, is
// found by its new label alone.
func TestPodsAreFoundByKind(t *testing.T) {
	const pods = fewPods + 50
	c, r := New(1), count.New()
	c.UseCounters(r)
	if _, err := c.SetNode(newNode("n")); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "web"}
	put := func(name string, labels map[string]string) *v1.Pod {
		p := build.Pod(name).UID(name).Node("n").Obj()
		p.Labels = labels
		if _, err := c.SetPod(p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for i := range pods {
		put(fmt.Sprint("p", i), labels)
	}
	alone := put("alone", map[string]string{"app": "web"})
	fill := func(app string) (steps int, counted int64) {
		id := r.Pods(count.Namespaces{All: true}, selector.Equal(map[string]string{"app": app}))
		steps, filled, err := c.FillCounter(id, []selector.Demand{{Key: "app", Values: []string{app}}}, nil, math.MaxInt)
		if err != nil || !filled {
			t.Fatalf("%s: filled %t, %v", app, filled, err)
		}
		return steps, c.Table(0).Counter(id, 0)
	}
	put("other", nil)
	put("another", nil)
	if steps, counted := fill("web"); steps != 3+pods+1 || counted != pods+1 {
		t.Errorf("got %d steps and %d pods, want the 3 kinds and %d pods", steps, counted, pods+1)
	}
	alone.Labels["app"] = "shop"
	if _, err := c.SetPod(alone); err != nil {
		t.Fatal(err)
	}
	put("p7", map[string]string{"app": "shop"})
	if steps, counted := fill("shop"); steps != 2 || counted != 2 {
		t.Errorf("got %d steps and %d pods, want 2", steps, counted)
	}
	if n := c.labelled["app"].count([]string{"web"}); n != pods-1 {
		t.Errorf("%d pods are said to be found by the old label, want %d", n, pods-1)
	}
}
