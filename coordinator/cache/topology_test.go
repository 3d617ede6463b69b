package cache

import (
	"fmt"
	"testing"

	"github.com/shardsched/shardsched/coordinator/build"
)

func TestTopologyKeysAreBoundedAndStayRight(t *testing.T) {
	c := New(1)
	set := func(node, zone string) {
		t.Helper()
		if _, err := c.SetNode(build.Node(node).Label("zone", zone).Obj()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, distinct, nodes int) {
		t.Helper()
		if d, n := c.Topology("zone"); d != distinct || n != nodes {
			t.Errorf("%s: zones and nodes in them: got %d and %d, want %d and %d", when, d, n, distinct, nodes)
		}
	}
	set("a", "x")
	set("b", "x")
	want("at first", 1, 2)
	for i := range 3 * followedTopologies {
		c.Topology(fmt.Sprint("key-", i))
	}
	if n := len(c.topologies); n > followedTopologies {
		t.Errorf("keys that are followed: got %d, want %d at most", n, followedTopologies)
	}
	set("b", "y")
	want("after many others", 2, 2)
	set("a", "y")
	want("followed again", 1, 2)
}
