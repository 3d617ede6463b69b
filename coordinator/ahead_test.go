package coordinator

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/fanout"
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
				for _, w := range x.fanout.Workers() {
					if why := w.GetQuarantine(); why != "" && liars[0].takes < time.Second {
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
