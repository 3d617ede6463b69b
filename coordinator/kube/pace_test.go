package kube

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// server answers as one that works on so many requests at once: the others wait.
type server struct {
	atOnce int
	takes  time.Duration
}

// load has a pace send requests to a server for a time, of as many workers as it allows at the most, and returns how
// many were under way on average in the second half, and how many were answered then.
func (s *server) load(ctx context.Context, p *pace, d time.Duration) (underWay float64, answered int) {
	slots := make(chan struct{}, s.atOnce)
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	begin, busy := time.Now(), time.Duration(0)
	done := make(chan struct{})
	workers := int(p.most)
	for range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			for p.begin(ctx) {
				sent := time.Now()
				slots <- struct{}{}
				time.Sleep(s.takes) // synctest's clock: it takes no time
				<-slots
				took := time.Since(sent)
				if p.end(time.Now(), took, ok); time.Since(begin) > d/2 {
					p.mu.Lock()
					busy += took
					answered++
					p.mu.Unlock()
				}
			}
		}()
	}
	for range workers {
		<-done
	}
	return busy.Seconds() / (d / 2).Seconds(), answered
}

func TestAPaceLeavesASlowServerAlone(t *testing.T) {
	for name, c := range map[string]struct {
		server          server
		atLeast, atMost float64 // under way
	}{
		"a server that has room for all":  {server{64, 4 * time.Millisecond}, 15.5, 17},
		"a far one that has room for all": {server{64, 200 * time.Millisecond}, 15.5, 17},
		"one that does two at once":       {server{2, 4 * time.Millisecond}, 1.5, 10},
		"one that does one at once":       {server{1, 20 * time.Millisecond}, 0.75, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPace(16)
				underWay, answered := c.server.load(t.Context(), p, 20*time.Second)
				if underWay < c.atLeast-0.1 || underWay > c.atMost+0.1 {
					t.Errorf("%.1f under way on average, want %.1f to %.1f", underWay, c.atLeast, c.atMost)
				}
				if most := 10 * time.Second / c.server.takes * time.Duration(min(c.server.atOnce, 16)); answered < int(most)*3/4 {
					t.Errorf("%d answered in 10 s, want three quarters of the %d that the server can do", answered, most)
				}
				if p.running != 0 {
					t.Errorf("%d under way in the end", p.running)
				}
			})
		})
	}
}

func TestAPaceGrowsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(16)
		if slow, _ := (&server{1, 5 * time.Millisecond}).load(t.Context(), p, 20*time.Second); slow > 8 {
			t.Errorf("%.1f under way at a busy server, want few", slow)
		}
		if quick, _ := (&server{64, 5 * time.Millisecond}).load(t.Context(), p, 20*time.Second); quick < 15.5 {
			t.Errorf("%.1f under way at a server that has room again, want 16", quick)
		}
	})
}

func TestAPaceRestsWhereEachAnswerIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(16)
		if !p.begin(t.Context()) {
			t.Fatal("the first may not begin")
		}
		p.end(time.Now(), time.Millisecond, ok)
		underWay, _ := (&server{64, 50 * time.Millisecond}).load(t.Context(), p, 20*time.Second)
		if underWay < 0.4 || underWay > 0.6 {
			t.Errorf("%.1f under way on average, want a half", underWay)
		}
	})
}

// Who makes the API server refuse at once, or can not reach it, does not set the measure.
func TestWhatIsNotWrittenSetsNoPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(16)
		for _, v := range []verdict{refused, notSent, deposed} {
			for range 100 {
				p.begin(t.Context())
				p.end(time.Now(), 100*time.Microsecond, v)
			}
		}
		if underWay, _ := (&server{64, 20 * time.Millisecond}).load(t.Context(), p, 20*time.Second); underWay < 15.5 {
			t.Errorf("%.1f under way after quick refusals, want 16", underWay)
		}
		for range 100 {
			p.begin(t.Context())
			p.end(time.Now(), 100*time.Microsecond, throttled)
		}
		if p.allowed != 0.5 {
			t.Errorf("%.1f are allowed after the API server has said 100 times that it has too much to do, want a half", p.allowed)
		}
	})
}

func TestAPaceEndsWithItsContext(t *testing.T) {
	p := newPace(1)
	if !p.begin(t.Context()) {
		t.Fatal("the first may not begin")
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan bool)
	go func() { waits <- p.begin(ctx) }()
	cancel()
	if <-waits {
		t.Error("one more begins after its context has ended")
	}
	p.end(time.Now(), time.Millisecond, ok)
	if !p.begin(t.Context()) {
		t.Error("none begins after the first was answered")
	}
}
