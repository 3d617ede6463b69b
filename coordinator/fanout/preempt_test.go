package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/worker"
)

// preemptors are pods of two classes that many nodes are too full for.
func preemptors(t testing.TB, c *cluster, all int) []fanout.PreemptRequest {
	t.Helper()
	var out []fanout.PreemptRequest
	for _, q := range []*pb.Query{query(11, 1900, false), spreadQuery(12), pinnedQuery(13)} {
		class, err := scorer.NewClass(q)
		if err != nil {
			t.Fatalf("class: %v", err)
		}
		class = class.Pin(slices.Values(c.tables))
		p := &scorer.Preemption{Priority: 3, NowMicros: 4, All: all, Budgets: []scorer.Budget{{ID: 1, Allowed: 1}}, Whole: &scorer.Result{}}
		p.Whole.Reset(class.ID(), 1)
		scorer.NewEvaluator(nil).Evaluate(c.whole, class, scorer.Options{Candidates: 1}, p.Whole)
		out = append(out, fanout.PreemptRequest{Class: class, Preemption: p})
	}
	return out
}

// found is a dry run's answer with rows told by their nodes' names.
type found struct {
	Tried      int
	Candidates []string
	Reasons    []scorer.ReasonCount
}

func foundIn(r *scorer.PreemptionResult) found {
	out := found{Tried: r.Tried, Reasons: append([]scorer.ReasonCount(nil), r.Reasons...)}
	for _, c := range r.Candidates {
		out.Candidates = append(out.Candidates, fmt.Sprint(c.Name, c.Victims, c.Violations, c.TopPriority, c.PrioritySum, c.EarliestStart))
	}
	return out
}

// wantSamePreemptions makes dry runs through f and on the whole table directly.
func (c *cluster) wantSamePreemptions(t testing.TB, f *fanout.Fanout, all int) (candidates int) {
	t.Helper()
	requests := preemptors(t, c, all)
	results, err := f.PreemptAll(t.Context(), requests)
	if err != nil {
		t.Fatalf("preempt: %v", err)
	}
	for i, r := range requests {
		var want scorer.PreemptionResult
		want.Reset(r.Class.ID(), r.Preemption.Limit())
		scorer.NewEvaluator(nil).Preempt(c.whole, r.Class, r.Preemption, &want)
		if diff := gocmp.Diff(foundIn(&want), foundIn(results[i])); diff != "" {
			t.Fatalf("dry run %d (-one table, directly +shards and workers):\n%s", i, diff)
		}
		candidates += len(want.Candidates)
	}
	return candidates
}

// fullCluster has nodes with pods of many priorities.
func fullCluster(t testing.TB, shards, nodes int) *cluster {
	c := newCluster(shards)
	c.addNodes(t, 0, nodes)
	c.churn(t, rand.New(rand.NewPCG(3, 4)), 40*nodes)
	return c
}

func TestADryRunDoesNotDependOnWorkersThatFail(t *testing.T) {
	fleet := newFleet(t, 3, worker.Config{Cores: 2})
	c := fullCluster(t, 8, 200)
	f := fleet.fanout(t, c, 3, fanout.Config{Replicas: 2})
	if n := c.wantSamePreemptions(t, f, 10); n == 0 {
		t.Fatal("got no candidate: the test shows nothing")
	}
	fleet.proxies["w0"].restart() // forgets shards and classes
	c.churn(t, rand.New(rand.NewPCG(5, 6)), 50)
	c.wantSamePreemptions(t, f, 10)
	fleet.proxies["w1"].script(func(context.Context, *pb.EvaluateRequest) error {
		return grpcstatus.Error(codes.Unavailable, "on fire")
	}, nil)
	c.wantSamePreemptions(t, f, 10)
	f.SetMembers(nil)
	c.wantSamePreemptions(t, f, 0)
}

func TestDryRunsThatCanNotBeTrueAreNotBelieved(t *testing.T) {
	lies := map[string]func(r *pb.PreemptionResult){
		"another class":                func(r *pb.PreemptionResult) { r.ClassId = 4000 },
		"more rows than nodes":         func(r *pb.PreemptionResult) { r.Tried = 4000 },
		"a shard that was not asked":   func(r *pb.PreemptionResult) { r.Candidates[0].Shard = 4000 },
		"a row without a node":         func(r *pb.PreemptionResult) { r.Candidates[0].Row = 4000 },
		"a victim that is not there":   func(r *pb.PreemptionResult) { r.Candidates[0].Victims[0] = 1 << 50 },
		"no candidate":                 func(r *pb.PreemptionResult) { r.Candidates = nil },
		"no victims":                   func(r *pb.PreemptionResult) { r.Candidates[0].Victims = nil },
		"more candidates than allowed": func(r *pb.PreemptionResult) { r.Candidates = append(r.Candidates, r.Candidates...) },
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			fleet := newFleet(t, 1, worker.Config{})
			c := fullCluster(t, 4, 100)
			f := fleet.fanout(t, c, 1, fanout.Config{})
			fleet.proxies["w0"].script(nil, func(resp *pb.EvaluateResponse) {
				if len(resp.GetPreemptions()) > 0 {
					lie(resp.Preemptions[0])
				}
			})
			c.wantSamePreemptions(t, f, 1)
			if got := f.Stats().LocalShards; got == 0 {
				t.Error("got no shard tried here, want those of the liar")
			}
		})
	}
}

func TestADeposedLeaderMakesNoDryRuns(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := fullCluster(t, 2, 20)
	newer := fleet.fanout(t, c, 1, fanout.Config{Term: 9})
	c.wantSamePreemptions(t, newer, 0)
	older := fleet.fanout(t, c, 1, fanout.Config{Term: 8, Leads: leads(false, nil)})
	if _, err := older.Preempt(t.Context(), preemptors(t, c, 0)[0]); !errors.Is(err, fanout.ErrDeposed) {
		t.Errorf("got %v, want %v", err, fanout.ErrDeposed)
	}
}
