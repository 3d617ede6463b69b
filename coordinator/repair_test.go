package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
	"github.com/shardsched/shardsched/scorer"
)

// trial is a scheduler that the test drives by hand, with what it decided.
type trial struct {
	*Scheduler
	log   bytes.Buffer
	lines []observe.DecisionLine // of the log, as far as it was read
	// rounds, asked and normalised count what the loop asked of the workers.
	rounds, asked, normalised int
	// few is how many pods come at once at the most; 0: a batch of them.
	few int
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// elapse lets the clock of a synctest bubble go on, and everybody in it do what is due.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// quiet is a context whose logger says nothing.
func quiet() context.Context { return klog.NewContext(context.Background(), klog.Logger{}) }

// newTrial makes one whose answers hold no more candidates than that; 0: as many as it
// asks for.
func newTrial(t rapid.TB, cfg SchedulerConfig, candidates int) *trial {
	t.Helper()
	x := &trial{}
	cfg.Cluster, cfg.Term, cfg.Decisions = "test", 1, observe.NewDecisionLog(&x.log)
	if cfg.Profiles == nil {
		cfg.Profiles = withoutPreemption()
	}
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
				requests[i].Candidates = min(requests[i].Candidates, candidates+len(s.queue.NominatedNodes()))
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
	for range 10000 {
		x.inbox.drain(never)
		n := x.cfg.BatchSize
		if x.few > 0 {
			n = min(n, x.few)
		}
		x.batch.popped = x.queue.PopBatch(n, x.batch.popped[:0])
		if len(x.batch.popped) == 0 {
			return
		}
		x.schedule(quiet(), x.batch.popped)
		if x.err != nil {
			t.Fatalf("the loop failed: %v", x.err)
		}
		if len(x.intake.Outside().Why()) > 0 || x.counter("shardsched_panics_total", "hint") > 0 {
			t.Fatalf("hints have met %v bugs; in quarantine: %v", x.counter("shardsched_panics_total", "hint"), x.intake.Outside().Why())
		}
	}
	t.Fatal("the loop does not come to rest")
}

// decided reads the decision log.
func (x *trial) decided(t rapid.TB) []observe.DecisionLine {
	t.Helper()
	if err := x.cfg.Decisions.Flush(); err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(&x.log); d.More(); {
		var line observe.DecisionLine
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		x.lines = append(x.lines, line)
	}
	return x.lines
}

// scene is a cluster and the pods that come to it.
type scene struct {
	nodes            []*v1.Node
	present, pending []*v1.Pod
	later            []*v1.Pod // come once the others have been tried
	others           []objects.Object
	profiles         map[string]*compile.Profile // nil: nobody preempts
}

// load is the scene as a leader finds it.
func (s *scene) load() *objects.Snapshot {
	return &objects.Snapshot{Nodes: s.nodes, Pods: append(slices.Clip(s.present), s.pending...), Cluster: s.others}
}

// config is a scheduler's for the scene.
func (s *scene) config(cfg SchedulerConfig) SchedulerConfig {
	if cfg.Profiles = s.profiles; s.profiles != nil {
		cfg.DisruptionController, cfg.MaxBackoff = true, -1
	}
	return cfg
}

// play has a scheduler try the pods.
func (s *scene) play(t rapid.TB, x *trial) {
	x.Load(s.load(), nil)
	x.turn(t) // it fails where the term ends
	for _, p := range s.later {
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
	}
	x.turn(t)
	for again := s.profiles != nil; again; { // whoever waits is tried again after a while
		from := len(x.decided(t))
		x.queue.Each(func(p *queue.Pod) { x.queue.Activate(p.Obj.UID) })
		x.turn(t)
		again = slices.ContainsFunc(x.decided(t)[from:], func(d observe.DecisionLine) bool { return d.Node != "" || d.Nominated != "" })
	}
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
	nominated := rapid.SampledFrom([]int{0, 20}).Draw(t, "nominated")
	for i := range rapid.IntRange(1, 60).Draw(t, "pods") {
		p := copyOf(kinds[r.IntN(len(kinds))], i)
		if r.IntN(100) < nominated {
			p.Status.NominatedNodeName = s.nodes[r.IntN(len(s.nodes))].Name
		}
		s.pending = append(s.pending, p)
	}
	return s
}

func copyOf(p *v1.Pod, i int) *v1.Pod {
	c := p.DeepCopy()
	c.Name = fmt.Sprintf("%s-%d", p.Name, i)
	c.UID = types.UID(c.Name)
	return c
}

// drawCrowd makes pods that are about each other.
func drawCrowd(t *rapid.T, nominated int, claims bool) scene {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
	c := build.Crowd(r, build.CrowdSize{
		Nodes:     rapid.IntRange(1, 10).Draw(t, "nodes"),
		Present:   rapid.IntRange(0, 12).Draw(t, "present"),
		Pending:   rapid.IntRange(1, 30).Draw(t, "pods"),
		Kinds:     rapid.IntRange(1, 5).Draw(t, "kinds"),
		Nominated: nominated,
		Claims:    claims,
	})
	return scene{nodes: c.Nodes, present: c.Present, pending: c.Pending, others: c.Others}
}

// checkScene schedules in batches and holds every decision against deciding one by one.
func checkScene(t *rapid.T, s scene, backoffs ...time.Duration) *trial {
	x := newTrial(t, SchedulerConfig{
		Shards:     rapid.IntRange(1, 5).Draw(t, "shards"),
		BatchSize:  rapid.SampledFrom([]int{1, 2, 7, 64}).Draw(t, "batch"),
		MaxBackoff: rapid.SampledFrom(append(backoffs, 0)).Draw(t, "backoff"),
	}, rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "candidates"))
	defer x.fanout.Close()
	x.few = rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "few")
	x.Load(s.load(), nil)
	x.turn(t)
	checkOneByOne(t, s, x)
	return x
}

// replay is what decides one by one, and the pods that wait, by UID.
func (s *scene) replay(t *rapid.T) (*oneByOne, map[string]*v1.Pod) {
	o := newOneByOne(t, s.nodes, s.present, s.others...)
	o.nominate(s.pending)
	left := map[string]*v1.Pod{}
	for _, p := range slices.Concat(s.pending, s.later) {
		left[string(p.UID)] = p
	}
	return o, left
}

// checkOneByOne holds every decision against deciding one by one. It returns how many there were.
func checkOneByOne(t *rapid.T, s scene, x *trial) int {
	o, left := s.replay(t)
	tried := map[string]bool{}
	lines := x.decided(t)
	for _, got := range lines {
		p := left[got.UID]
		if p == nil {
			t.Fatalf("decision %d is of pod %s, which is on a node or not there", got.Seq, got.Pod)
		}
		if d := cmp.Diff(o.decide(p), got); d != "" {
			t.Fatalf("decision %d (-one by one +in a batch):\n%s", got.Seq, d)
		}
		if tried[got.UID] = true; got.Node != "" {
			delete(left, got.UID)
		}
	}
	if len(tried) != len(s.pending) {
		t.Fatalf("got decisions of %d pods, want %d", len(tried), len(s.pending))
	}
	return len(lines)
}

// checkOrder holds that the pods were decided in the order in which they are one by one.
func checkOrder(t *rapid.T, s scene, x *trial) {
	one := newTrial(t, SchedulerConfig{Shards: 1, BatchSize: 1, MaxBackoff: x.cfg.MaxBackoff}, 0)
	defer one.fanout.Close()
	one.Load(s.load(), nil)
	one.turn(t)
	if d := cmp.Diff(one.decided(t), x.decided(t)); d != "" {
		t.Fatalf("order (-in batches of 1 +in batches of %d):\n%s", x.cfg.BatchSize, d)
	}
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

func TestABatchOfPodsWithDevices(t *testing.T) {
	seen := map[string]int{}                               // how often decisions end so
	for tries := 0; len(seen) < 3 && tries < 10; tries++ { // errors are rare in few scenes
		rapid.Check(t, func(t *rapid.T) {
			trial := checkScene(t, drawDevices(t))
			for _, d := range trial.decided(t) {
				switch {
				case len(d.Claims) > 0:
					seen["devices"]++
				case strings.Contains(d.Message, "filter plugin"):
					seen["an error"]++
				case strings.Contains(d.Message, "cannot allocate"):
					seen["no device"]++
				}
			}
		})
	}
	if len(seen) < 3 {
		t.Errorf("got %v, want devices, errors and pods without a device", seen)
	}
}

func TestABatchOfPodsThatAreAboutEachOther(t *testing.T) {
	again := 0
	for name, x := range map[string]struct {
		nominated int
		claims    bool
	}{
		"neighbours":                  {0, false},
		"and nominated ones":          {25, false},
		"with claims":                 {0, true},
		"with claims, some nominated": {15, true},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawCrowd(t, x.nominated, x.claims)
				trial := checkScene(t, s, -1) // without backoff, what an event brings comes at once
				again += int(trial.seq) - len(s.pending)
				checkOrder(t, s, trial)
			})
		})
	}
	if again == 0 {
		t.Error("got no pod that was tried twice, want some")
	}
}
