package fanout

import "time"

// The pace of health.
const (
	minProbeAfter = 100 * time.Millisecond
	maxProbeAfter = 10 * time.Second
	// goneAfter is how long a session is sick before its shards go to others. Until
	// then evaluating them here costs less than moving them.
	goneAfter = 3 * time.Second
	// maxLostHedges is how many times in a row a session may be slower than a
	// shard's next owners.
	maxLostHedges = 3
	// ownFactor is how many times as long as next owners the own tables wait: the loop decides nothing while they evaluate,
	// and a pause of 100 ms, as of a container whose share of CPU is used up, is nobody's fault.
	ownFactor = 10
	// slowFactor is how many times as long as others a session may take, for its machine may be slower: what
	// patienceFor allows for, too.
	slowFactor = 3
	// forgiveAfter is how many answers make up for a relapse. Fewer would let a worker stall a round more often than
	// one in so many for ever, more would add up the stalls of a healthy one.
	forgiveAfter = 16
)

// health is whether a session may be asked. Time is passed in.
type health struct {
	sick       bool
	since      time.Time // sick since
	probeAt    time.Time // not before
	probeAfter time.Duration
	probing    bool
	lostHedges int
	// relapses is how many times it has become sick by its own fault, less what answers have made up for.
	relapses float64
}

// fail notes a failure, of a request or of a probe.
func (h *health) fail(now time.Time) {
	if !h.sick {
		h.relapses++
	}
	h.rest(now)
}

// rest keeps the session from being asked until a probe is answered, without blame.
func (h *health) rest(now time.Time) {
	if !h.sick {
		h.sick, h.since, h.probeAfter = true, now, max(h.probeAfter, minProbeAfter)
	} else if h.probing {
		h.probeAfter = min(2*h.probeAfter, maxProbeAfter)
	}
	h.probing = false
	h.lostHedges = 0
	h.probeAt = now.Add(h.probeAfter)
}

// answer notes an answer, which counts only while the session is well: one that
// was late enough to make it sick has to pass a probe first.
func (h *health) answer() {
	h.lostHedges = 0
	if !h.sick {
		h.relapses = max(h.relapses-1.0/forgiveAfter, 0)
		h.probeAfter = max(h.probeAfter-h.probeAfter/forgiveAfter, minProbeAfter)
	}
}

// recover notes that a probe was answered. The next time the session rests for longer, unless it answers meanwhile.
func (h *health) recover() {
	*h = health{relapses: h.relapses, probeAfter: min(2*h.probeAfter, maxProbeAfter)}
}

// loseHedge notes that the next owners were faster, which is no fault.
func (h *health) loseHedge(now time.Time) {
	h.lostHedges++
	if h.lostHedges >= maxLostHedges {
		h.rest(now)
	}
}

// startProbe says whether it is time for a probe, and then that it is under way.
func (h *health) startProbe(now time.Time) bool {
	if !h.sick || h.probing || now.Before(h.probeAt) {
		return false
	}
	h.probing = true
	return true
}

// gone says that others should have its shards.
func (h *health) gone(now time.Time) bool { return h.sick && now.Sub(h.since) >= goneAfter }

// pace is how fast a session answers.
type pace struct {
	// nanosPerRow is a moving average, for one row and one class.
	nanosPerRow float64
}

// What a pace starts from and stays between, and how heavy a new
// observation weighs.
const (
	firstNanosPerRow = 100
	leastNanosPerRow = 20
	mostNanosPerRow  = 10_000
	newPaceWeight    = 0.2
	// minPacedRows is the least work from which a pace can be told.
	minPacedRows = 4096
	// nanosPerSnapshotRow is generous: encode, send, decode, index.
	nanosPerSnapshotRow = 50_000
)

// observe notes how long that many row evaluations took.
func (p *pace) observe(rows int, took time.Duration) {
	if rows < minPacedRows || took <= 0 {
		return
	}
	now := min(max(float64(took)/float64(rows), leastNanosPerRow), mostNanosPerRow)
	if p.nanosPerRow == 0 {
		p.nanosPerRow = now
		return
	}
	p.nanosPerRow += newPaceWeight * (now - p.nanosPerRow)
}

// expect is how long that many row evaluations will take.
func (p *pace) expect(rows int) time.Duration {
	per := p.nanosPerRow
	if per == 0 {
		per = firstNanosPerRow
	}
	return time.Duration(per * float64(rows))
}

// patience is how long to wait for a part.
type patience struct {
	hedge    time.Duration // then the next owners are asked too
	own      time.Duration // then the own tables are asked, where there are no next owners
	deadline time.Duration // then the round waits no more
}

// maxCall is the longest deadline that a worker is told of a call. Workers refuse 10 minutes.
const maxCall = 5 * time.Minute

// How much more than the configured times a round waits at the most, whatever is to be expected: the scheduling
// loop waits with it, and it is workers that make themselves expected to be slow.
const (
	maxMoreHedge    = 500 * time.Millisecond
	maxMoreDeadline = 3 * time.Second
)

// allowed is how long a session may take for nobody to blame it, where a core of the own tables takes so long. What it
// took for the very question counts as well as the usual pace: a class or a dry run may cost many times as much.
func allowed(cfg *Config, core time.Duration) time.Duration {
	return ownFactor*cfg.HedgeAfter + slowFactor*core
}

// patienceFor is what a part with that much to do deserves: the configured times
// and a multiple of what is to be expected, up to a bound.
func patienceFor(cfg *Config, expected time.Duration, snapshotRows int) patience {
	loading := time.Duration(snapshotRows) * nanosPerSnapshotRow
	more := min(slowFactor*expected+loading, maxMoreHedge)
	return patience{
		hedge:    cfg.HedgeAfter + more,
		own:      ownFactor*cfg.HedgeAfter + more,
		deadline: cfg.Deadline + min(10*expected+2*loading, maxMoreDeadline),
	}
}

// loadingFor is how long a snapshot may take beside rounds, where nobody waits for it.
func loadingFor(cfg *Config, snapshotRows int) time.Duration {
	return cfg.Deadline + 2*time.Duration(snapshotRows)*nanosPerSnapshotRow
}

// A worker may take earlyHedgeFactor times as long as the slowest that has answered, and earlyHedgeSpare, before its
// shards' next owners are asked. These have most likely answered themselves by then, and are idle.
const (
	earlyHedgeFactor = 1.5
	earlyHedgeSpare  = 500 * time.Microsecond
)

// hedging is by how much the time until an early hedge is multiplied, at the most by maxHedging: a hedge in vain is work of another
// worker for nothing.
type hedging struct{ more float64 }

const maxHedging = 16

// factor is by how much the time until an early hedge is multiplied.
func (h *hedging) factor() float64 { return max(h.more, 1) }

// inVain notes a hedge of a part that its first owner answered sooner, paid one of a part that the next owners did.
func (h *hedging) inVain() { h.more = min(h.factor()*1.5, maxHedging) }
func (h *hedging) paid()   { h.more = h.factor() / 2 }

// earlyHedge is when, from the beginning of a round on, the parts that are open are hedged: they get as many times their
// expected time as the slowest of the answered parts took, and some more; false: fewer than half of the parts
// are answered. The time of a part with a snapshot says nothing about others, and can not be told in advance.
func earlyHedge(parts []*part) (time.Duration, bool) {
	asked, done := 0, 0
	slowest, expected := 0.0, time.Duration(0)
	for _, p := range parts {
		if p.primary.session == nil {
			continue
		}
		asked++
		switch {
		case p.tracker.primary == answered && !p.loads && p.expected > 0:
			done++
			slowest = max(slowest, float64(p.took)/float64(p.expected))
		case !p.tracker.settled && p.loads:
			return 0, false
		case !p.tracker.settled:
			expected = max(expected, p.expected)
		}
	}
	if done == 0 || 2*done < asked {
		return 0, false
	}
	return time.Duration(earlyHedgeFactor*slowest*float64(expected)) + earlyHedgeSpare, true
}
