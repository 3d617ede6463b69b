package compile

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// valued is a cluster model of nodes that have some label keys, each of so many values.
func valued(t testing.TB, nodes, keys, values int) *clusterModel {
	t.Helper()
	w := newClusterModel()
	for i := range nodes {
		n := build.Node(fmt.Sprint("n", i)).CPU("8")
		for k := range keys {
			n.Label(fmt.Sprint("key-", k), fmt.Sprint(i%values))
		}
		if err := w.setNode(n.Obj()); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// Terms are pinned where the labels that they bring are too many, or make too many groups; never the
// labels that the pod itself names, unless these are too many.
func TestTermsArePinnedWhereTheyWouldGroupRowsOneByOne(t *testing.T) {
	plain := func() *v1.Pod { return build.Pod("p").UID("p").CPU("1").Obj() }
	for name, x := range map[string]struct {
		nodes, values   int
		carried, own    []string
		domains, pinned int
	}{
		"as many labels as group":               {nodes: 4, values: 2, carried: numbered(0, maxGrouped), domains: maxGrouped},
		"one more":                              {nodes: 4, values: 2, carried: numbered(0, maxGrouped+1), pinned: maxGrouped + 1},
		"many labels, of which nodes have few":  {nodes: 4, values: 2, carried: numbered(98, 50), domains: 2},
		"as many groups as there may be":        {nodes: 100, values: 32, carried: numbered(0, 2), domains: 2},
		"more groups":                           {nodes: 100, values: 33, carried: numbered(0, 2), pinned: 2},
		"labels that no two nodes share":        {nodes: 50, values: 50, carried: numbered(0, maxGrouped)},
		"one more of them":                      {nodes: 50, values: 50, carried: numbered(0, maxGrouped+1), pinned: maxGrouped + 1},
		"labels that the pod names itself":      {nodes: 100, values: 33, carried: numbered(0, 2), own: numbered(0, 2), domains: 2},
		"one of them":                           {nodes: 100, values: 33, carried: numbered(0, 3), own: numbered(0, 1), domains: 1, pinned: 2},
		"as many labels of the pod's as group":  {nodes: 4, values: 2, own: numbered(0, maxGrouped), domains: maxGrouped},
		"one label of the pod's more than that": {nodes: 4, values: 2, own: numbered(0, maxGrouped+1), pinned: maxGrouped + 1},
		"the pod's and others'":                 {nodes: 4, values: 2, carried: numbered(0, 5), own: numbered(4, 5), pinned: 4, domains: 5},
	} {
		w, c := valued(t, x.nodes, 100, x.values), New()
		if len(x.carried) > 0 {
			w.counters.Carry(nearAll(x.carried...))
		}
		p := plain()
		if len(x.own) > 0 {
			p = nearAll(x.own...)
		}
		class, err := c.Class(p, DefaultProfile("x"), w)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		pinned := 0
		for _, v := range class.Query.RowValues {
			pinned += len(v.Pinned)
		}
		if got := len(class.Query.DomainKeys); got != x.domains || pinned != x.pinned {
			t.Errorf("%s: got %d domain keys and %d pinned terms, want %d and %d", name, got, pinned, x.domains, x.pinned)
		}
		if err := class.Query.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// However many labels the terms of others name, the pod is scheduled.
func TestTermsOfMoreLabelsThanRowsCouldBeGroupedBy(t *testing.T) {
	w, c := valued(t, 4, 300, 2), New()
	for from := 0; from < 300; from += OwnKeys {
		w.counters.Carry(nearAll(numbered(from, OwnKeys)...))
	}
	class, err := c.Class(build.Pod("p").UID("p").CPU("1").Obj(), DefaultProfile("x"), w)
	if err != nil {
		t.Fatal(err)
	}
	if q := class.Query; len(q.DomainKeys) != 0 || len(q.RowValues) != 1 || len(q.RowValues[0].Pinned) != 300 {
		t.Errorf("got %d domain keys and row values %v, want one with 300 pinned terms", len(q.DomainKeys), q.RowValues)
	}
}

// A class in use is compiled anew once the values of a label of others have become too many, and before that only
// where they have doubled.
func TestAClassIsPinnedOnceTheClusterHasGrown(t *testing.T) {
	w, c, prof := valued(t, 100, 1, 32), New(), DefaultProfile("x")
	w.counters.Carry(nearAll("key-0", "key-1"))
	grow := func(values int) *Class {
		for i := range 100 {
			if err := w.setNode(build.Node(fmt.Sprint("n", i)).Label("key-0", fmt.Sprint(i%values)).Label("key-1", fmt.Sprint(i%32)).Obj()); err != nil {
				t.Fatal(err)
			}
		}
		return classIn(t, c, build.Pod("p").UID("p").Obj(), prof, w)
	}
	few := grow(17)
	if got := grow(32); got != few || len(got.Query.DomainKeys) != 2 {
		t.Errorf("with 32 values: got %v, want the class as with 17", got.Query)
	}
	if got := grow(33).Query; len(got.DomainKeys) != 0 {
		t.Errorf("with 33 values: got domain keys %q, want their terms pinned", got.DomainKeys)
	}
}
