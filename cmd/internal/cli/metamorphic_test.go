package cli

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// split is one way to cut the work up. No decision may depend on it.
type split struct {
	shards, workers, batch, replicas int
	// killAt ends a worker in the middle of that call; 0: never.
	killAt int64
	// returns: it is followed by one that holds no table, and every killAt-th call from then
	// on is again a worker's last.
	returns bool
	// pieces is how many times the scheduler is told of nodes and others, with a round to the
	// workers after each; 0: it starts with them.
	pieces int
}

func (s split) String() string {
	return fmt.Sprintf("%d shards, %d workers, batches of %d, %d replicas, killed in call %d, back again %t, in %d pieces",
		s.shards, s.workers, s.batch, s.replicas, s.killAt, s.returns, s.pieces)
}

// decide runs a cluster and returns its decision log, without probes.
func decide(t *testing.T, c build.Cluster, s split) string {
	t.Helper()
	var out bytes.Buffer
	log := observe.NewDecisionLog(&out)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	defer cancel()
	cfg := coordinator.SchedulerConfig{Cluster: "test", Term: 1, Shards: s.shards, BatchSize: s.batch, Decisions: log, QueueNow: standstill(), Frozen: true}
	cfg.Fanout.Replicas = s.replicas
	scheduler, err := coordinator.NewScheduler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g, ctx := errgroup.WithContext(ctx)
	var tell func([]fanout.Member)
	if s.returns {
		tell = scheduler.SetMembers
	}
	workers := startWorkers(ctx, t, g, s.workers, s.killAt, tell)
	scheduler.SetMembers(workers.alive())
	if s.pieces == 0 {
		scheduler.Load(&objects.Snapshot{Nodes: c.Nodes, Pods: append(slices.Clip(c.Present), c.Pending...), Cluster: c.Others}, nil)
	}
	g.Go(func() error { return scheduler.Run(ctx) })
	g.Go(func() error {
		defer cancel()
		if s.pieces > 0 {
			if err := deliver(ctx, scheduler, c, s.pieces); err != nil {
				return err
			}
		}
		return scheduler.Idle(ctx)
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if s.killAt > 0 && workers.killed == 0 {
		t.Errorf("%s: got no worker killed", s)
	}
	return withoutProbes(out.String())
}

// deliver tells the scheduler of the cluster in pieces, and of the pending pods at the end.
// After each piece a pod that fits nowhere takes the deltas to the workers.
func deliver(ctx context.Context, scheduler *coordinator.Scheduler, c build.Cluster, pieces int) error {
	var events []objects.Event
	for _, obj := range c.Others {
		events = append(events, objects.Event{Type: objects.Added, Kind: objects.KindOf(obj), Object: obj})
	}
	for _, n := range c.Nodes {
		events = append(events, objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: n})
	}
	for _, p := range c.Present {
		events = append(events, podEvent(objects.Added, p))
	}
	for i := range pieces {
		from, to := i*len(events)/pieces, (i+1)*len(events)/pieces
		probe := build.Pod(fmt.Sprintf("%s%d", probes, i)).NodeSelector("is", "nowhere").Obj()
		scheduler.Deliver(append(slices.Clone(events[from:to]), podEvent(objects.Added, probe)))
		if err := scheduler.Idle(ctx); err != nil {
			return err
		}
		scheduler.Deliver([]objects.Event{podEvent(objects.Deleted, probe)})
	}
	var pending []objects.Event
	for _, p := range c.Pending {
		pending = append(pending, podEvent(objects.Added, p))
	}
	scheduler.Deliver(pending)
	return nil
}

func podEvent(typ objects.EventType, p *v1.Pod) objects.Event {
	return objects.Event{Type: typ, Kind: objects.KindPod, Pod: p}
}

// probes is how the names begin of pods that no log is to tell of.
const probes = "probe-"

// withoutProbes drops the probes' lines from a log and counts the others anew.
func withoutProbes(log string) string {
	var out strings.Builder
	n := 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, probes) {
			continue
		}
		n++
		_, rest, _ := strings.Cut(line, ",")
		fmt.Fprintf(&out, `{"seq":%d,%s`, n, rest)
	}
	return out.String()
}

// splits are many ways to do the work of one batch on one table.
var splits = []split{
	{shards: 1, workers: 1, batch: 1},
	{shards: 3, workers: 2, batch: 7},
	{shards: 8, workers: 3, batch: 512},
	{shards: 8, workers: 4, batch: 512, replicas: 2},
	{shards: 64, workers: 4, batch: 100},
	{shards: 64, workers: 0, batch: 33},
	{shards: 8, workers: 3, batch: 20, killAt: 3},
	{shards: 3, workers: 1, batch: 20, killAt: 2},
	{shards: 8, workers: 3, batch: 20, killAt: 2, returns: true},
	{shards: 3, workers: 1, batch: 7, killAt: 3, returns: true},
	{shards: 4, workers: 2, batch: 512, pieces: 1},
	{shards: 4, workers: 2, batch: 7, pieces: 9},
	{shards: 2, workers: 2, batch: 512, pieces: 30, killAt: 5, returns: true},
}

func TestDecisionsDoNotDependOnHowTheWorkIsSplit(t *testing.T) {
	sizes := []int{1, 5, 63, 64, 65, 300}
	if !testing.Short() {
		sizes = append(sizes, 4095, 4096, 4097)
	}
	for i, nodes := range sizes {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			seed := uint64(1000 + i)
			c := build.Random(rand.New(rand.NewPCG(seed, seed)), nodes, nodes/2, min(nodes*4, 900))
			compareSplits(t, c, splitsOf(i, nodes))
		})
	}
}

// splitsOf are the ways in which the i-th cluster is decided: all, unless that takes long. Then the
// clusters share them out.
func splitsOf(i, nodes int) []split {
	n := 1
	switch {
	case nodes >= 1000:
		n = 3
	case testing.Short():
		n = 2
	}
	var list []split
	for k := i % n; k < len(splits); k += n {
		list = append(list, splits[k])
	}
	return list
}

func TestDecisionsAboutPodsThatAreAboutEachOtherDoNot(t *testing.T) {
	sizes := []int{3, 12, 64, 150}
	if !testing.Short() {
		sizes = append(sizes, 1000)
	}
	for i, nodes := range sizes {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			seed := uint64(2000 + i)
			compareSplits(t, build.Crowd(rand.New(rand.NewPCG(seed, seed)), build.CrowdSize{
				Nodes: nodes, Present: nodes, Pending: min(nodes*8, 700), Kinds: 8, Nominated: 5, Claims: true,
			}), splitsOf(i, nodes))
		})
	}
}

// compareSplits decides a cluster in many ways. Preemptors are decided twice, and more.
func compareSplits(t *testing.T, c build.Cluster, ways []split) {
	t.Helper()
	want := decide(t, c, split{shards: 1, workers: 0, batch: 512})
	if n := strings.Count(want, "\n"); n < len(c.Pending) {
		t.Fatalf("%d decisions for %d pods", n, len(c.Pending))
	}
	for _, s := range ways {
		if got := decide(t, c, s); got != want {
			t.Fatalf("%s: %s", s, firstDifference(got, want))
		}
	}
}

// A simulation is one more way to do the work.
func TestASimulationDecidesTheSame(t *testing.T) {
	c := build.Crowd(rand.New(rand.NewPCG(3, 3)), build.CrowdSize{Nodes: 20, Present: 10, Pending: 150, Kinds: 6, Claims: true})
	var out bytes.Buffer
	log := observe.NewDecisionLog(&out)
	in := &Input{Nodes: c.Nodes, Pods: append(slices.Clip(c.Present), c.Pending...), Cluster: c.Others}
	m := simulation{sharding: Sharding{Cluster: "test", Workers: 2}, batch: 7, decisions: log}
	if _, err := m.run(klog.NewContext(t.Context(), klog.Logger{}), in, func(*pb.Summary) {}); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if want := decide(t, c, split{shards: 1, batch: 512}); out.String() != want {
		t.Error(firstDifference(out.String(), want))
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
