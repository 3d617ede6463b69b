package cache

import (
	"fmt"
	"math"
	"testing"

	"github.com/shardsched/shardsched/coordinator/build"
	"github.com/shardsched/shardsched/coordinator/selector"
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
