package scan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// tables are shards with that many nodes each.
func tables(t testing.TB, shards, nodes int) []*scorer.Table {
	t.Helper()
	out := make([]*scorer.Table, shards)
	for s := range out {
		out[s] = scorer.NewTable(uint32(s))
		for i := range nodes {
			d := &pb.Delta{Row: uint32(i), Change: &pb.Delta_SetNode{SetNode: &pb.Node{
				Name: fmt.Sprintf("node-%d-%d", s, i), AllowedPods: 10,
				Allocatable: &pb.Resources{MilliCpu: int64(100 * (i % 50)), MemoryBytes: 1 << 30},
			}}}
			if err := out[s].Apply(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// asks are that many classes.
func asks(t testing.TB, n int) []Ask {
	t.Helper()
	out := make([]Ask, n)
	for i := range out {
		cpu := int64(100 * (i + 1))
		class, err := scorer.NewClass(&pb.Query{
			ClassId: uint64(i + 1),
			Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_RESOURCES_FIT},
			Scores:  []*pb.ScoreWeight{{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, Weight: 1}},
			Fit: &pb.FitQuery{
				Requests: &pb.Resources{MilliCpu: cpu}, ScoringType: pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED,
				Scored: []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: cpu}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		out[i] = Ask{Class: class, Options: scorer.Options{Candidates: 7, Diagnose: true}}
	}
	return out
}

// protos are the answers without what they took.
func protos(answers []Answer) *pb.EvaluateResponse {
	out := &pb.EvaluateResponse{}
	for i := range answers {
		answers[i].Result.AppendTo(out, []uint32{0, 1, 2, 3, 4, 5, 6, 7})
	}
	return out
}

func TestTheAnswerDoesNotDependOnCores(t *testing.T) {
	tabs, list := tables(t, 5, 900), asks(t, 6)
	want := make([]Answer, len(list))
	if err := NewPool(1, clock.RealClock{}).Run(t.Context(), tabs, list, want); err != nil {
		t.Fatal(err)
	}
	p := NewPool(4, clock.RealClock{})
	var wg sync.WaitGroup
	for range 4 { // runs at the same time share the pool
		wg.Go(func() {
			got := make([]Answer, len(list))
			for range 5 { // and the memory of the answers serves again
				if err := p.Run(t.Context(), tabs, list, got); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(protos(want), protos(got), protocmp.Transform()); diff != "" {
					t.Errorf("answers (-one core +four):\n%s", diff)
				}
			}
		})
	}
	wg.Wait()
	if got := len(p.idle); got != p.Cores() {
		t.Errorf("got %d idle hands at the end, want %d", got, p.Cores())
	}
}

func TestPassesAreTimedByTheClock(t *testing.T) {
	tick := &ticking{FakePassiveClock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), step: time.Millisecond}
	got := make([]Answer, 1)
	if err := NewPool(1, tick).Run(t.Context(), tables(t, 3, 100), asks(t, 1), got); err != nil {
		t.Fatal(err)
	}
	if len(got[0].Passes) == 0 {
		t.Fatal("got no passes")
	}
	for _, p := range got[0].Passes {
		if p.Plugin != pb.Plugin_PLUGIN_NODE_RESOURCES_FIT || p.Took != 3*time.Millisecond {
			t.Errorf("got %v at %v taking %v, want NodeResourcesFit with a tick for each of 3 tables", p.Plugin, p.Point, p.Took)
		}
	}
	if f := got[0].Passes[0]; f.RowsIn != 300 || f.RowsOut != 294 {
		t.Errorf("filter: got %d rows in and %d out, want 300 and 294", f.RowsIn, f.RowsOut)
	}
}

// ticking is a clock that moves on by a step each time it is read.
type ticking struct {
	*clocktesting.FakePassiveClock
	step time.Duration
}

func (c *ticking) Now() time.Time {
	c.SetTime(c.FakePassiveClock.Now().Add(c.step))
	return c.FakePassiveClock.Now()
}

func (c *ticking) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func TestARunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := NewPool(2, clock.RealClock{})
	if err := p.Run(ctx, tables(t, 2, 10), asks(t, 2), make([]Answer, 2)); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the context's error", err)
	}
	if got := len(p.idle); got != 2 {
		t.Errorf("got %d idle hands at the end, want 2", got)
	}
}

func TestNothingToDoIsDone(t *testing.T) {
	p := NewPool(2, clock.RealClock{})
	if err := p.Run(t.Context(), nil, asks(t, 1), make([]Answer, 1)); err != nil {
		t.Errorf("no tables: %v", err)
	}
	if err := p.Run(t.Context(), tables(t, 1, 10), nil, nil); err != nil {
		t.Errorf("no classes: %v", err)
	}
}

func BenchmarkRun(b *testing.B) {
	tabs, list := tables(b, 8, 640), asks(b, 8)
	p := NewPool(0, clock.RealClock{})
	answers := make([]Answer, len(list))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Run(b.Context(), tabs, list, answers); err != nil {
			b.Fatal(err)
		}
	}
	rows := float64(8 * 640 * len(list))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
