package cache

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// zoned makes a cache of nodes that share few zones, each with a hostname of its own.
func zoned(t testing.TB, nodes int) *Cache {
	t.Helper()
	c := New(1)
	for i := range nodes {
		name := fmt.Sprint("n", i)
		if _, err := c.SetNode(build.Node(name).Label("zone", fmt.Sprint("z", i%3)).Label(v1.LabelHostname, name).Obj()); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestKeysThatNoNodeHasLeaveNothing asks for thousands of them: nothing is kept of any, and nothing is
// allocated.
func TestKeysThatNoNodeHasLeaveNothing(t *testing.T) {
	c := zoned(t, 100)
	keys := make([]string, 10000)
	for i := range keys {
		keys[i] = fmt.Sprint("key-", i)
	}
	i := 0
	allocated := testing.AllocsPerRun(len(keys)-1, func() {
		if got := c.Topology(keys[i]); got != compile.Absent {
			t.Errorf("%s: got topology %d, want none", keys[i], got)
		}
		i++
	})
	if allocated != 0 || len(c.topologies.byKey) != 2 {
		t.Errorf("got %v allocations for a key and %d keys that are known, want 0 and 2", allocated, len(c.topologies.byKey))
	}
}

func TestValuesOfAKeyAreCountedOnceSomebodyAsks(t *testing.T) {
	c := zoned(t, 10*fewValues)
	counted := func(key string) int { return len(c.topologies.byKey[key].values) }
	if z, h := counted("zone"), counted(v1.LabelHostname); z != 3 || h != 0 {
		t.Errorf("values that are counted at first: got %d zones and %d names, want 3 and 0", z, h)
	}
	if got := c.Topology(v1.LabelHostname); got != compile.Unique || counted(v1.LabelHostname) != 10*fewValues {
		t.Errorf("names: got topology %d of %d values, want %d of %d", got, counted(v1.LabelHostname), compile.Unique, 10*fewValues)
	}
	version := c.TopologyVersion()
	if _, err := c.SetNode(build.Node("n0").Label("zone", "z2").Label(v1.LabelHostname, "n1").Obj()); err != nil {
		t.Fatal(err)
	}
	if got := c.Topology(v1.LabelHostname); got != compile.Shared || c.TopologyVersion() == version {
		t.Errorf("two nodes of one name: got topology %d at version %d, want %d after %d", got, c.TopologyVersion(), compile.Shared, version)
	}
}

func TestAKeyAppearsWithItsFirstNode(t *testing.T) {
	c := zoned(t, 2)
	if got := c.TakeTopologies(); len(got) != 2 {
		t.Errorf("keys of the first nodes: got %v, want two", got)
	}
	set := func(labels ...string) {
		t.Helper()
		b := build.Node("n0")
		for _, key := range labels {
			b.Label(key, "x")
		}
		if _, err := c.SetNode(b.Obj()); err != nil {
			t.Fatal(err)
		}
	}
	set("rack")
	set("rack", "row")
	set()
	set("row")
	if got, want := c.TakeTopologies(), []string{"rack", "row", "row"}; !slices.Equal(got, want) {
		t.Errorf("keys that have appeared: got %v, want %v", got, want)
	}
}
