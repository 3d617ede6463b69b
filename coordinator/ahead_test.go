package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

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
				x.ahead.always = true
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

// What it takes to prepare a pod ahead is its own cost, however many others have their turn before it.
func TestPodsAreChargedForWhatIsPreparedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, members, dial := newLiars(0, 0)
		x := newTrial(t, SchedulerConfig{Shards: 1, BatchSize: 1, Fanout: fanout.Config{Dial: dial, LocalCores: 1}}, 0)
		defer x.fanout.Close()
		x.Load(clusterOf(nodesOf("4", "n")), nil)
		x.SetMembers(members)
		x.budget.free, x.ahead.always = false, true
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
