package coordinator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/tune"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// ways are how batches may be asked about: batch by batch, some ahead, or on the own tables.
var ways = []*tune.Way{{Classes: 16}, {Ahead: 1, Classes: 16}, {Ahead: 2, Classes: 8}, {Ahead: 2, Classes: 2}, {Own: true, Classes: 16}}

// Whatever is asked ahead, and whenever the answers come, decisions are those of a scheduler without workers.
func TestWhateverIsAskedAhead(t *testing.T) {
	var taken, again float64
	for name, draw := range scenes {
		t.Run(name, func(t *testing.T) {
			held := 0
			repeatedly(t, &held, func(t *rapid.T) {
				s := draw(t)
				liars, members, dial := newLiars(0, make([]int, rapid.IntRange(1, 3).Draw(t, "workers"))...)
				for _, l := range liars {
					l.takes = rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, time.Second}).Draw(t, "takes")
				}
				x := newTrial(t, s.config(SchedulerConfig{
					Shards:    rapid.IntRange(1, 6).Draw(t, "shards"),
					BatchSize: rapid.SampledFrom([]int{1, 2, 7, 64}).Draw(t, "batch"),
					Fanout: fanout.Config{
						Dial: dial, LocalCores: 1, Replicas: rapid.IntRange(1, 2).Draw(t, "replicas"),
						AuditEvery: rapid.SampledFrom([]int{1, 2, 128}).Draw(t, "audits"),
					},
				}), 0)
				defer x.fanout.Close()
				x.SetMembers(members)
				x.ahead.always, x.tuning.fixed = true, rapid.SampledFrom(ways).Draw(t, "way")
				s.play(t, x)
				held += checkHonest(t, s, x)
				taken += x.counter("shardsched_asked_ahead_total", "taken")
				again += x.counter("shardsched_asked_ahead_total", "again")
				for i, w := range x.fanout.Workers() {
					if why := w.GetQuarantine(); why != "" && liars[i].takes < time.Second {
						t.Fatalf("the honest worker %s is in quarantine: %s", w.GetId(), why)
					}
				}
			})
			t.Logf("%d decisions", held)
		})
	}
	t.Logf("%v answers taken, %v classes asked again", taken, again)
	if taken == 0 || again == 0 {
		t.Errorf("got %v answers that were asked ahead, and %v in vain, want some", taken, again)
	}
}

// Pods that are all of classes of their own, of which some come or go between two batches, as do nodes: decisions do not depend on
// how batches are asked about, nor on when workers answer.
func TestDistinctPodsWhateverTheWay(t *testing.T) {
	taken, held := map[tune.Way]float64{}, 0
	property := func(t *rapid.T) {
		way := rapid.SampledFrom(ways).Draw(t, "way")
		batch, seed := rapid.IntRange(1, 9).Draw(t, "batch"), rapid.Uint64().Draw(t, "seed")
		liars, members, dial := newLiars(0, make([]int, rapid.IntRange(1, 3).Draw(t, "workers"))...)
		for _, l := range liars {
			l.takes = rapid.SampledFrom([]time.Duration{0, time.Millisecond, 20 * time.Millisecond}).Draw(t, "takes")
		}
		config := func(f fanout.Config) SchedulerConfig {
			return SchedulerConfig{Shards: 1 + int(seed%5), BatchSize: 64, Fanout: f}
		}
		run := func(x *trial) []observe.DecisionLine {
			defer x.fanout.Close()
			r := rand.New(rand.NewPCG(seed, 1))
			pod := func(i int) *build.PodBuilder {
				return build.Pod(fmt.Sprint("p", i)).CPU(fmt.Sprint(100+i, "m")).Memory(fmt.Sprint(100+r.IntN(9), "Mi"))
			}
			all := clusterOf(nodesOf("4", "a", "b", "c", "d", "e", "f", "g"))
			for i := range 60 {
				all.Pods = append(all.Pods, pod(i).Obj())
			}
			x.Load(all, nil)
			for i := 60; ; i++ {
				if x.batch.popped = x.queue.PopBatch(batch, x.batch.popped[:0]); len(x.batch.popped) == 0 {
					return x.decided(t)
				}
				x.batch.size.affordable = batch
				if x.schedule(quiet(), x.batch.popped); x.err != nil {
					t.Fatal(x.err)
				}
				e := objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: pod(i).Priority(int32(r.IntN(3) - 1)).Obj()}
				switch r.IntN(12) {
				case 0:
					e = objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: nodesOf("4", fmt.Sprint("n", i))[0]}
				case 1:
					e = objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: all.Pods[r.IntN(60)]}
				case 2, 3, 4, 5:
				default:
					continue
				}
				x.event(&e)
			}
		}
		want := run(newTrial(t, config(fanout.Config{}), 0))
		x := newTrial(t, config(fanout.Config{Dial: dial, LocalCores: 1, AuditEvery: rapid.SampledFrom([]int{1, 128}).Draw(t, "audits")}), 0)
		x.SetMembers(members)
		x.tuning.fixed = way
		got := run(x)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("decisions (-without workers +with):\n%s", d)
		}
		held += len(got)
		taken[*way] += x.counter("shardsched_asked_ahead_total", "taken")
	}
	for i := 0; i == 0 || i < 5 && len(taken) < len(ways) && !t.Failed(); i++ { // few cases leave a way out now and then
		repeatedly(t, &held, property)
		maps.DeleteFunc(taken, func(w tune.Way, n float64) bool { return w.Ahead > 0 && n == 0 })
	}
	for _, w := range ways {
		if some := taken[*w] > 0; some != (w.Ahead > 0) {
			t.Errorf("%+v: got %v answers that were asked ahead", *w, taken[*w])
		}
	}
}

// What it takes to prepare a pod ahead is its own cost, however many others have their turn before it.
func TestPodsAreChargedForWhatIsPreparedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, members, dial := newLiars(0, 0)
		x := newTrial(t, SchedulerConfig{Shards: 1, BatchSize: 1, Fanout: fanout.Config{Dial: dial, LocalCores: 1}}, 0)
		defer x.fanout.Close()
		x.Load(clusterOf(nodesOf("4", "n")), nil)
		x.SetMembers(members)
		x.budget.free, x.ahead.always, x.tuning.fixed = false, true, &tune.Way{Ahead: 1, Classes: 16}
		through := x.guard.Compile
		x.guard.Compile = func(p *v1.Pod, prof *compile.Profile) (*compile.Class, error) {
			if p.Name == "slow" {
				time.Sleep(12 * time.Millisecond) // synctest's clock: it takes no time
			}
			return through(p, prof)
		}
		for _, p := range []*v1.Pod{build.Pod("first").UID("first").Obj(), build.Pod("slow").UID("slow").CPU("8").Obj()} {
			x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
		}
		x.schedule(t.Context(), x.queue.PopBatch(1, nil)) // asks ahead for slow
		slow := x.queue.Get("slow")
		if got := slow.CostAhead; got != 12*time.Millisecond {
			t.Errorf("asked ahead: got a cost of %s, want 12ms", got)
		}
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: build.Pod("urgent").UID("urgent").Priority(9).Obj()})
		x.schedule(t.Context(), x.queue.PopBatch(1, nil)) // another has come before it
		x.turn(t)
		if got, ahead := slow.Cost, slow.CostAhead; got != 36*time.Millisecond || ahead != 0 {
			t.Errorf("after its attempt: got a cost of %s, and %s ahead, want 36ms and none", got, ahead)
		}
	})
}
