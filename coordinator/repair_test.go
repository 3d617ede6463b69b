package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/build"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/store"
	"github.com/shardsched/shardsched/scorer"
)

// trial is a scheduler that the test drives by hand, with what it decided.
type trial struct {
	*Scheduler
	log bytes.Buffer
	// rounds, asked and normalised count what the loop asked of the workers.
	rounds, asked, normalised int
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// quiet is a context whose logger says nothing.
func quiet() context.Context { return klog.NewContext(context.Background(), klog.Logger{}) }

// newTrial makes one whose answers hold no more candidates than that; 0: as many as it
// asks for.
func newTrial(t rapid.TB, cfg SchedulerConfig, candidates int) *trial {
	t.Helper()
	x := &trial{}
	cfg.Cluster, cfg.Term, cfg.Decisions = "test", 1, NewDecisionLog(&x.log)
	cfg.QueueNow = func() time.Time { return epoch } // a pod is tried once
	s, err := NewScheduler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.evaluate = func(ctx context.Context, requests []fanout.Request) ([]*scorer.Result, error) {
		x.rounds++
		for i := range requests {
			x.asked++
			if candidates > 0 {
				requests[i].Candidates = min(requests[i].Candidates, candidates)
			}
		}
		results, err := s.fanout.Evaluate(ctx, requests)
		for _, r := range results {
			if r.Normalised {
				x.normalised++
			}
		}
		return results, err
	}
	x.Scheduler = s
	return x
}

// turn runs the loop until it would rest.
func (x *trial) turn(t rapid.TB) {
	t.Helper()
	for range 1000 {
		x.inbox.drain()
		x.popped = x.queue.PopBatch(x.cfg.BatchSize, x.popped[:0])
		if len(x.popped) == 0 {
			return
		}
		x.schedule(quiet(), x.popped)
		if x.err != nil {
			t.Fatalf("the loop failed: %v", x.err)
		}
	}
	t.Fatal("the loop does not come to rest")
}

// decided reads the decision log.
func (x *trial) decided(t rapid.TB) []decisionLine {
	t.Helper()
	if err := x.cfg.Decisions.Flush(); err != nil {
		t.Fatal(err)
	}
	var out []decisionLine
	for d := json.NewDecoder(&x.log); d.More(); {
		var line decisionLine
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		out = append(out, line)
	}
	return out
}

// scene is a cluster and the pods that come to it.
type scene struct {
	nodes            []*v1.Node
	present, pending []*v1.Pod
}

// drawScene makes few kinds of pods and many of each, for nodes that are full soon.
func drawScene(t *rapid.T) scene {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
	c := build.Random(r, rapid.IntRange(1, 12).Draw(t, "nodes"), rapid.IntRange(0, 10).Draw(t, "present"), rapid.IntRange(1, 4).Draw(t, "kinds"))
	s := scene{nodes: c.Nodes, present: c.Present}
	for i := range rapid.IntRange(1, 40).Draw(t, "pods") {
		s.pending = append(s.pending, copyOf(c.Pending[r.IntN(len(c.Pending))], i))
	}
	return s
}

// drawSpread makes a cluster where a class has more keys than a result has groups:
// six labels that a preferred term each gives a weight of its own.
func drawSpread(t *rapid.T) scene {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 6))
	var s scene
	for i := range rapid.IntRange(30, 90).Draw(t, "nodes") {
		n := build.Node(fmt.Sprintf("node-%d", i)).CPU("4").Memory("8Gi").Pods([]string{"1", "2", "3"}[r.IntN(3)])
		for bit := range 6 {
			if r.IntN(2) == 0 {
				n.Label(fmt.Sprintf("bit-%d", bit), "set")
			}
		}
		if r.IntN(4) == 0 {
			n.Taint("slow:PreferNoSchedule")
		}
		s.nodes = append(s.nodes, n.Obj())
	}
	var kinds []*v1.Pod
	for k := range rapid.IntRange(1, 3).Draw(t, "kinds") {
		p := build.Pod(fmt.Sprintf("kind-%d", k)).CPU([]string{"1", "1500m", "2"}[k])
		for bit := range 6 {
			p.Preferred(int32(1)<<bit, build.Labels(build.Match(fmt.Sprintf("bit-%d", bit), v1.NodeSelectorOpExists)))
		}
		kinds = append(kinds, p.Obj())
	}
	for i := range rapid.IntRange(1, 60).Draw(t, "pods") {
		s.pending = append(s.pending, copyOf(kinds[r.IntN(len(kinds))], i))
	}
	return s
}

func copyOf(p *v1.Pod, i int) *v1.Pod {
	c := p.DeepCopy()
	c.Name = fmt.Sprintf("%s-%d", p.Name, i)
	c.UID = types.UID(c.Name)
	return c
}

// checkScene schedules in batches and holds every decision against deciding one by one.
func checkScene(t *rapid.T, s scene) *trial {
	x := newTrial(t, SchedulerConfig{
		Shards:    rapid.IntRange(1, 5).Draw(t, "shards"),
		BatchSize: rapid.SampledFrom([]int{1, 2, 7, 64}).Draw(t, "batch"),
	}, rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "candidates"))
	defer x.fanout.Close()
	x.Load(&store.Objects{Nodes: s.nodes, Pods: append(s.present, s.pending...)}, nil)
	x.turn(t)
	o := newOneByOne(t, s.nodes, s.present)
	byUID := map[string]*v1.Pod{}
	for _, p := range s.pending {
		byUID[string(p.UID)] = p
	}
	decided := x.decided(t)
	for _, got := range decided {
		p := byUID[got.UID]
		delete(byUID, got.UID)
		if p == nil {
			t.Fatalf("decision %d is of pod %s, which was decided before or is not there", got.Seq, got.Pod)
		}
		if d := cmp.Diff(o.decide(p), got); d != "" {
			t.Fatalf("decision %d (-one by one +in a batch):\n%s", got.Seq, d)
		}
	}
	if len(byUID) > 0 {
		t.Fatalf("got %d decisions, want %d more", len(decided), len(byUID))
	}
	return x
}

func TestABatchDecidesAsItsPodsWouldOneByOne(t *testing.T) {
	asked, rounds := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		x := checkScene(t, drawScene(t))
		asked, rounds = asked+x.asked, rounds+x.rounds
	})
	if asked == 0 || rounds == 0 {
		t.Errorf("got %d classes asked in %d rounds, want some of both", asked, rounds)
	}
}

func TestABatchOfClassesWithMoreKeysThanGroups(t *testing.T) {
	normalised := 0
	rapid.Check(t, func(t *rapid.T) { normalised += checkScene(t, drawSpread(t)).normalised })
	if normalised == 0 {
		t.Error("got no class whose groups overflow, want some")
	}
}
