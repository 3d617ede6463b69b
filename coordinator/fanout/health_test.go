package fanout

import (
	"testing"
	"time"
)

// at is a moment of the tests' time.
func at(d time.Duration) time.Time { return time.Unix(1000, 0).Add(d) }

func TestASickSessionIsProbedMoreAndMoreRarely(t *testing.T) {
	var h health
	h.fail(at(0))
	now := time.Duration(0)
	for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000} {
		want *= time.Millisecond
		if h.startProbe(at(now + want - 1)) {
			t.Fatalf("probe %d started before %v", i, want)
		}
		now += want
		if !h.startProbe(at(now)) {
			t.Fatalf("probe %d did not start after %v", i, want)
		}
		if h.startProbe(at(now + time.Hour)) {
			t.Fatalf("probe %d started twice", i)
		}
		h.fail(at(now))
	}
	h.startProbe(at(now + time.Hour))
	h.recover()
	if h.sick || h.startProbe(at(now+2*time.Hour)) {
		t.Fatalf("got health %+v after an answered probe, want well", h)
	}
}

func TestASessionIsGoneAfterAWhile(t *testing.T) {
	var h health
	if h.gone(at(time.Hour)) {
		t.Fatal("a session that is well is gone")
	}
	h.fail(at(0))
	h.fail(at(goneAfter - 1)) // being sick goes on, it does not start again
	if h.gone(at(goneAfter - 1)) {
		t.Fatalf("gone before %v", goneAfter)
	}
	if !h.gone(at(goneAfter)) {
		t.Fatalf("not gone after %v", goneAfter)
	}
}

func TestASessionThatLosesEveryHedgeIsSick(t *testing.T) {
	var h health
	for i := range maxLostHedges {
		if h.sick {
			t.Fatalf("sick after %d lost hedges, want %d", i, maxLostHedges)
		}
		h.loseHedge(at(0))
	}
	if !h.sick {
		t.Fatalf("well after %d lost hedges", maxLostHedges)
	}
	h = health{}
	for range 2 * maxLostHedges {
		h.loseHedge(at(0))
		h.answer()
	}
	if h.sick {
		t.Fatal("sick although it answered in between")
	}
}

func TestPatienceGrowsWithTheWork(t *testing.T) {
	cfg := Config{Deadline: 2 * time.Second, HedgeAfter: 25 * time.Millisecond}
	var p pace
	tests := []struct {
		name           string
		rows, snapshot int
		want           patience
	}{
		{"nothing to do: as configured", 0, 0, patience{hedge: 25 * time.Millisecond, own: 250 * time.Millisecond, deadline: 2 * time.Second}},
		{"a million rows at 100 ns are 100 ms", 1_000_000, 0, patience{hedge: 325 * time.Millisecond, own: 550 * time.Millisecond, deadline: 3 * time.Second}},
		{"a snapshot of 10,000 rows is half a second", 0, 10_000, patience{hedge: 525 * time.Millisecond, own: 750 * time.Millisecond, deadline: 3 * time.Second}},
		{"a snapshot of 280,000 rows: as long as a round may wait", 0, 280_000, patience{hedge: 525 * time.Millisecond, own: 750 * time.Millisecond, deadline: 5 * time.Second}},
		{"a billion rows: as long as a round may wait", 1_000_000_000, 0, patience{hedge: 525 * time.Millisecond, own: 750 * time.Millisecond, deadline: 5 * time.Second}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := patienceFor(&cfg, p.expect(tc.rows), tc.snapshot); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestPaceFollowsObservations(t *testing.T) {
	var p pace
	p.observe(minPacedRows-1, time.Hour) // too little to tell
	if got, want := p.expect(1000), 100*time.Microsecond; got != want {
		t.Fatalf("unobserved: got %v, want %v", got, want)
	}
	p.observe(100_000, 20*time.Millisecond)
	if got, want := p.expect(1000), 200*time.Microsecond; got != want {
		t.Fatalf("first observation: got %v, want %v", got, want)
	}
	for range 100 {
		p.observe(100_000, time.Microsecond)
	}
	if got, want := p.expect(1000), 20*time.Microsecond; got != want {
		t.Fatalf("it falls to its least: got %v, want %v", got, want)
	}
	p = pace{}
	p.observe(minPacedRows, time.Hour)
	if got, want := p.expect(1000), 10*time.Millisecond; got != want {
		t.Fatalf("it rises to its most: got %v, want %v", got, want)
	}
}

func TestARoundIsOverdueOnceHalfHaveAnswered(t *testing.T) {
	const ms = time.Millisecond
	remote := func(expected, took time.Duration) *part {
		p := &part{primary: &attempt{session: &session{}}, expected: expected, took: took}
		if took > 0 {
			p.tracker = tracker{primary: answered, settled: true}
		}
		return p
	}
	loading := func(p *part) *part { p.loads = true; return p }
	here := &part{primary: &attempt{}}
	cases := []struct {
		name  string
		parts []*part
		want  time.Duration
		ok    bool
	}{
		{"nobody has answered", []*part{remote(ms, 0), remote(ms, 0)}, 0, false},
		{"one of two", []*part{remote(10*ms, 10*ms), remote(10*ms, 0)}, 15500 * time.Microsecond, true},
		{"one of two, all are slower than expected", []*part{remote(10*ms, 40*ms), remote(10*ms, 0)}, 60500 * time.Microsecond, true},
		{"one of two, which has half of the work", []*part{remote(10*ms, 10*ms), remote(20*ms, 0)}, 30500 * time.Microsecond, true},
		{"one of three", []*part{remote(ms, ms), remote(ms, 0), remote(ms, 0)}, 0, false},
		{"two of three, by the slower", []*part{remote(4*ms, 4*ms), remote(4*ms, 8*ms), remote(4*ms, 0)}, 12500 * time.Microsecond, true},
		{"own tables do not count", []*part{here, remote(ms, 0)}, 0, false},
		{"one that took a snapshot says nothing", []*part{loading(remote(ms, ms)), remote(ms, 0)}, 0, false},
		{"nothing is said of one that gets a snapshot", []*part{remote(ms, ms), loading(remote(ms, 0))}, 0, false},
	}
	for _, c := range cases {
		if got, ok := earlyHedge(c.parts); got != c.want || ok != c.ok {
			t.Errorf("%s: got %v, %t; want %v, %t", c.name, got, ok, c.want, c.ok)
		}
	}
}

// To be slower than others is no fault: a session that loses all hedges is probed, and asked again.
func TestLostHedgesAreNoFault(t *testing.T) {
	s := &session{}
	for i := range 100 {
		for range maxLostHedges {
			s.health.loseHedge(at(time.Duration(i) * time.Second))
		}
		s.health.recover()
	}
	s.health.fail(at(time.Hour))
	if s.relapsed() {
		t.Error("one failure and many lost hedges: got a relapse too many")
	}
}

// A hedge in vain has the next ones wait longer, up to a bound; one that has paid has them wait half as long.
func TestHedgesInVainAreFewer(t *testing.T) {
	var h hedging
	if got := h.factor(); got != 1 {
		t.Errorf("at first: got %v, want 1", got)
	}
	for range 20 {
		h.inVain()
	}
	if got := h.factor(); got != maxHedging {
		t.Errorf("after many in vain: got %v, want %v", got, float64(maxHedging))
	}
	h.paid()
	if got := h.factor(); got != maxHedging/2 {
		t.Errorf("after one that has paid: got %v, want half as much", got)
	}
	for range 20 {
		h.paid()
	}
	if got := h.factor(); got != 1 {
		t.Errorf("after many that have paid: got %v, want 1", got)
	}
}
