package cache

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/scorer"
)

func TestDeltasSinceAGeneration(t *testing.T) {
	c := New(1)
	c.Deltas(0, 0)
	setNode(t, c, newNode("a"))
	on(t, c, newPod("p", "1").Obj(), "a")
	for _, x := range []struct {
		after uint64
		n     int
		kept  bool
	}{{0, 2, true}, {1, 1, true}, {2, 0, true}, {3, 0, false}, {1 << 63, 0, false}} {
		if got, ok := c.Deltas(0, x.after); len(got) != x.n || ok != x.kept {
			t.Errorf("deltas after %d: got %d, %t; want %d, %t", x.after, len(got), ok, x.n, x.kept)
		}
	}
}

// The log is cut in halves, and what was given out before stays as it was.
func TestTheLogIsTrimmed(t *testing.T) {
	c := New(1)
	given, _ := c.Deltas(0, 0)
	setNode(t, c, newNode("a"))
	p := newPod("p", "1").Obj()
	u := compile.Usage(p)
	follower := scorer.NewTable(0)
	generation := func() uint64 { return c.Table(0).Generation() }
	for decision := uint64(1); generation() < 5*keptDeltas; decision++ {
		if err := c.Assume(p, "a", u, decision); err != nil {
			t.Fatal(err)
		}
		if decision%1000 == 0 {
			for _, d := range given {
				if err := follower.Apply(d); err != nil {
					t.Fatalf("a follower that reads late: %v", err)
				}
			}
			given, _ = c.Deltas(0, follower.Generation())
		}
		if _, err := c.Forget(p.UID); err != nil {
			t.Fatal(err)
		}
		if n := len(c.shards[0].log); n >= 2*keptDeltas {
			t.Fatalf("generation %d: got %d deltas kept, want fewer than %d", generation(), n, 2*keptDeltas)
		}
	}
	for _, x := range []struct {
		after uint64
		kept  bool
	}{{0, false}, {c.shards[0].first - 1, false}, {c.shards[0].first, true}, {generation() - keptDeltas, true}, {generation(), true}} {
		got, ok := c.Deltas(0, x.after)
		if ok != x.kept || ok && len(got) != int(generation()-x.after) {
			t.Errorf("deltas after %d of %d: got %d, %t; want %t", x.after, generation(), len(got), ok, x.kept)
		}
	}
	rest, ok := c.Deltas(0, follower.Generation())
	if !ok {
		t.Fatalf("deltas after %d of %d are gone", follower.Generation(), generation())
	}
	for _, d := range rest {
		if err := follower.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := snapshot(follower), snapshot(c.Table(0)); !slices.Equal(got, want) {
		t.Errorf("the follower's table: got %v, want %v", got, want)
	}
}

// A log is as long as is worth it: longer for a large shard, shorter for one of many, and of nodes,
// which are large, it keeps fewer.
func TestTheLogIsAsLongAsItIsWorth(t *testing.T) {
	last := func(c *Cache, n uint64) bool {
		_, kept := c.Deltas(0, c.Table(0).Generation()-n)
		return kept
	}
	for _, x := range []struct {
		shards, nodes int
		least         uint64 // how many deltas of pods are kept
	}{{1, 100, keptDeltas}, {1, 4 * keptDeltas, 4 * keptDeltas / usefulRows}, {32, 64, allKept / 32}, {64, 64, leastKept}} {
		c := New(x.shards)
		c.Deltas(0, 0)
		for i := range x.nodes {
			c.Deltas(0, 0)
			setNode(t, c, newNode(fmt.Sprint("n", i)))
		}
		if n := uint64(2 * x.least); c.Table(0).Generation() > n && last(c, n/nodeWeight) {
			t.Errorf("%+v: got %d deltas of nodes kept, want fewer", x, n/nodeWeight)
		}
		name := c.Table(0).Name(0)
		p := newPod("p", "1").Obj()
		for decision := range 2 * x.least {
			c.Deltas(0, 0)
			assume(t, c, p, name, decision+1)
			if _, err := c.Forget(p.UID); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(c.shards[0].log); !last(c, x.least) || got >= int(2*x.least) {
			t.Errorf("%+v: got %d deltas kept, want %d or more and fewer than twice that", x, got, x.least)
		}
	}
}

// What nobody reads is not kept: a process without workers has no use for it.
func TestALogThatNobodyReadsIsNotKept(t *testing.T) {
	c := New(1)
	setNode(t, c, newNode("a"))
	p := newPod("p", "1").Obj()
	change := func() {
		t.Helper()
		assume(t, c, p, "a", c.Table(0).Generation())
		if _, err := c.Forget(p.UID); err != nil {
			t.Fatal(err)
		}
	}
	for range keptDeltas {
		change()
	}
	if n := len(c.shards[0].log); n > 0 {
		t.Errorf("%d deltas are kept that nobody has asked for", n)
	}
	begin := c.Table(0).Generation()
	if _, kept := c.Deltas(0, begin-1); kept {
		t.Error("what was not kept is there")
	}
	for range keptDeltas / 2 {
		change()
	}
	if list, kept := c.Deltas(0, begin); !kept || len(list) != keptDeltas {
		t.Errorf("got %d deltas, %t, since one has asked; want %d", len(list), kept, keptDeltas)
	}
	for range keptDeltas {
		change()
	}
	if n := len(c.shards[0].log); n > 0 {
		t.Errorf("%d deltas are kept for one who is further behind", n)
	}
}

func BenchmarkAssumeForget(b *testing.B) {
	c := New(1)
	if _, err := c.SetNode(newNode("a")); err != nil {
		b.Fatal(err)
	}
	p := newPod("p", "1").Obj()
	u := compile.Usage(p)
	b.ReportAllocs()
	for decision := uint64(1); b.Loop(); decision++ {
		if err := c.Assume(p, "a", u, decision); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Forget(p.UID); err != nil {
			b.Fatal(err)
		}
	}
}
