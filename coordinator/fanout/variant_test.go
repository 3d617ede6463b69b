package fanout_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/worker"
)

// A variant travels by its difference, with its original only where the worker lacks that: at first, and once it has lost it.
func TestVariantsTravelByTheirDifference(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{Cores: 1})
	c := newCluster(2)
	c.addNodes(t, 0, 200)
	f := fleet.fanout(t, c, 1, fanout.Config{Term: 1})
	var mu sync.Mutex
	var queries, variants []uint64
	proxy := fleet.proxies["w0"]
	proxy.script(func(_ context.Context, req *pb.EvaluateRequest) error {
		mu.Lock()
		defer mu.Unlock()
		for _, q := range req.GetQueries() {
			queries = append(queries, q.GetClassId())
		}
		for _, v := range req.GetVariants() {
			variants = append(variants, v.GetClassId())
		}
		return nil
	}, nil)
	original, err := scorer.NewClass(query(1, 100, false))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(wantQueries, wantVariants []uint64, ids ...uint64) {
		t.Helper()
		var reqs []fanout.Request
		for _, id := range ids {
			other := query(id, int64(300*id), false)
			q := original.Query().With(other.Fit, other.Balanced)
			q.ClassId = id
			reqs = append(reqs, fanout.Request{Class: original.Vary(q), Candidates: 5})
		}
		queries, variants = nil, nil
		c.wantSame(t, f, reqs)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(queries, wantQueries) || !slices.Equal(variants, wantVariants) {
			t.Errorf("sent: got queries %v and variants %v, want %v and %v", queries, variants, wantQueries, wantVariants)
		}
	}
	ask([]uint64{1}, []uint64{2, 3}, 2, 3)
	ask(nil, []uint64{4}, 3, 4)
	proxy.restart()
	// The worker asks for what it has lost, and for the variant whose original it has lost. It gets both as whole queries.
	ask([]uint64{4, 5}, []uint64{5}, 4, 5)
	ask([]uint64{1}, []uint64{6}, 6)
	ask(nil, []uint64{7}, 7)
}
