package fanout_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/worker"
)

// sizes of clusters, those around words and pages among them.
var sizes = []int{0, 1, 2, 63, 64, 65, 200, 700}

func TestTheAnswerDoesNotDependOnShardsNorWorkers(t *testing.T) {
	fleet := newFleet(t, 4, worker.Config{Cores: 2})
	var terms atomic.Uint64
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		c := newCluster(rapid.SampledFrom([]int{1, 3, 8, 64}).Draw(rt, "shards"))
		c.kept = rapid.SampledFrom([]int{0, 5, 1 << 30}).Draw(rt, "kept deltas")
		c.addNodes(t, 0, rapid.SampledFrom(sizes).Draw(rt, "nodes"))
		f := fleet.fanout(t, c, rapid.IntRange(0, 4).Draw(rt, "workers"), fanout.Config{
			Term:     terms.Add(1),
			Replicas: rapid.IntRange(1, 2).Draw(rt, "replicas"),
		})
		defer f.Close()
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			c.churn(t, rng, rapid.IntRange(0, 60).Draw(rt, "changes"))
			candidates, diagnose := rapid.SampledFrom([]int{1, 2, 5, 20, 60, 200}).Draw(rt, "candidates"), rapid.Bool().Draw(rt, "diagnose")
			c.wantSame(t, f, c.requests(t, candidates, diagnose,
				query(1, 100, false), query(2, 3500, false), query(3, 500, true), query(4, 99000, false), spreadQuery(5), pinnedQuery(6)))
			c.wantSamePreemptions(t, f, rapid.SampledFrom([]int{0, 1, 5, 1000}).Draw(rt, "all"))
			f.SetMembers(fleet.members(rapid.IntRange(0, 4).Draw(rt, "workers then")))
		}
		if got := f.Stats(); got.Rounds == 0 {
			rt.Fatalf("stats: got %+v, want rounds", got)
		}
	})
}

func TestTheSameAtTheSizesOfPages(t *testing.T) {
	fleet := newFleet(t, 3, worker.Config{Cores: 2})
	for i, nodes := range []int{4095, 4096, 4097} {
		for _, shards := range []int{1, 3, 8, 64} {
			c := newCluster(shards)
			c.addNodes(t, 0, nodes)
			f := fleet.fanout(t, c, 3, fanout.Config{Term: uint64(100*i + shards)})
			reqs := requests(t, 40, true, query(1, 100, false), query(2, 500, true), spreadQuery(3))
			c.wantSame(t, f, reqs)
			c.churn(t, rand.New(rand.NewPCG(1, 2)), 100)
			c.wantSame(t, f, reqs)
			if got := f.Stats(); got.LocalShards != 0 || got.SecondRounds != 2 {
				t.Errorf("%d nodes, %d shards: got %+v, want all by workers, and a second round each time", nodes, shards, got)
			}
		}
	}
}
