package kube

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// paceWindow is for how long the quickest answer counts, up to twice that.
	paceWindow = time.Minute
	// slowTimes and slowAnyway are what makes an answer slow: more than so many times the quickest, and so much.
	slowTimes, slowAnyway = 3, 5 * time.Millisecond
	// longestRest bounds what one answer that never came costs.
	longestRest = time.Second
)

// pace bounds how many writes are under way for which nobody waits, such as conditions and events of pods that
// fail: as many as the API server answers without becoming slower. Binds and the API server's other clients have the
// rest, whoever makes pods that fail.
//
//	slow, refused for now, or none    half a request fewer; with half a one, there is a rest after each, as long as it took
//	any other that was written        one more, once all that are allowed were answered
//
// What is refused for good, or was never sent, says nothing of the API server: who makes it refuse much is not to set
// the measure.
type pace struct {
	mu      sync.Mutex
	free    *sync.Cond
	most    float64
	allowed float64
	running int
	rest    time.Time // until when none begins
	// quickest is the shortest answer in the window that began at since, and in the one before; 0: none.
	quickest, quickestBefore time.Duration
	since                    time.Time
}

// newPace allows most requests to begin with.
func newPace(most int) *pace {
	p := &pace{most: float64(most), allowed: float64(most)}
	p.free = sync.NewCond(&p.mu)
	return p
}

// begin waits until one more may be under way. It reports false when ctx ended meanwhile.
func (p *pace) begin(ctx context.Context) bool {
	defer context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free.Broadcast()
	})()
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil {
		if d := time.Until(p.rest); d > 0 {
			p.mu.Unlock()
			pause(ctx, clock.RealClock{}, d)
			p.mu.Lock()
		} else if float64(p.running) < p.allowed {
			break
		} else {
			p.free.Wait()
		}
	}
	if ctx.Err() != nil {
		return false
	}
	p.running++
	return true
}

// end takes in what became of one.
func (p *pace) end(now time.Time, took time.Duration, v verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.free.Broadcast()
	p.running--
	if v != ok && v != throttled && v != open {
		return
	}
	if v == ok && took <= slowTimes*p.least(now, took)+slowAnyway {
		p.allowed = min(p.most, p.allowed+1/p.allowed)
		return
	}
	if p.allowed = max(0.5, p.allowed-0.5); p.allowed < 1 {
		p.rest = now.Add(min(took, longestRest))
	}
}

// least is the quickest answer of late, with the one that took so long just now.
func (p *pace) least(now time.Time, took time.Duration) time.Duration {
	switch age := now.Sub(p.since); {
	case age > 2*paceWindow:
		p.quickestBefore, p.quickest, p.since = 0, took, now
	case age > paceWindow:
		p.quickestBefore, p.quickest, p.since = p.quickest, took, now
	default:
		p.quickest = min(p.quickest, took)
	}
	if p.quickestBefore == 0 {
		return p.quickest
	}
	return min(p.quickest, p.quickestBefore)
}
