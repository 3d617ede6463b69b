package queue

import (
	"math"
	"testing"
	"time"
)

func TestBackoffDurations(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name         string
		initial, max time.Duration
		want         []time.Duration // after no failure, one, two …
	}{
		{"upstream's defaults double up to ten seconds", s, 10 * s, []time.Duration{0, s, 2 * s, 4 * s, 8 * s, 10 * s, 10 * s}},
		{"a maximum that is a step is kept", s, 4 * s, []time.Duration{0, s, 2 * s, 4 * s, 4 * s}},
		{"an initial backoff above the maximum is the maximum", 20 * s, 10 * s, []time.Duration{0, 10 * s, 10 * s}},
		{"a maximum of nothing means no backoff", s, 0, []time.Duration{0, 0, 0, 0}},
		{"a negative maximum means no backoff", s, -1, []time.Duration{0, 0, 0, 0}},
		{"half seconds double as well", s / 2, 10 * s, []time.Duration{0, s / 2, s, 2 * s}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := backoffs{initial: c.initial, max: c.max}
			for n, want := range c.want {
				if got := b.duration(n); got != want {
					t.Errorf("after %d failures: got %s, want %s", n, got, want)
				}
			}
		})
	}
}

func TestBackoffDurationNeverOverflows(t *testing.T) {
	b := backoffs{initial: time.Second, max: math.MaxInt64}
	last := time.Duration(0)
	for n := range 200 {
		got := b.duration(n)
		if got < last {
			t.Fatalf("after %d failures: got %s, want at least %s", n, got, last)
		}
		last = got
	}
	if got := b.duration(math.MaxInt); got != math.MaxInt64 {
		t.Errorf("after very many failures: got %s, want the maximum", got)
	}
}

// TestBackoffWindows holds where in its second a pod fails against how long it waits:
// from duration − 1 s (not included) to duration + 1 s.
func TestBackoffWindows(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name           string
		failed         time.Duration // after the full second
		count          int
		until, waitEnd time.Duration
	}{
		{"at the full second: two seconds for one", 0, 1, 1000 * ms, 2000 * ms},
		{"a moment after it", 1, 1, 1000 * ms, 2000 * ms},
		{"in the middle", 500 * ms, 1, 1000 * ms, 2000 * ms},
		{"at its end: a moment more than one second for one", 1000*ms - 1, 1, 1000 * ms, 2000 * ms},
		{"the next second", 1000 * ms, 1, 2000 * ms, 3000 * ms},
		{"the second failure", 500 * ms, 2, 2000 * ms, 3000 * ms},
		{"the fifth", 500 * ms, 5, 10000 * ms, 11000 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := backoffs{initial: DefaultInitialBackoff, max: DefaultMaxBackoff}
			p := &Pod{Timestamp: start.Add(c.failed), UnschedulableCount: c.count}
			p.BackoffUntil = b.until(p, p.Timestamp)
			if got, want := p.BackoffUntil.Sub(start), c.until; got != want {
				t.Fatalf("until: got %s, want %s", got, want)
			}
			end := start.Add(c.waitEnd)
			if got := backoffOver(p); !got.Equal(end) {
				t.Errorf("over: got %s, want %s", got.Sub(start), c.waitEnd)
			}
			if !isBackingOff(p, end.Add(-1)) {
				t.Errorf("an instant before %s: got no backoff, want it to last", c.waitEnd)
			}
			if isBackingOff(p, end) {
				t.Errorf("at %s: got backoff, want it to be over", c.waitEnd)
			}
			d := b.duration(c.count)
			if wait := end.Sub(p.Timestamp); wait <= d-time.Second || wait > d+time.Second {
				t.Errorf("waits %s, want more than %s and at most %s", wait, d-time.Second, d+time.Second)
			}
		})
	}
}

func TestErrorsCountBeforeRejections(t *testing.T) {
	b := backoffs{initial: DefaultInitialBackoff, max: DefaultMaxBackoff}
	for _, c := range []struct{ rejected, errors, want int }{
		{0, 0, 0}, {3, 0, 4}, {0, 2, 2}, {4, 1, 1}, {1, 4, 8},
	} {
		p := &Pod{UnschedulableCount: c.rejected, ErrorCount: c.errors}
		until, got := b.until(p, start), 0
		if !until.IsZero() {
			got = int(until.Sub(start) / time.Second)
		}
		if got != c.want {
			t.Errorf("%d rejections, %d errors: got %d s, want %d s", c.rejected, c.errors, got, c.want)
		}
	}
}
