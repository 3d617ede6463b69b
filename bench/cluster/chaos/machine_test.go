package chaos

import (
	"testing"
	"time"
)

func TestAMachineThatOthersUseAllowsMoreTime(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	m := NewMachine(nil)
	m.pauses = []halt{{at(1), at(2)}, {at(9), at(12)}, {at(30), at(31)}}
	// 200 ticks a second; the test uses 50 of them, others 100 from second 10 on.
	for s := range 21 {
		others := 100 * max(0, s-10)
		m.samples = append(m.samples, sample{at: at(s), elapsed: int64(200 * s), tested: int64(50 * s), idle: int64(150*s - others)})
	}
	for _, c := range []struct {
		what     string
		from, to int
		want     Had
		allows   time.Duration
	}{
		{"alone", 3, 8, Had{0, 1}, 2 * time.Second},
		{"paused", 0, 8, Had{time.Second, 1}, 3 * time.Second},
		{"half the machine, and a part of a pause", 10, 20, Had{2 * time.Second, .5}, 6 * time.Second},
		{"after the last sample", 29, 40, Had{time.Second, 1}, 3 * time.Second},
	} {
		got := m.Between(at(c.from), at(c.to))
		if got != c.want || got.Allow(2*time.Second) != c.allows {
			t.Errorf("%s: got %v, which allows %v for 2s; want %v, %v", c.what, got, got.Allow(2*time.Second), c.want, c.allows)
		}
	}
}

func TestAMachineIsWatched(t *testing.T) {
	m := NewMachine(func() []int { return nil })
	own := map[int]int64{}
	m.sample(time.Unix(0, 0), own)
	if len(m.samples) == 0 {
		t.Log("this system has no account of its CPUs")
		return
	}
	if s := m.samples[0]; s.elapsed <= s.idle || s.idle <= 0 || s.tested < 0 || len(own) != 1 {
		t.Errorf("got %+v of %v, want some time that was used and some that was not", s, own)
	}
}
