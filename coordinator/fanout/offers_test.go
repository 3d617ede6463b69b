package fanout_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/worker"
)

func TestHowManyCandidatesAPartOffers(t *testing.T) {
	for _, x := range []struct{ wanted, nodes, all, want int }{
		{65, 5000, 5000, 65},     // the only part
		{65, 2500, 5000, 47},     // half, and fourteen more
		{65, 625, 5000, 19},      // an eighth: 8, and eleven more
		{65, 0, 5000, 2},         // an empty one
		{1, 2500, 5000, 1},       // never more than are wanted
		{5000, 1250, 5000, 1344}, // all nodes are wanted: all of the part's
		{65536, 500_000, 1_000_000, 33154},
		{65, 0, 0, 65},
	} {
		if got := fanout.Offers(x.wanted, x.nodes, x.all); got != x.want {
			t.Errorf("%d wanted, %d of %d nodes: got %d, want %d", x.wanted, x.nodes, x.all, got, x.want)
		}
	}
}

// Of two hundred lists one at the most ends sooner than wanted, as rows are spread by hashes.
func TestFewListsEndSooner(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, workers := range []int{2, 3, 8, 64} {
		const wanted, all, trials = 67, 1 << 16, 2000
		short := 0
		offered := fanout.Offers(wanted, all/workers, all)
		for range trials {
			of := make([]int, workers)
			for range wanted {
				of[rng.IntN(workers)]++
			}
			for _, n := range of {
				if n > offered {
					short++
					break
				}
			}
		}
		if short > trials/200 {
			t.Errorf("%d workers, %d candidates each: got %d of %d lists that end sooner, want 1 of 200 at most", workers, offered, short, trials)
		}
	}
}

// Each worker is asked for its share, and all rows are named where all are wanted.
func TestWorkersNameTheirShares(t *testing.T) {
	const workers, nodes = 4, 2000
	fleet := newFleet(t, workers, worker.Config{})
	c := newCluster(32)
	c.addNodes(t, 0, nodes)
	var mu sync.Mutex
	asked, named := 0, 0
	for _, p := range fleet.proxies {
		p.script(func(_ context.Context, req *pb.EvaluateRequest) error {
			mu.Lock()
			defer mu.Unlock()
			for _, n := range req.GetCandidates() {
				asked += int(n)
			}
			return nil
		}, func(resp *pb.EvaluateResponse) {
			mu.Lock()
			defer mu.Unlock()
			named += len(resp.GetGroups().GetRowRefs())
		})
	}
	f := fleet.fanout(t, c, workers, fanout.Config{AuditEvery: 1})
	const wanted = 100
	c.wantSame(t, f, requests(t, wanted, false, query(1, 100, false))) // workers have got their shards
	asked, named = 0, 0
	reqs := requests(t, wanted, false, query(1, 100, false))
	results, err := f.Evaluate(t.Context(), reqs)
	if err != nil {
		t.Fatal(err)
	}
	if asked <= wanted || asked > 2*wanted || named > 2*wanted*len(results[0].Groups) {
		t.Errorf("got %d candidates asked for and %d named, want more than %d and twice as many at most", asked, named, wanted)
	}
	for i := range results[0].Groups {
		if g := &results[0].Groups[i]; len(g.Candidates) < min(wanted, g.Rows)*9/10 {
			t.Errorf("group %d of %d rows: got %d candidates, want about %d", i, g.Rows, len(g.Candidates), wanted)
		}
	}
	if results, err = f.Evaluate(t.Context(), requests(t, nodes, false, query(1, 100, false), spreadQuery(2))); err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		for i := range r.Groups {
			if g := &r.Groups[i]; len(g.Candidates) != g.Rows {
				t.Errorf("class %d, group %d: got %d candidates of %d rows, want all", r.ClassID, i, len(g.Candidates), g.Rows)
			}
		}
	}
	if got := f.Stats().LocalShards; got != 0 {
		t.Errorf("got %d shards evaluated here, want none: audits ask for the same shares", got)
	}
}

// Primary and backups are asked for the same share, of however many shards each is: so they can be compared.
func TestSharesOfTwoOwnersAgree(t *testing.T) {
	fleet := newFleet(t, 4, worker.Config{})
	c := newCluster(32)
	c.addNodes(t, 0, 2000)
	f := fleet.fanout(t, c, 4, fanout.Config{Replicas: 2, Compare: true, AuditEvery: 2})
	reqs := requests(t, 100, true, query(1, 100, false), query(2, 500, true), spreadQuery(3))
	for range 3 {
		c.wantSame(t, f, reqs)
	}
	if got := f.Stats().LocalShards; got != 0 {
		t.Errorf("got %d shards evaluated here, want none: all agree", got)
	}
}

// Where a worker dies, backups or the own tables name its share.
func TestSharesOfTheDead(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		fleet := newFleet(t, 3, worker.Config{})
		c := newCluster(32)
		c.addNodes(t, 0, 2000)
		f := fleet.fanout(t, c, 3, fanout.Config{Replicas: replicas})
		reqs := requests(t, 100, false, query(1, 100, false), query(2, 500, true), spreadQuery(3))
		c.wantSame(t, f, reqs)
		fleet.proxies["w1"].server.Stop()
		for range 3 {
			c.churn(t, rand.New(rand.NewPCG(3, 4)), 50)
			c.wantSame(t, f, reqs)
		}
	}
}

// Where all of the best rows are in one part, the list ends with the last row that this part has named.
func TestAListEndsWhereAPartMayHaveABetterRow(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(2)
	for i := range 400 {
		n := node(i)
		if n.Taints = nil; xxhash.Sum64String(n.GetName())%2 == 0 {
			n.Allocatable.MilliCpu = 1_000_000
		}
		c.apply(t, uint32(i), n.GetName(), &pb.Delta{Change: &pb.Delta_SetNode{SetNode: n}})
	}
	f := fleet.fanout(t, c, 2, fanout.Config{})
	reqs := requests(t, 60, false, query(1, 1000, false))
	c.wantSame(t, f, reqs)
	results, err := f.Evaluate(t.Context(), reqs)
	if err != nil {
		t.Fatal(err)
	}
	list, want := results[0].Groups[0].Candidates, fanout.Offers(60, c.tables[0].Nodes(), 400)
	if len(list) != want || want >= 60 {
		t.Errorf("got %d candidates, want the %d of one part", len(list), want)
	}
}
