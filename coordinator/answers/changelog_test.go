package answers

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Once a node has come or gone no answer is repaired before the next batch: what the node's pods change is not logged,
// each change held against all before it. While a batch is decided everything is.
func TestChangesAreLoggedForAnswersAlone(t *testing.T) {
	for _, deciding := range []bool{false, true} {
		log := &ChangeLog{reads: true, deciding: deciding}
		c := cache.New(1)
		c.Watch(log)
		if _, err := c.SetNode(build.Node("n").CPU("1").Obj()); err != nil {
			t.Fatal(err)
		}
		table := c.Table(0)
		for range 5 {
			d := &pb.Delta{Change: &pb.Delta_AddPod{AddPod: &pb.PodUsage{Counters: []*pb.CounterValue{{Counter: 1, Value: 1}}}}}
			log.Changing(table, d)
			if err := table.Apply(d); err != nil {
				t.Fatal(err)
			}
			log.Changed(table, d)
		}
		want := 0
		if deciding {
			want = 5
		}
		if got := len(log.list); got != want || !log.lost {
			t.Errorf("deciding %t: got %d changes, lost %t; want %d", deciding, got, log.lost, want)
		}
	}
}

// A tenant's pods may bring a node a hundred thousand scalars and ports: a change of that node does not log all of them.
func TestAChangeOfALargeRowIsLoggedInFewBytes(t *testing.T) {
	b := newRig(t)
	b.placeLarge("a", 4000)
	table := b.cache.Table(0)
	row, _ := b.cache.RowOf("a")
	d := &pb.Delta{Row: row.Index, Change: &pb.Delta_AddPod{AddPod: &pb.PodUsage{}}}
	const changes = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range changes {
		b.log.Changing(table, d)
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / changes; got > 2048 {
		t.Errorf("got %d bytes for a change of a row of %d scalars and ports, want 2,048 at the most", got, table.InUse(row.Index))
	}
}

// An answer that was given while a row was large knows the row's later changes all the same, and so does one that was given
// before.
func TestAnAnswerKnowsALargeRow(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		b := newRig(t)
		if !earlier {
			b.placeLarge("a", maxTotals+1)
		}
		a := b.held.open(b.class.Scorer)
		b.Take(&Need{Class: b.class.Scorer, answer: a}, b.answer(4, "a", "b", "c", "d").result)
		if earlier {
			b.placeLarge("a", maxTotals+1)
		}
		b.place("a", "2")
		b.place("a", "2")
		a.repair()
		if a.stale || a.feasible() != 3 {
			t.Errorf("large earlier %t: got stale %t, %d feasible rows; want false, 3", earlier, a.stale, a.feasible())
		}
		if c, v := a.best(); v != chosen || b.cache.Table(0).Name(c.Row.Index) == "a" {
			t.Errorf("large earlier %t: got outcome %d, row %v; want a row that is not full", earlier, v, c.Row)
		}
	}
}

// placeLarge gives a node a pod of so many scalars and host ports.
func (b *rig) placeLarge(name string, n int) {
	p := build.Pod("large").UID("large")
	for i := range n {
		p.Request(fmt.Sprintf("a/%05d", i), "1").HostPort("", "", int32(i+1))
	}
	if err := b.cache.Assume(p.Obj(), name, compile.Usage(p.Obj()), 0); err != nil {
		b.t.Fatal(err)
	}
}
