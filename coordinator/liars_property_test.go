package coordinator

import (
	"context"
	"flag"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/scorer"
)

// decisions is how many the properties of lying fleets are held over at the least, in all:
//
//	go test -run TestWhateverWorkersSay -timeout 2h ./coordinator -decisions 100000
var decisions = flag.Int("decisions", 0, "decisions that each property of lying fleets is held over, at the least")

// scenes are those that pods of all families are drawn for.
var scenes = map[string]func(*rapid.T) scene{
	"plain":                       drawScene,
	"more keys than groups":       drawSpread,
	"neighbours":                  func(t *rapid.T) scene { return drawCrowd(t, 0, false) },
	"and nominated ones":          func(t *rapid.T) scene { return drawCrowd(t, 25, false) },
	"with claims":                 func(t *rapid.T) scene { return drawCrowd(t, 0, true) },
	"with claims, some nominated": func(t *rapid.T) scene { return drawCrowd(t, 15, true) },
	"that preempt":                func(t *rapid.T) scene { return drawPreemption(t, false) },
	"with claims, that preempt":   func(t *rapid.T) scene { return drawPreemption(t, true) },
	"with devices":                drawDevices,
}

// repeatedly runs a property until it has been held over as many decisions as were asked for.
func repeatedly(t *testing.T, held *int, property func(t *rapid.T)) {
	synctest.Test(t, func(t *testing.T) {
		for first := true; first || *held < *decisions/len(scenes) && !t.Failed(); first = false {
			rapid.Check(bubble{t}, property)
		}
	})
}

// bubble is a test within a synctest bubble, which must not be asked for its deadline.
type bubble struct{ *testing.T }

// newLyingTrial is a scheduler whose workers lie as often as that.
func newLyingTrial(t *rapid.T, cfg SchedulerConfig, f fanout.Config, seed uint64, often ...int) (*trial, []*liar) {
	liars, members, dial := newLiars(seed, often...)
	f.Dial, f.LocalCores = dial, 1
	cfg.Fanout = f
	x := newTrial(t, cfg, 0)
	through := x.evaluate
	x.evaluate = func(ctx context.Context, requests []fanout.Request) ([]*scorer.Result, error) {
		if x.rounds%2 == 0 { // whoever is in quarantine is asked again
			time.Sleep(fanout.MaxQuarantine) // synctest's clock: it takes no time
		}
		return through(ctx, requests)
	}
	x.SetMembers(members)
	x.ahead.always = rapid.Bool().Draw(t, "asks ahead")
	dry := cfg.Profiles != nil && rapid.Bool().Draw(t, "in dry runs alone")
	for _, l := range liars {
		l.dry = dry
	}
	return x, liars
}

// drawOften draws how often each worker of a fleet lies, of 100 times.
func drawOften(t *rapid.T) []int {
	return rapid.SliceOfN(rapid.SampledFrom([]int{0, 3, 20, 60, 100}), 1, 4).Draw(t, "often")
}

func TestWhateverWorkersSay(t *testing.T) {
	seen := liesSeen{told: map[string]int{}}
	for round := 0; round == 0 || round < 20 && !seen.all() && !t.Failed(); round++ { // some lies are rare
		for name, draw := range scenes {
			t.Run(name, func(t *testing.T) { testLies(t, draw, &seen) })
		}
	}
	t.Logf("%d workers in quarantine in the end, %d victims; lies: %v", seen.quarantined, seen.evicted, seen.told)
	if !seen.all() {
		t.Errorf("got %d workers in quarantine, %d victims and %d kinds of lies, want some, and all that there are", seen.quarantined, seen.evicted, len(seen.told))
	}
}

// liesSeen is what lying fleets have done so far.
type liesSeen struct {
	quarantined, evicted int
	told                 map[string]int // by kind of lie
}

func (s *liesSeen) all() bool {
	return s.quarantined > 0 && s.evicted > 0 && len(s.told) == len(lies)+len(liesOfResults)+len(liesOfDryRuns)
}

func testLies(t *testing.T, draw func(*rapid.T) scene, seen *liesSeen) {
	held := 0
	repeatedly(t, &held, func(t *rapid.T) {
		s := draw(t)
		x, liars := newLyingTrial(t, s.config(SchedulerConfig{
			Shards:    rapid.IntRange(1, 6).Draw(t, "shards"),
			BatchSize: rapid.SampledFrom([]int{1, 2, 7, 64}).Draw(t, "batch"),
		}), fanout.Config{Replicas: rapid.IntRange(1, 3).Draw(t, "replicas")}, rapid.Uint64().Draw(t, "lies"), drawOften(t)...)
		defer x.fanout.Close()
		s.play(t, x)
		n, victims := checkAllowed(t, s, x)
		held, seen.evicted = held+n, seen.evicted+victims
		for _, w := range x.fanout.Workers() {
			if w.GetQuarantine() != "" {
				seen.quarantined++
			}
		}
		for _, l := range liars {
			l.count(seen.told)
		}
	})
	t.Logf("%d decisions", held)
}

// Where two workers are asked for each shard, and one of the two is honest, the decisions are those of an honest
// fleet, pod by pod.
func TestOneOfTwoOwnersMayLie(t *testing.T) {
	quarantined, shards := 0, 0
	for name, draw := range scenes {
		t.Run(name, func(t *testing.T) {
			held := 0
			repeatedly(t, &held, func(t *rapid.T) {
				s := draw(t)
				often := make([]int, rapid.IntRange(2, 4).Draw(t, "workers"))
				liar := rapid.IntRange(0, len(often)-1).Draw(t, "liar")
				often[liar] = rapid.SampledFrom([]int{3, 20, 60, 100}).Draw(t, "often")
				x, _ := newLyingTrial(t, s.config(SchedulerConfig{
					Shards:    rapid.IntRange(1, 6).Draw(t, "shards"),
					BatchSize: rapid.SampledFrom([]int{1, 2, 7, 64}).Draw(t, "batch"),
				}), fanout.Config{Replicas: 2, Compare: true, AuditEvery: -1}, rapid.Uint64().Draw(t, "lies"), often...)
				defer x.fanout.Close()
				s.play(t, x)
				if s.profiles == nil {
					held += checkOneByOne(t, s, x)
				} else {
					held += checkHonest(t, s, x)
				}
				for i, w := range x.fanout.Workers() {
					if w.GetQuarantine() == "" {
						continue
					}
					if quarantined++; i != liar {
						t.Fatalf("the honest worker %s is in quarantine: %s", w.GetId(), w.GetQuarantine())
					}
				}
				shards += int(x.fanout.Stats().LocalShards)
			})
			t.Logf("%d decisions", held)
		})
	}
	t.Logf("%d workers in quarantine in the end, %d shards evaluated by the own tables", quarantined, shards)
	if quarantined == 0 {
		t.Error("got no worker in quarantine, want some")
	}
}

// checkHonest holds that the decisions are those of a scheduler without workers. It returns how many there are.
func checkHonest(t *rapid.T, s scene, x *trial) int {
	honest := newTrial(t, s.config(SchedulerConfig{Shards: x.cfg.Shards, BatchSize: x.cfg.BatchSize}), 0)
	defer honest.fanout.Close()
	s.play(t, honest)
	got := x.decided(t)
	if d := cmp.Diff(honest.decided(t), got); d != "" {
		t.Fatalf("decisions (-without workers +with):\n%s", d)
	}
	return len(got)
}

// checkAllowed holds that each pod is where it may be at its turn, that none is refused that fits somewhere, now
// or without pods of lower priority, and that those leave alone which have to. It returns how many decisions there
// were, and how many victims.
func checkAllowed(t *rapid.T, s scene, x *trial) (decisions, evicted int) {
	o, left := s.replay(t)
	tried, changed := map[string]uint64{}, uint64(0)
	lines := x.decided(t)
	for _, got := range lines {
		p := left[got.UID]
		if p == nil {
			t.Fatalf("decision %d is of pod %s, which is on a node or not there", got.Seq, got.Pod)
		}
		if tried[got.UID] = got.Seq; got.Node != "" || got.Nominated != "" {
			changed = got.Seq
		}
		if got.Node == "" && strings.HasPrefix(got.Message, "running Reserve") {
			delete(o.nominated, p.UID)
			continue // the attempt has failed, which the row that was chosen has a say in
		}
		o.told = got.Node
		want := o.decide(p)
		if got.Node != want.Node {
			t.Fatalf("decision %d: pod %s is on node %q, which it may not (%q); it may be on %q (%q)", got.Seq, got.Pod, got.Node, got.Message, want.Node, want.Message)
		}
		if got.Node != "" {
			delete(left, got.UID)
		} else if s.profiles != nil {
			evicted += o.checkRefused(left, p, got)
		}
	}
	if n := len(s.pending) + len(s.later); len(tried) != n {
		t.Fatalf("got decisions of %d pods, want %d", len(tried), n)
	}
	for uid, p := range left { // whoever waits was tried since
		if s.profiles != nil && tried[uid] < changed {
			t.Fatalf("pod %s was not tried after decision %d", p.Name, changed)
		}
	}
	return len(lines), evicted
}
