package cache

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

func TestSpreadOfImages(t *testing.T) {
	a := func(size int64, names ...string) *v1.Node { return build.Node("a").Image(size, names...).Obj() }
	b := func(size int64, names ...string) *v1.Node { return build.Node("b").Image(size, names...).Obj() }
	for name, x := range map[string]struct {
		do        func(*testing.T, *Cache)
		wantSize  int64
		wantNodes int
	}{
		"one node": {func(t *testing.T, c *Cache) {
			setNode(t, c, a(10, "x"))
		}, 10, 1},
		"the first node's size counts": {func(t *testing.T, c *Cache) {
			setNode(t, c, a(10, "x"))
			setNode(t, c, b(20, "x"))
		}, 10, 2},
		"the size stays when the node that gave it goes": {func(t *testing.T, c *Cache) {
			setNode(t, c, a(10, "x"))
			setNode(t, c, b(20, "x"))
			removeNode(t, c, "a")
		}, 10, 1},
		"and goes when the last one does": {func(t *testing.T, c *Cache) {
			setNode(t, c, a(10, "x"))
			removeNode(t, c, "a")
			setNode(t, c, b(20, "x"))
		}, 20, 1},
		"a node alone may change the size": {func(t *testing.T, c *Cache) {
			setNode(t, c, a(10, "x"))
			setNode(t, c, a(30, "x"))
		}, 30, 1},
		"one of two may not": {func(t *testing.T, c *Cache) {
			setNode(t, c, a(10, "x"))
			setNode(t, c, b(20, "x"))
			setNode(t, c, a(30, "x"))
		}, 10, 2},
		"a node that lists a name twice counts once, with the first size": {func(t *testing.T, c *Cache) {
			setNode(t, c, build.Node("a").Image(10, "y", "x", "x").Image(20, "x").Obj())
		}, 10, 1},
		"a node that drops the image": {func(t *testing.T, c *Cache) {
			setNode(t, c, a(10, "x"))
			setNode(t, c, b(20, "x"))
			setNode(t, c, b(20, "y"))
		}, 10, 1},
		"nobody has it any more": {func(t *testing.T, c *Cache) {
			setNode(t, c, a(10, "x"))
			setNode(t, c, a(10, "y"))
		}, 0, 0},
		"a change that rows do not show": {func(t *testing.T, c *Cache) {
			setNode(t, c, a(10, "x"))
			setNode(t, c, a(11, "x"))
			setNode(t, c, b(12, "x"))
		}, 11, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(2)
			x.do(t, c)
			size, nodes, ok := c.Spread("x")
			if size != x.wantSize || nodes != x.wantNodes || ok != (x.wantNodes > 0) {
				t.Errorf("got %d bytes on %d nodes, %t; want %d on %d", size, nodes, ok, x.wantSize, x.wantNodes)
			}
			if got := c.TotalNodes(); got != c.Nodes() {
				t.Errorf("total: got %d, want %d", got, c.Nodes())
			}
		})
	}
}
