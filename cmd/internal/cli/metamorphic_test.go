package cli

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/build"
	"github.com/shardsched/shardsched/coordinator/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// split is one way to cut the work up. No decision may depend on it.
type split struct {
	shards, workers, batch, replicas int
	// killAt ends the first worker in the middle of that call; 0: never.
	killAt int64
}

func (s split) String() string {
	return fmt.Sprintf("%d shards, %d workers, batches of %d, %d replicas, killed in call %d", s.shards, s.workers, s.batch, s.replicas, s.killAt)
}

// decide runs a cluster and returns its decision log.
func decide(t *testing.T, c build.Cluster, s split) string {
	t.Helper()
	var out bytes.Buffer
	log := coordinator.NewDecisionLog(&out)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := coordinator.SchedulerConfig{Cluster: "test", Term: 1, Shards: s.shards, BatchSize: s.batch, Decisions: log, QueueNow: standstill()}
	cfg.Fanout.Replicas = s.replicas
	scheduler, err := coordinator.NewScheduler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g, ctx := errgroup.WithContext(ctx)
	scheduler.SetMembers(startWorkers(ctx, t, g, s.workers, s.killAt))
	scheduler.Load(&store.Objects{Nodes: c.Nodes, Pods: append(append(c.Present[:0:0], c.Present...), c.Pending...)}, nil)
	g.Go(func() error { return scheduler.Run(ctx) })
	g.Go(func() error {
		defer cancel()
		return scheduler.Idle(ctx)
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestDecisionsDoNotDependOnHowTheWorkIsSplit(t *testing.T) {
	sizes := []int{1, 5, 63, 64, 65, 300}
	if !testing.Short() {
		sizes = append(sizes, 4095, 4096, 4097)
	}
	for i, nodes := range sizes {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			seed := uint64(1000 + i)
			pods := min(nodes*4, 900)
			c := build.Random(rand.New(rand.NewPCG(seed, seed)), nodes, nodes/2, pods)
			want := decide(t, c, split{shards: 1, workers: 0, batch: 512})
			if n := strings.Count(want, "\n"); n != pods {
				t.Fatalf("seed %d: %d decisions for %d pods", seed, n, pods)
			}
			for _, s := range []split{
				{shards: 1, workers: 1, batch: 1},
				{shards: 3, workers: 2, batch: 7},
				{shards: 8, workers: 3, batch: 512},
				{shards: 8, workers: 4, batch: 512, replicas: 2},
				{shards: 64, workers: 4, batch: 100},
				{shards: 64, workers: 0, batch: 33},
				{shards: 8, workers: 3, batch: 20, killAt: 3},
				{shards: 3, workers: 1, batch: 20, killAt: 2},
			} {
				got := decide(t, c, s)
				if got != want {
					t.Fatalf("seed %d, %s: %s", seed, s, firstDifference(got, want))
				}
			}
		})
	}
}

// firstDifference shows the first line in which two logs differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d:\n got %s\nwant %s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

func TestProgressIsTold(t *testing.T) {
	c := build.Random(rand.New(rand.NewPCG(1, 2)), 20, 0, 50)
	in := &Input{Nodes: c.Nodes, Pods: c.Pending}
	sum, err := (simulation{sharding: Sharding{Cluster: "test", Workers: 2}}).run(t.Context(), in, func(*pb.Summary) {})
	if err != nil {
		t.Fatal(err)
	}
	if sum.PodsBound+sum.PodsPending != 50 || sum.Nodes != 20 || !sum.Idle || sum.Decisions != 50 {
		t.Errorf("got %d bound, %d pending, %d nodes, %d decisions, idle %v; want 50 in all on 20 nodes", sum.PodsBound, sum.PodsPending, sum.Nodes, sum.Decisions, sum.Idle)
	}
}
